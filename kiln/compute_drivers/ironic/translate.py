"""Translation of Ironic's allocations and nodes to amphorae; pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.ironic.building.flavors import Flavor
from kiln.exceptions import AmphoraBuildError, InsufficientCapacity
from kiln.models import Address, Amphora, AmphoraType, Attachment, State

#: The key of ``extra`` under which an allocation has all that kiln knows of its amphora.
FACTS = 'kiln'
#: The zone of nodes that name none.
DEFAULT_ZONE = 'default'

#: The fields that are read of nodes. Not ``instance_info``: it has the config drive.
NODE_FIELDS = (
    'uuid', 'name', 'instance_uuid', 'provision_state', 'target_provision_state',
    'power_state', 'target_power_state', 'maintenance', 'maintenance_reason', 'fault',
    'last_error', 'provision_updated_at', 'resource_class', 'conductor_group', 'properties',
    'network_data', 'network_interface', 'protected', 'reservation',
)  # fmt: skip
#: The fields whose values ``raw`` shows; a clock or a lock changes none of them.
_RAW_NODE = (
    'uuid', 'name', 'provision_state', 'target_provision_state', 'power_state',
    'target_power_state', 'maintenance', 'maintenance_reason', 'fault', 'last_error',
    'resource_class', 'conductor_group',
)  # fmt: skip
_RAW_ALLOCATION = ('uuid', 'name', 'state', 'node_uuid', 'resource_class', 'traits', 'last_error')

#: States of a node that a claim holds, before its first deploy has ended.
_COMING = frozenset({'available', 'deploying', 'wait call-back', 'deploy hold', 'deploy failed'})
_RUNNING = ('active', 'rescue', 'rescuing', 'rescue wait', 'unrescuing')
_SERVICING = ('servicing', 'service wait', 'service hold')
_FAILED = (
    'deploy failed', 'error', 'adopt failed', 'rescue failed', 'unrescue failed',
    'service failed',
)  # fmt: skip
_LEAVING = (
    'deleting', 'deleted', 'cleaning', 'clean wait', 'clean hold', 'clean failed',
)  # fmt: skip
_STATES: Mapping[str | None, State] = {
    # Claimed, and its deploy is not requested yet.
    'available': State.PENDING,
    **dict.fromkeys(('deploying', 'wait call-back', 'deploy hold'), State.BUILDING),
    **dict.fromkeys((*_RUNNING, *_SERVICING), State.ACTIVE),
    **dict.fromkeys(_FAILED, State.ERROR),
    # The claim ends before the node is cleaned.
    **dict.fromkeys(_LEAVING, State.DELETING),
}
_NO_NODE = re.compile(
    'no available nodes|none of the requested nodes|no suitable nodes|could not reserve|'
    'filtered out during reservation'
)


def facts_of(allocation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what kiln has written on an allocation; nothing if it is not kiln's."""
    found = (allocation.get('extra') or {}).get(FACTS)
    return found if isinstance(found, Mapping) else {}


