"""Networks and security groups of Neutron, by name or by id."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_names import (
    LISTED,
    Remembered,
    ambiguous,
    invalid,
    is_uuid,
    not_found,
)
from kiln.exceptions import InvalidBuildRequest

#: The networks of a machine that gets none, as in Nova's own API.
NO_NETWORK = ('none',)
_GROUP = 'security group'


class Ask(Protocol):
    """Sends one request to Neutron; returns the JSON of the answer."""

    def __call__(
        self, asked: Asked, method: str, path: str, *, query: Mapping[str, Any] | None = None
    ) -> Any: ...


class Networks:
    """Networks and security groups of one project."""

    def __init__(
        self, ask: Ask, remembered: Remembered, project_id: Callable[[], str | None]
    ) -> None:
        self._ask = ask
        self._remembered = remembered
        self._project_id = project_id

    def forget(self) -> None:
        """Drop all ids that are remembered; the next use looks them up again."""
        self._remembered.forget()

    def ids(self, asked: Asked, networks: Sequence[str]) -> tuple[str, ...]:
        """Return networks by their ids; each is given by name or by id.

        The requested address of ``NETWORK=ADDRESS`` stays behind the id.
        """
        if tuple(networks) == NO_NETWORK:
            return NO_NETWORK
        return tuple(self._network_id(asked, network) for network in networks)

    def _network_id(self, asked: Asked, network: str) -> str:
        named, address = split(network)
        found = self._id(asked, 'network', 'networks', named, {})
        return f'{found}={address}' if address else found

    def check(self, asked: Asked, network_id: str) -> None:
        """Raise ResourceNotFoundError unless Neutron has the network."""
        self._ask(asked, 'GET', f'/networks/{network_id}', query={'fields': 'id'})

    def check_address(self, asked: Asked, network: str) -> None:
        """Raise if no subnet of a network has the requested address of ``ID=ADDRESS``.

        The subnets of some networks are visible to their owners alone; then nothing is checked.
        """
        network_id, text = split(network)
        if text is None:
            return
        query = {'network_id': network_id, 'fields': 'cidr'}
        cidrs = sorted(row['cidr'] for row in self._rows(asked, 'subnets', query))
        try:
            address = ipaddress.ip_address(text)
        except ValueError as exc:
            raise invalid(asked, f'{text!r} is not an IP address.') from exc
        if cidrs and not any(address in ipaddress.ip_network(cidr) for cidr in cidrs):
            raise invalid(
                asked, f'address {text} is in no subnet of the network; it has {", ".join(cidrs)}.'
            )

    def has_unguarded(self, asked: Asked) -> bool:
        """Return True if security groups have no effect on some network."""
        rows = self._rows(asked, 'networks', {'fields': 'port_security_enabled'})
        return any(row.get('port_security_enabled') is False for row in rows)

    def group_ids(
        self, asked: Asked, groups: Sequence[str], *, checked: bool = False
    ) -> tuple[str, ...]:
        """Return the ids of security groups given by name or by id.

        ``checked`` means that the id in a build exists, too: not every backend checks that.
        """
        # An administrator sees the groups of all projects.
        project_id = self._project_id() if groups else None
        scope = {'project_id': project_id} if project_id else {}
        return tuple(
            self._id(asked, _GROUP, 'security-groups', group, scope, checked=checked)
            for group in groups
        )

    def current_group_ids(self, groups: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of security groups as they are now: one can have been made again."""
        found: list[str] = []
        for group in groups:
            self._remembered.drop((_GROUP, group))
            found += self.group_ids(Asked.of(f'use {_GROUP}', group), [group])
        return tuple(found)

    def group_rules(self, asked: Asked, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return all rules of security groups that the project may see; never remembered."""
        return self._rows(asked, 'security-group-rules', {'security_group_id': list(ids)})

    def _id(
        self,
        asked: Asked,
        kind: str,
        path: str,
        named: str,
        scope: Mapping[str, str],
        *,
        checked: bool = False,
    ) -> str:
        by_id = is_uuid(named)
        if by_id and asked.building and not checked:
            # What is made with it checks the id itself.
            return named
        query = {'id' if by_id else 'name': named, 'fields': 'id', **scope}
        rows = self._remembered.get((kind, named), lambda: self._rows(asked, path, query))
        ids = [row['id'] for row in rows]
        if len(ids) == 1:
            return str(ids[0])
        self._remembered.drop((kind, named))
        if ids:
            raise ambiguous(asked, kind, named, ids)
        known = {'fields': 'name', 'limit': LISTED, **scope}
        names = self._remembered.names(kind, lambda: self._rows(asked, path, known))
        raise not_found(asked, kind, named, names)

    def _rows(self, asked: Asked, path: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        answer = self._ask(asked, 'GET', f'/{path}', query=query)
        rows: list[dict[str, Any]] = answer[path.replace('-', '_')]
        return rows


def split(network: str) -> tuple[str, str | None]:
    """Return the network and the requested address of ``NETWORK=ADDRESS``."""
    named, _, address = network.partition('=')
    return named, address or None


def check_networks(asked: Asked, networks: Sequence[str], ports: Sequence[str]) -> None:
    """Raise an error for a machine without networks that is to have some nevertheless."""
    if NO_NETWORK[0] in networks and (len(networks) > 1 or ports):
        raise asked.error(
            InvalidBuildRequest, "network 'none' excludes all other networks and ports."
        )
