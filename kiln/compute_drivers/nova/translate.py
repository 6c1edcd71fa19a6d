"""Translation of Nova servers to amphorae and statuses; pure."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.nova.api.errors import fault_code
from kiln.models import (
    Address,
    Amphora,
    AmphoraType,
    Attachment,
    ComputeStatus,
    ServerGroup,
    State,
)

# Tags, because they can be set in the request that creates a server, and lists
# can be filtered by them without special rights.
KEY_TAG = 'kiln-key:'
OWNER_TAG = 'kiln-site:'
#: The site of a server that belongs to a stack, which the driver of Heat has made.
STACK_OWNER_TAG = 'kiln-heat:'
# Nova omits these facts in some answers, so they are kept as metadata.
RESERVED = 'kiln:'
FLAVOR, IMAGE, GROUP, TYPE = 'kiln:flavor', 'kiln:image', 'kiln:group', 'kiln:type'

_STATES = {
    'active': State.ACTIVE,
    # It runs with the new flavor until the resize is confirmed or reverted.
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
# The time when it first became ACTIVE; null until then.
_LAUNCHED = 'OS-SRV-USG:launched_at'
# Visible to administrators; it holds keys and certificates.
_HIDDEN = 'OS-EXT-SRV-ATTR:user_data'


def state_of(server: Mapping[str, Any]) -> State:
    """Return the state of a server."""
    vm_state = server.get('OS-EXT-STS:vm_state')
    task_state = server.get('OS-EXT-STS:task_state')
    # The servers of a cell that is down have the status 'UNKNOWN' and hardly any
    # other field.
    state = _STATES.get(vm_state or '', State.UNKNOWN)
    if task_state in _LEAVING and state is not State.DELETED:
        return State.DELETING
    if state is State.BUILDING and task_state in _EARLY:
        return State.PENDING
    return state


def amphora_of(server: Mapping[str, Any]) -> Amphora:
    """Return the amphora for a server from any answer with details."""
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
        addresses=tuple(_by_port(server.get('addresses') or {})),
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
    """Return a server with the flavor and image of its request; None if it named none.

    Nova's own flavor and image can differ from the request, which can name either
    by an id, a name or a tag.
    """
    metadata = server.get('metadata') or {}
    return dataclasses.replace(
        amphora_of(server), flavor=metadata.get(FLAVOR), image_id=metadata.get(IMAGE)
    )


def placed_on(amphora: Amphora, interfaces: Iterable[Mapping[str, Any]]) -> Amphora:
    """Return the amphora with the port and network ids of its addresses.

    A server shows only the names of its networks, and several networks can have
    the same name.
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
    """Return the status for a server from any answer with details."""
    return amphora_of(server).status(observed_at)


def key_of(server: Mapping[str, Any]) -> str | None:
    """Return the build key of a server."""
    return _tagged(server.get('tags') or (), KEY_TAG)


def owner_of(server: Mapping[str, Any]) -> str | None:
    """Return the site that a server belongs to."""
    return _tagged(server.get('tags') or (), OWNER_TAG)


def is_of(server: Mapping[str, Any], owner: str, build_key: str | None = None) -> bool:
    """Return True if a server in a list by tags is of an owner, and of a build.

    Nova on MySQL compares tags without regard to capitals.
    """
    if 'tags' not in server:
        return True
    return owner_of(server) == owner and build_key in (None, key_of(server))


def is_built(server: Mapping[str, Any]) -> bool:
    """Return True if kiln has built a server, and not claimed it."""
    return TYPE in (server.get('metadata') or {})


def fault_of(server: Mapping[str, Any]) -> str | None:
    """Return the message of a server's fault."""
    fault = server.get('fault')
    return str(fault.get('message') or 'no reason given') if fault else None


def attachment_of(amphora_id: str, interface: Mapping[str, Any]) -> Attachment:
    """Return the attachment for one interface of a server."""
    fixed_ips = interface.get('fixed_ips') or ()
    return Attachment(
        amphora_id=amphora_id,
        port_id=interface['port_id'],
        network_id=interface.get('net_id'),
        addresses=tuple(one['ip_address'] for one in fixed_ips),
        subnet_ids=tuple(one['subnet_id'] for one in fixed_ips),
    )


def group_of(group: Mapping[str, Any]) -> ServerGroup:
    """Return a server group; before microversion 2.64 it has a list of policies."""
    return ServerGroup(
        id=group['id'],
        name=group['name'],
        policy=group.get('policy') or ','.join(group.get('policies') or ()),
        member_ids=tuple(group.get('members') or ()),
    )


def seconds_of(moment: str | None) -> float | None:
    """Return the seconds since the epoch for an OpenStack timestamp."""
    try:
        parsed = datetime.datetime.fromisoformat(moment or '')
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    return parsed.timestamp()


def moment_of(seconds: float) -> str:
    """Return a timestamp for a filter of Nova, in whole seconds."""
    moment = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    return moment.strftime('%Y-%m-%dT%H:%M:%SZ')


def _type_of(metadata: Mapping[str, Any]) -> AmphoraType:
    # Users who can change the metadata of a server can write any value there.
    try:
        return AmphoraType(metadata.get(TYPE, AmphoraType.VM))
    except ValueError:
        return AmphoraType.VM


def _by_port(networks: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[Address]:
    """Yield the addresses of all networks; those of one port follow each other."""
    for network in networks.values():
        # Nova lists the fixed addresses of all ports on a network, and then the floating ones.
        ports: dict[str | None, list[Address]] = {}
        for one in network:
            if one.get('addr'):
                mac = one.get('OS-EXT-IPS-MAC:mac_addr')
                ports.setdefault(mac, []).append(Address(address=one['addr'], mac=mac))
        yield from itertools.chain.from_iterable(ports.values())


def _raw(server: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({key: value for key, value in server.items() if key != _HIDDEN})


def _tagged(tags: Any, prefix: str) -> str | None:
    for tag in tags:
        if tag.startswith(prefix):
            return str(tag).removeprefix(prefix)
    return None
