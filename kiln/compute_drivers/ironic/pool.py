"""Nodes as the operator of Ironic sees them: what is free, and what cleaning left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, Standing
from kiln.compute_drivers.ironic import claims, states
from kiln.compute_drivers.ironic.api.client import Services
from kiln.compute_drivers.ironic.builds import addresses_of
from kiln.compute_drivers.ironic.catalogue import Catalogue
from kiln.compute_drivers.ironic.claims import Claim
from kiln.exceptions import InstanceStateConflict, ResourceNotFoundError
from kiln.models import AmphoraType

_FIELDS = (*states.FIELDS, 'resource_class', 'traits', 'conductor_group', 'properties', 'extra')
#: A node that Ironic cleans, and one whose cleaning or release has failed.
_CLEANING = frozenset({'deleting', 'cleaning', 'clean wait', 'clean hold'})
_UNCLEAN = frozenset({'clean failed', 'error'})


class Pool:
    """Lists and maintains the nodes that the credentials can see."""

    def __init__(self, services: Services, catalogue: Catalogue) -> None:
        self._services = services
        self._catalogue = catalogue

    def machines(self, asked: Asked) -> Sequence[EnrolledMachine]:
        """Return all nodes, by name."""
        rows = self._services.rows(asked, 'allocations', claims.FIELDS)
        by_uuid = {claim.uuid: claim for row in rows if (claim := Claim.read(row)) is not None}
        found = [
            enrolled(node, by_uuid.get(str(node.get('instance_uuid'))), self._catalogue)
            for node in self._services.rows(asked, 'nodes', _FIELDS)
        ]
        return sorted(found, key=lambda machine: machine.name)

    def maintain(self, asked: Asked, name: str, reason: str | None) -> None:
        """Set or end the maintenance of a node."""
        path = f'/nodes/{self._node(asked, name)["uuid"]}/maintenance'
        if reason is None:
            self._services.ask(asked, 'DELETE', path)
        else:
            self._services.ask(asked, 'PUT', path, body={'reason': reason})

    def release(self, asked: Asked, name: str) -> None:
        """Let Ironic clean a node again, whose cleaning or release has failed."""
        node = self._node(asked, name)
        at, path = node.get('provision_state'), f'/nodes/{node["uuid"]}'
        if at not in _UNCLEAN or node.get('instance_uuid'):
            if at in (states.AVAILABLE, *_CLEANING) and not node.get('instance_uuid'):
                return
            raise asked.error(
                InstanceStateConflict,
                f'it is {at}; only a node whose cleaning failed is released.',
            )
        if node.get('maintenance'):
            self._services.ask(asked, 'DELETE', f'{path}/maintenance')
        for target in ('manage', 'provide') if at == 'clean failed' else ('deleted',):
            self._services.ask(asked, 'PUT', f'{path}/states/provision', body={'target': target})

    def _node(self, asked: Asked, name: str) -> Mapping[str, Any]:
        # A name could be a path; and a node without a name is listed by its uuid.
        for node in self._services.rows(asked, 'nodes', states.FIELDS):
            if name in (node.get('name'), node.get('uuid')):
                return node
        raise asked.error(ResourceNotFoundError, 'Ironic shows no node of that name.')


def enrolled(
    node: Mapping[str, Any], claim: Claim | None, catalogue: Catalogue
) -> EnrolledMachine:
    """Return a node as a machine of a pool."""
    standing, reason = standing_of(node)
    resource_class = node.get('resource_class')
    return EnrolledMachine(
        name=str(node.get('name') or node.get('uuid')),
        standing=standing,
        amphora_type=AmphoraType.BARE_METAL.value,
        addresses=tuple(one['address'] for one in addresses_of(node)),
        flavors=() if resource_class is None else (str(resource_class),),
        zone=catalogue.zone_of(node),
        amphora_id=None if claim is None else claim.id,
        amphora_name=None if claim is None else claim.text('name'),
        phase=str(node.get('provision_state')),
        reason=reason,
    )


def standing_of(node: Mapping[str, Any]) -> tuple[Standing, str | None]:
    """Return whether a node can be claimed, and why it cannot."""
    at, reason = str(node.get('provision_state')), states.reason_of(node)
    if at in _UNCLEAN:
        return Standing.UNWIPED, reason or f'It is {at}.'
    if node.get('maintenance'):
        why = str(node.get('maintenance_reason') or node.get('fault') or 'No reason given.')
        return Standing.MAINTENANCE, why
    if node.get('instance_uuid'):
        return Standing.CLAIMED, reason
    if at in _CLEANING:
        return Standing.UNWIPED, f'It is {at}.'
    if at != states.AVAILABLE:
        return Standing.MAINTENANCE, f'It is {at}; Ironic must make it available.'
    if node.get('power_state') is None:
        return Standing.MAINTENANCE, 'Ironic does not know its power state.'
    return Standing.FREE, None
