"""The nodes of an Ironic: what builds can ask for, and what is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic.api.client import Ironic
from kiln.compute_drivers.ironic.building.flavors import Flavor
from kiln.compute_drivers.ironic.translate import zone_of
from kiln.exceptions import AmphoraComputeError, InsufficientCapacity, InvalidRequest

#: The network interface of nodes to which no port can be attached.
_NO_PORTS = 'noop'
_FIELDS = (
    'uuid,resource_class,traits,conductor_group,properties,maintenance,retired,network_interface'
)
_FREE = {'provision_state': 'available', 'associated': 'false', 'maintenance': 'false'}


class Catalogue:
    """Looks for nodes by flavor and zone."""

    def __init__(self, ironic: Ironic, *, zone_property: str | None) -> None:
        self._ironic = ironic
        self._zone_property = zone_property

    def free(
        self,
        asked: Asked,
        flavor: Flavor,
        zone: str | None,
        wrong: type[AmphoraComputeError] = InvalidRequest,
        *,
        connected: bool = False,
    ) -> list[str]:
        """Return the free nodes of a flavor, in a zone if there is one; never none.

        With ``connected`` only nodes to which ports can be attached.

        :raises InsufficientCapacity: all of them are in use.
        :raises AmphoraComputeError: there is no such zone; ``wrong`` is its class.
        """
        free = [
            node
            for node in self._of(asked, flavor, _FREE)
            if zone is None or self._is_in(node, zone)
        ]
        found = [node['uuid'] for node in free if not (connected and is_unconnected(node))]
        if found:
            return found
        where = '' if zone is None else f' in zone {zone!r}'
        nodes = list(self._of(asked, flavor, {})) if connected else []
        if nodes and all(map(is_unconnected, nodes)):
            raise asked.error(
                wrong,
                f'no node of flavor {str(flavor)!r} can have a port: their network interface is '
                f'{_NO_PORTS}.',
            )
        if zone is not None and zone not in self.zones(asked):
            raise asked.error(wrong, f'no node is in zone {zone!r}.')
        raise self.lacking(asked, flavor, wrong, where)

    def lacking(
        self,
        asked: Asked,
        flavor: Flavor,
        wrong: type[AmphoraComputeError],
        why: str,
    ) -> AmphoraComputeError:
        """Return the error for a flavor of which no node is free."""
        if self.exists(asked, flavor):
            told = f'no node of flavor {str(flavor)!r} is free{why}.'
            return asked.error(InsufficientCapacity, told)
        return asked.error(wrong, f'no node has flavor {str(flavor)!r}.')

    def exists(self, asked: Asked, flavor: Flavor) -> bool:
        """Return True if any node has a flavor, whatever its state."""
        return any(True for _ in self._of(asked, flavor, {}))

    def check_zone(self, asked: Asked, zone: str) -> None:
        """Raise InvalidRequest if no node is in a zone."""
        zones = self.zones(asked)
        if zone not in zones:
            there = ', '.join(zones) or 'none'
            raise asked.error(InvalidRequest, f'no node is in it; there are: {there}.')

    def zones(self, asked: Asked) -> Sequence[str]:
        """Return the zones of all nodes that can be claimed, now or later."""
        nodes = self._nodes(asked, {'maintenance': 'false'})
        return sorted({zone_of(node, self._zone_property) for node in nodes})

    def _is_in(self, node: Mapping[str, Any], zone: str) -> bool:
        return zone_of(node, self._zone_property) == zone

    def _of(
        self, asked: Asked, flavor: Flavor, query: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        wanted = {**query, 'resource_class': flavor.resource_class}
        return (node for node in self._nodes(asked, wanted) if flavor.fits(node))

    def _nodes(self, asked: Asked, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        return self._ironic.pages(asked, '/nodes', 'nodes', {**query, 'fields': _FIELDS})


def is_unconnected(node: Mapping[str, Any]) -> bool:
    """Return True if no port can be attached to a node."""
    return node.get('network_interface') == _NO_PORTS
