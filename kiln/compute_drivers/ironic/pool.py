"""Nodes of Ironic as their operator sees them, with those whose cleaning failed; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, Standing
from kiln.compute_drivers.ironic import translate
from kiln.models import AmphoraType

#: States of a node that nobody has, and whose last user left something behind.
_UNCLEAN = frozenset({'clean failed', 'error'})
_CLEANING = frozenset({'deleting', 'cleaning', 'clean wait', 'clean hold'})
#: How an operator brings a node back, by the state that it is in: the provision targets.
_WAYS: Mapping[str, Sequence[str]] = {
    'available': (),
    'manageable': ('provide',),
    'clean failed': ('manage', 'provide'),
    'error': ('deleted',),
}


def machines(
    nodes: Iterable[Mapping[str, Any]],
    claims: Iterable[Mapping[str, Any]],
    zone_property: str | None,
) -> Iterator[EnrolledMachine]:
    """Yield the nodes, by name, each with its amphora and the reason why it is not free."""
    by_id = {claim['uuid']: claim for claim in claims}
    for node in sorted(nodes, key=name_of):
        claim = by_id.get(node.get('instance_uuid') or '', {})
        facts = translate.facts_of(claim)
        standing = standing_of(node)
        yield EnrolledMachine(
            name=name_of(node),
            standing=standing,
            amphora_type=AmphoraType.BARE_METAL.value,
            addresses=tuple(one.address for one in translate.addresses_of(node)),
            flavors=tuple(filter(None, (node.get('resource_class'), *(node.get('traits') or ())))),
            zone=translate.zone_of(node, zone_property),
            amphora_id=claim['uuid'] if facts else None,
            amphora_name=facts.get('name'),
            phase=str(node.get('provision_state')),
            reason=_reason(node, standing),
        )


def standing_of(node: Mapping[str, Any]) -> Standing:
    """Return whether a node can be claimed, and else why not."""
    state = node.get('provision_state')
    # Ironic puts a node whose cleaning failed into maintenance.
    if state in _UNCLEAN:
        return Standing.UNWIPED
    if node.get('maintenance'):
        return Standing.MAINTENANCE
    if node.get('instance_uuid') or state in _CLEANING:
        return Standing.CLAIMED
    return Standing.FREE if state == 'available' else Standing.QUARANTINE


def way_back(node: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the provision targets that make a node available; None if it is in use."""
    if node.get('instance_uuid'):
        return None
    return _WAYS.get(str(node.get('provision_state')))


def name_of(node: Mapping[str, Any]) -> str:
    """Return the name of a node, or its id if it has none."""
    return str(node.get('name') or node['uuid'])


def _reason(node: Mapping[str, Any], standing: Standing) -> str | None:
    if standing is Standing.UNWIPED:
        return str(node.get('last_error') or node.get('maintenance_reason') or 'no reason given')
    if standing is Standing.MAINTENANCE:
        return str(node.get('maintenance_reason') or node.get('fault') or 'no reason given')
    if standing is Standing.QUARANTINE:
        return f'it is {node.get("provision_state")}, and not available'
    return None