def unclaimed(
    node: Mapping[str, Any], allocation: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what stands for the claim of an instance that others have deployed.

    It has the facts that a claim writes on it, without an owner and a key.
    """
    info = node.get('instance_info') or {}
    traits = tuple(sorted(info.get('traits') or ()))
    facts: dict[str, Any] = {
        'name': str(info.get('display_name') or node.get('name') or ''),
        'flavor': str(Flavor(resource_class=str(node.get('resource_class')), traits=traits)),
        'image': image_of(info),
        'metadata': {},
    }
    if allocation is None:
        facts['since'] = node.get('provision_updated_at')
        allocation = {
            'uuid': node['instance_uuid'], 'name': None, 'state': 'active', 'traits': [],
            'node_uuid': node['uuid'], 'resource_class': node.get('resource_class'),
            'last_error': None, 'created_at': None,
        }  # fmt: skip
    return {
        **allocation,
        'extra': {**(allocation.get('extra') or {}), FACTS: facts},
        # What Nova writes on each node that has one of its servers.
        'of_nova': 'nova_host_id' in info,
    }


def is_allocated(claim: Mapping[str, Any]) -> bool:
    """Return True if Ironic has an allocation for a claim."""
    return claim.get('created_at') is not None


def image_of(info: Mapping[str, Any]) -> str | None:
    """Return the image of an instance as a build names it; reads what image_info() writes."""
    source = info.get('image_source') or info.get('boot_iso')
    name, digest = info.get('image_os_hash_algo'), info.get('image_os_hash_value')
    if source and name and digest:
        return f'{source}#{name}={digest}'
    return str(source) if source else None


def nics_of(claim: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a claim keeps of its ports, by their ids, the first one first."""
    found: Mapping[str, dict[str, Any]] = facts_of(claim).get('nics') or {}
    return dict(sorted(found.items(), key=lambda one: one[1]['at']))


def nic_of(port: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return what a claim keeps of a port: lists need no request to Neutron then."""
    return {
        'at': at,
        'network': port['network_id'],
        'mac': port['mac_address'],
        'addresses': [one['ip_address'] for one in port['fixed_ips']],
    }


def is_described(nic: Mapping[str, Any]) -> bool:
    """Return True if a claim keeps more of a port than that it is to have it."""
    return 'network' in nic


def attachment_of(amphora_id: str, port: Mapping[str, Any]) -> Attachment:
    """Return the attachment of a port of Neutron."""
    return Attachment(
        amphora_id=amphora_id,
        port_id=port['id'],
        network_id=port['network_id'],
        addresses=tuple(one['ip_address'] for one in port['fixed_ips']),
        subnet_ids=tuple(one['subnet_id'] for one in port['fixed_ips']),
    )


def is_of(allocation: Mapping[str, Any], owner: str, build_key: str | None = None) -> bool:
    """Return True if an allocation is of an owner, and of a build."""
    facts = facts_of(allocation)
    return facts.get('owner') == owner and build_key in (None, facts.get('build_key'))


def is_leaving(allocation: Mapping[str, Any]) -> bool:
    """Return True if the delete of an amphora was accepted."""
    return bool(facts_of(allocation).get('deleting'))


def state_of(allocation: Mapping[str, Any], node: Mapping[str, Any] | None) -> State:
    """Return the state of an amphora."""
    if is_leaving(allocation):
        return State.DELETING
    if allocation.get('state') == 'error':
        return State.ERROR
    if node is None:
        return State.PENDING
    if not holds(allocation, node):
        # Not read as claimed yet; or undeployed, and the allocation ends in a moment.
        return State.PENDING if node.get('provision_state') == 'available' else State.DELETING
    state = _STATES.get(node.get('provision_state'), State.UNKNOWN)
    if state is not State.ACTIVE:
        return state
    power = node.get('power_state')
    if power == 'power off':
        # Ironic does not tell who switched it off.
        return State.SUSPENDED
    return State.ACTIVE if power == 'power on' else State.UNKNOWN


def holds(allocation: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return True if a node belongs to an allocation."""
    return bool(node.get('instance_uuid') == allocation['uuid'])


def task_of(allocation: Mapping[str, Any], node: Mapping[str, Any] | None) -> str | None:
    """Return what Ironic does with an amphora now, in its own words."""
    state = state_of(allocation, node)
    if state is State.PENDING:
        return 'allocating' if node is None else 'allocated'
    if node is None or state is State.ERROR:
        return None
    provision = node.get('provision_state')
    if provision != 'active':
        return str(provision)
    target = node.get('target_power_state')
    return None if target is None else f'to {target}'


def served(allocation: Mapping[str, Any], node: Mapping[str, Any] | None) -> bool:
    """Return True if an amphora has ever run."""
    if facts_of(allocation).get('served'):
        return True
    return node is not None and node.get('provision_state') not in _COMING


def amphora_of(
    allocation: Mapping[str, Any],
    node: Mapping[str, Any] | None,
    *,
    zone_property: str | None = None,
    fault: str | None = None,
) -> Amphora:
    """Return the amphora of an allocation and its node; ``fault`` is from the node's history."""
    facts = facts_of(allocation)
    state = state_of(allocation, node)
    fault = fault_of(allocation, node, fault)
    has_run = served(allocation, node)
    return Amphora(
        id=allocation['uuid'],
        name=str(facts.get('name') or ''),
        state=state,
        amphora_type=AmphoraType.BARE_METAL,
        build_key=facts.get('build_key'),
        owner=facts.get('owner'),
        flavor=facts.get('flavor') or _class_of(allocation),
        image_id=facts.get('image') or facts.get('source'),
        availability_zone=facts.get('zone') if node is None else zone_of(node, zone_property),
        addresses=tuple(addresses_of(node or {}, nics_of(allocation))),
        metadata=MappingProxyType(dict(facts.get('metadata') or {})),
        created_at=seconds_of(facts.get('since') or allocation.get('created_at')),
        fault=fault,
        fault_code=_code(allocation) if state is State.ERROR and not has_run else None,
        task_state=task_of(allocation, node),
        served=has_run,
        raw=_raw(allocation, node),
    )


def as_built(allocation: Mapping[str, Any]) -> Amphora:
    """Return an amphora with the flavor and the image of its request; None if it named none."""
    facts = facts_of(allocation)
    return Amphora(
        id=allocation['uuid'],
        name=str(facts.get('name') or ''),
        state=State.PENDING,
        amphora_type=AmphoraType.BARE_METAL,
        flavor=facts.get('flavor'),
        image_id=facts.get('image'),
    )


def fault_of(
    allocation: Mapping[str, Any], node: Mapping[str, Any] | None, history: str | None = None
) -> str | None:
    """Return why an amphora failed, or why its node is not well."""
    if allocation.get('state') == 'error':
        return str(allocation.get('last_error') or 'no reason given')
    if node is None:
        return None
    if state_of(allocation, node) is State.ERROR:
        return str(history or node.get('last_error') or 'no reason given')
    if node.get('maintenance') or node.get('fault'):
        told = node.get('maintenance_reason') or node.get('last_error')
        return f'{node.get("fault") or "in maintenance"}: {told or "no reason given"}'
    return None


def reason_of(history: Iterable[Mapping[str, Any]], since: float | None) -> str | None:
    """Return the newest error in the history of a node since a time."""
    errors = [
        (str(event.get('created_at')), str(event['event']))
        for event in history
        if event.get('severity') == 'ERROR'
        and event.get('event')
        # That a flow of steps has ended is an error, too, beside the one that has ended it.
        and not str(event.get('event_type')).endswith('_end')
        and (seconds_of(event.get('created_at')) or 0.0) >= (since or 0.0)
    ]
    return max(errors)[1] if errors else None


def zone_of(node: Mapping[str, Any], zone_property: str | None) -> str:
    """Return the zone of a node: a property of it, or its conductor group."""
    if zone_property:
        return str((node.get('properties') or {}).get(zone_property) or DEFAULT_ZONE)
    return str(node.get('conductor_group') or DEFAULT_ZONE)


def addresses_of(
    node: Mapping[str, Any], nics: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> Iterator[Address]:
    """Yield the addresses of the ports of an amphora, or those in the network data of its node.

    The operator of the node has written its network data.
    """
    for port_id, nic in nics.items():
        for text in nic.get('addresses') or ():
            yield Address(address=text, network_id=nic['network'], port_id=port_id, mac=nic['mac'])
    if nics:
        return
    data = node.get('network_data')
    if not isinstance(data, Mapping):
        return
    macs = {link.get('id'): link.get('ethernet_mac_address') for link in data.get('links') or ()}
    for network in data.get('networks') or ():
        if text := str(network.get('ip_address') or '').partition('/')[0]:
            yield Address(address=text, mac=macs.get(network.get('link')) or None)


def seconds_of(moment: str | None) -> float | None:
    """Return a time of Ironic's in seconds since the epoch."""
    if not moment:
        return None
    try:
        parsed = datetime.datetime.fromisoformat(moment)
    except ValueError:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    return parsed.timestamp()


def _class_of(allocation: Mapping[str, Any]) -> str | None:
    found = allocation.get('resource_class')
    if not found:
        return None
    return str(Flavor(resource_class=found, traits=tuple(sorted(allocation.get('traits') or ()))))


def _code(allocation: Mapping[str, Any]) -> str:
    lacks = allocation.get('state') == 'error' and no_node(allocation)
    return InsufficientCapacity.code if lacks else AmphoraBuildError.code


def no_node(allocation: Mapping[str, Any]) -> bool:
    """Return True if an allocation failed because no node was free."""
    return _NO_NODE.search(str(allocation.get('last_error'))) is not None


def _raw(allocation: Mapping[str, Any], node: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {
        'allocation': {name: allocation.get(name) for name in _RAW_ALLOCATION},
        'node': None if node is None else {name: node.get(name) for name in _RAW_NODE},
    }
