"""From Nova's servers to kiln's amphorae; pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.nova.errors import fault_code
from kiln.models import (
    Address,
    Amphora,
    AmphoraType,
    Attachment,
    ComputeStatus,
    ServerGroup,
    State,
)

# Tags, as they can be set in the very step that creates a server, and lists
# can be filtered by them without any special right.
KEY_TAG = 'kiln-key:'
OWNER_TAG = 'kiln-site:'
# What Nova shows in some answers and not in others is kept as metadata.
RESERVED = 'kiln:'
FLAVOR, IMAGE, GROUP, TYPE = 'kiln:flavor', 'kiln:image', 'kiln:group', 'kiln:type'

_STATES = {
    'active': State.ACTIVE,
    # It runs, from the new flavor, until somebody confirms or reverts.
    'resized': State.ACTIVE,
    'building': State.BUILDING,
    'suspended': State.SUSPENDED,
    'paused': State.STOPPED,
    'stopped': State.STOPPED,
    'shelved': State.STOPPED,
    'shelved_offloaded': State.STOPPED,
    'error': State.ERROR,
    'soft-delete': State.DELETING,
    'deleted': State.DELETED,
}
_LEAVING = frozenset({'deleting', 'soft-deleting'})
_EARLY = frozenset({None, 'scheduling'})
# When it was ACTIVE for the first time; null until then.
_LAUNCHED = 'OS-SRV-USG:launched_at'
# Shown to administrators, and holds keys and certificates.
_HIDDEN = 'OS-EXT-SRV-ATTR:user_data'


def state_of(server: Mapping[str, Any]) -> State:
    """Return where a server is in its life."""
    vm_state = server.get('OS-EXT-STS:vm_state')
    task_state = server.get('OS-EXT-STS:task_state')
    # A cell that is down leaves its servers out of reach: 'UNKNOWN', and
    # nearly every other field absent.
    state = _STATES.get(vm_state or '', State.UNKNOWN)
    if task_state in _LEAVING and state is not State.DELETED:
        return State.DELETING
    if state is State.BUILDING and task_state in _EARLY:
        return State.PENDING
    return state


def amphora_of(server: Mapping[str, Any]) -> Amphora:
    """Return a server, from any answer with its details, as an amphora."""
    metadata = server.get('metadata') or {}
    state = state_of(server)
    fault = fault_of(server)
    return Amphora(
        id=server['id'],
        name=server.get('name') or '',
        state=state,
        amphora_type=_type_of(metadata),
        build_key=key_of(server),
        owner=owner_of(server),
        flavor=metadata.get(FLAVOR) or (server.get('flavor') or {}).get('original_name'),
        image_id=metadata.get(IMAGE) or (server.get('image') or {}).get('id'),
        availability_zone=server.get('OS-EXT-AZ:availability_zone') or None,
        server_group_id=metadata.get(GROUP),
        addresses=tuple(
            Address(address=one['addr'], mac=one.get('OS-EXT-IPS-MAC:mac_addr'))
            for network in (server.get('addresses') or {}).values()
            for one in network
            if one.get('addr')
        ),
        metadata=MappingProxyType(
            {key: value for key, value in metadata.items() if not key.startswith(RESERVED)}
        ),
        created_at=seconds_of(server.get('created')),
        fault=fault,
        fault_code=fault_code(fault),
        task_state=server.get('OS-EXT-STS:task_state'),
        served=server[_LAUNCHED] is not None if _LAUNCHED in server else None,
        raw=_raw(server),
    )


def as_built(server: Mapping[str, Any]) -> Amphora:
    """Return a server as it was asked for: what nobody asked for is None.

    Nova's own words for flavor and image are not those of a request, which may have
    named either by an id, a name or a tag.
    """
    metadata = server.get('metadata') or {}
    return dataclasses.replace(
        amphora_of(server), flavor=metadata.get(FLAVOR), image_id=metadata.get(IMAGE)
    )


def placed_on(amphora: Amphora, interfaces: Iterable[Mapping[str, Any]]) -> Amphora:
    """Return an amphora whose addresses tell their ports and networks.

    Of a network a server shows nothing but its name, which another may have too.
    """
    hung = {interface.get('mac_addr'): interface for interface in interfaces}
    addresses = tuple(
        dataclasses.replace(
            address,
            network_id=hung.get(address.mac, {}).get('net_id'),
            port_id=hung.get(address.mac, {}).get('port_id'),
        )
        for address in amphora.addresses
    )
    return dataclasses.replace(amphora, addresses=addresses)


def status_of(server: Mapping[str, Any], observed_at: float) -> ComputeStatus:
    """Return the status of a server, from any answer with its details."""
    fault = fault_of(server)
    return ComputeStatus(
        amphora_id=server['id'],
        state=state_of(server),
        fault=fault,
        fault_code=fault_code(fault),
        task_state=server.get('OS-EXT-STS:task_state'),
        observed_at=observed_at,
        raw=_raw(server),
    )


def key_of(server: Mapping[str, Any]) -> str | None:
    """Return the build key of a server."""
    return _tagged(server.get('tags') or (), KEY_TAG)


def owner_of(server: Mapping[str, Any]) -> str | None:
    """Return the site that a server belongs to."""
    return _tagged(server.get('tags') or (), OWNER_TAG)


def fault_of(server: Mapping[str, Any]) -> str | None:
    """Return Nova's words for what went wrong with a server."""
    fault = server.get('fault')
    return str(fault.get('message') or 'no reason given') if fault else None


def attachment_of(amphora_id: str, interface: Mapping[str, Any]) -> Attachment:
    """Return one of the interfaces of a server."""
    fixed_ips = interface.get('fixed_ips') or ()
    return Attachment(
        amphora_id=amphora_id,
        port_id=interface['port_id'],
        network_id=interface.get('net_id'),
        addresses=tuple(one['ip_address'] for one in fixed_ips),
        subnet_ids=tuple(one['subnet_id'] for one in fixed_ips),
    )


def group_of(group: Mapping[str, Any]) -> ServerGroup:
    """Return a server group; before 2.64 it has a list of policies."""
    return ServerGroup(
        id=group['id'],
        name=group['name'],
        policy=group.get('policy') or ','.join(group.get('policies') or ()),
        member_ids=tuple(group.get('members') or ()),
    )


def seconds_of(moment: str | None) -> float | None:
    """Return seconds since the epoch for a moment as OpenStack writes it."""
    try:
        parsed = datetime.datetime.fromisoformat(moment or '')
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    return parsed.timestamp()


def moment_of(seconds: float) -> str:
    """Return a moment as Nova reads it in a filter; it knows whole seconds."""
    moment = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    return moment.strftime('%Y-%m-%dT%H:%M:%SZ')


def _type_of(metadata: Mapping[str, Any]) -> AmphoraType:
    # Whoever may change the metadata of a server can write anything there.
    try:
        return AmphoraType(metadata.get(TYPE, AmphoraType.VM))
    except ValueError:
        return AmphoraType.VM


def _raw(server: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({key: value for key, value in server.items() if key != _HIDDEN})


def _tagged(tags: Any, prefix: str) -> str | None:
    for tag in tags:
        if tag.startswith(prefix):
            return str(tag).removeprefix(prefix)
    return None
