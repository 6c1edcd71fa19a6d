"""Ports of Neutron on nodes: made or taken for an amphora, and given back.

Ironic plugs a port into one of the network cards that are enrolled for a node. That a port
serves an amphora is written on the port, as its device: so it is found again after a crash.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic import claims
from kiln.compute_drivers.ironic.api.client import Services
from kiln.compute_drivers.ironic.api.errors import is_locked
from kiln.compute_drivers.ironic.claims import Claim
from kiln.compute_drivers.ironic.reading import Node, Seen
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    ResourceNotFoundError,
)
from kiln.models import Attachment, Resource

LOG = logging.getLogger(__name__)

PORT = 'port'
#: Begins the description of the ports that kiln makes.
_MARK = 'kiln-site:'

Port = Mapping[str, Any]


class Ports:
    """Hangs ports on nodes, if Neutron is used."""

    def __init__(self, services: Services, *, used: bool, networks: Sequence[str]) -> None:
        self._services = services
        self.used = used
        self._networks = tuple(networks)

    # ---- builds ------------------------------------------------------------

    def hang_all(
        self, asked: Asked, claim: Claim, node: Node, named: Sequence[str], nets: Sequence[str]
    ) -> list[dict[str, str]]:
        """Hang the ports and networks of a build on its node; return their addresses.

        Safe to repeat: what a process left half made is continued.
        """
        if not self.used:
            return []
        nets = nets or (() if named else self._networks)
        before = {str(one['network_id']): one for one in self._of(asked, claim.id)}
        ports = [self._taken(asked, claim.id, port_id) for port_id in named]
        for network in nets:
            network_id, _, address = network.partition('=')
            found = before.get(network_id)
            if found is None or found['id'] in named:
                found = self._made(asked, claim, network_id, address or None)
            ports.append(found)
        for port in ports:
            self._plug(asked, node, port)
        return [row for port in ports for row in addresses_of(port)]

    def take_down(self, asked: Asked, claim: Claim, node: Node | None) -> None:
        """Give all ports of an amphora back: kiln's own are deleted, those of others freed.

        ``node`` is given if Ironic still has the ports plugged.
        """
        if not self.used:
            return
        for port in self._of(asked, claim.id):
            if node is not None:
                self._unplug(asked, node, str(port['id']))
            self._give_back(asked, port)

    def try_take_down(self, asked: Asked, claim: Claim) -> None:
        """Give the ports of an amphora back whose node Ironic frees; if not, the sweep does."""
        try:
            self.take_down(asked, claim, None)
        except AmphoraComputeError as exc:
            LOG.warning('Ports of amphora %s stay until the orphan sweep: %s', claim.id, exc)

    # ---- one port of an amphora ----------------------------------------------

    def attach(self, asked: Asked, seen: Seen, port_id: str) -> Attachment:
        """Hang a port on a node, unless it hangs there."""
        port = self._one(asked, port_id)
        if port.get('device_id') != seen.claim.id:
            port = self._taken(asked, seen.claim.id, port_id)
            self._hung(asked, seen, port)
        return attachment_of(seen.claim.id, port)

    def attach_network(
        self, asked: Asked, seen: Seen, network_id: str, address: str | None
    ) -> Attachment:
        """Hang a new port of a network on a node."""
        port = self._made(asked, seen.claim, network_id, address)
        try:
            self._hung(asked, seen, port)
        except AmphoraComputeError:
            self._give_back(asked, port)
            raise
        return attachment_of(seen.claim.id, port)

    def detach(self, asked: Asked, seen: Seen, port_id: str) -> None:
        """Take a port from a node, if it hangs there."""
        for port in self._of(asked, seen.claim.id):
            if port['id'] == port_id:
                self._removed(asked, seen, [port])

    def detach_network(self, asked: Asked, seen: Seen, network_id: str) -> None:
        """Take all ports of a network from a node."""
        ports = [one for one in self._of(asked, seen.claim.id) if one['network_id'] == network_id]
        self._removed(asked, seen, ports)

    def hangs(self, asked: Asked, amphora_id: str, port_id: str) -> Attachment | None:
        """Return the attachment of a port; None if it does not hang on that amphora."""
        port = self._one(asked, port_id)
        return attachment_of(amphora_id, port) if port.get('device_id') == amphora_id else None

    def _hung(self, asked: Asked, seen: Seen, port: Port) -> None:
        try:
            self._plug(asked, seen.node or {}, port)
        except AmphoraComputeError:
            self._put(asked, str(port['id']), {'device_id': '', 'device_owner': ''})
            raise
        self._record(asked, seen.claim)

    def _removed(self, asked: Asked, seen: Seen, ports: Iterable[Port]) -> None:
        for port in ports:
            self._unplug(asked, seen.node or {}, str(port['id']))
            self._give_back(asked, port)
        self._record(asked, seen.claim)

    def _record(self, asked: Asked, claim: Claim) -> None:
        """Write the addresses of an amphora to its claim, from which they are read."""
        rows = [row for port in self._of(asked, claim.id) for row in addresses_of(port)]
        body = claims.patch(place={**claim.place, 'addresses': rows})
        self._services.ask(asked, 'PATCH', f'/allocations/{claim.uuid}', body=body)

    # ---- resources -----------------------------------------------------------

    def resources(self, asked: Asked, owner: str) -> list[Resource]:
        """Return the ports that kiln made for a site."""
        return [
            Resource(
                kind=PORT,
                id=str(port['id']),
                name=str(port.get('name') or ''),
                owner=owner,
                amphora_id=port.get('device_id') or None,
                created_at=claims.seconds_of(port.get('created_at')),
            )
            for port in self._listed(asked, description=_MARK + owner)
        ]

    def holder(self, asked: Asked, port_id: str) -> str | None:
        """Return the amphora that a port serves; None if it serves none."""
        return self._one(asked, port_id).get('device_id') or None

    def delete(self, asked: Asked, port_id: str) -> None:
        """Delete a port; one already gone is a success."""
        try:
            self._services.ask(asked, 'DELETE', f'/ports/{port_id}', service='network')
        except (ResourceNotFoundError, InvalidBuildRequest) as exc:
            if exc.http_status != 404:
                raise

    # ---- requests to Neutron ---------------------------------------------------

    def _of(self, asked: Asked, amphora_id: str) -> list[Port]:
        found = self._listed(asked, device_id=amphora_id)
        return sorted(found, key=lambda port: (str(port.get('created_at')), str(port['id'])))

    def _listed(self, asked: Asked, **query: str) -> list[Port]:
        answer = self._services.ask(asked, 'GET', '/ports', service='network', query=query)
        # Neutron on MySQL compares without regard to capitals.
        return [
            one
            for one in answer.get('ports') or ()
            if all(one.get(k) == v for k, v in query.items())
        ]

    def _one(self, asked: Asked, port_id: str) -> Port:
        looking = dataclasses.replace(asked, looking=True)
        if '/' in port_id:
            raise asked.error(_absent(asked), f'port {port_id} does not exist.')
        try:
            answer = self._services.ask(looking, 'GET', f'/ports/{port_id}', service='network')
        except ResourceNotFoundError as exc:
            raise asked.error(
                _absent(asked), f'port {port_id} does not exist.', http_status=404
            ) from exc
        found: Port = answer['port']
        return found

    def _taken(self, asked: Asked, amphora_id: str, port_id: str) -> Port:
        """Return a port after writing on it that it serves an amphora."""
        port = self._one(asked, port_id)
        holder = port.get('device_id')
        if holder and holder != amphora_id:
            kind = BuildConflict if asked.building else InstanceStateConflict
            raise asked.error(kind, f'port {port_id} is in use by {holder}.')
        return self._put(
            asked, port_id, {'device_id': amphora_id, 'device_owner': 'baremetal:none'}
        )

    def _made(self, asked: Asked, claim: Claim, network_id: str, address: str | None) -> Port:
        port: dict[str, Any] = {
            'network_id': network_id,
            'name': f'kiln-{claim.text("key")}',
            'description': f'{_MARK}{claim.owner}',
            'device_id': claim.id,
            'device_owner': 'baremetal:none',
        }
        if address:
            port['fixed_ips'] = [{'ip_address': address}]
        answer = self._services.ask(
            asked, 'POST', '/ports', service='network', body={'port': port}
        )
        made: Port = answer['port']
        return made

    def _put(self, asked: Asked, port_id: str, facts: Mapping[str, str]) -> Port:
        answer = self._services.ask(
            asked, 'PUT', f'/ports/{port_id}', service='network', body={'port': facts}
        )
        found: Port = answer['port']
        return found

    def _give_back(self, asked: Asked, port: Port) -> None:
        port_id = str(port['id'])
        if str(port.get('description') or '').startswith(_MARK):
            self.delete(asked, port_id)
        else:
            self._put(asked, port_id, {'device_id': '', 'device_owner': ''})

    # ---- requests to Ironic ------------------------------------------------------

    def _plug(self, asked: Asked, node: Node, port: Port) -> None:
        path = f'/nodes/{node["uuid"]}'
        try:
            self._services.ask(asked, 'POST', f'{path}/vifs', body={'id': port['id']})
        except AmphoraComputeError as exc:
            if exc.http_status not in (400, 409) or is_locked(exc):
                raise
            if self._is_plugged(asked, path, str(port['id'])):
                return
            name = node.get('name') or node['uuid']
            kind = InsufficientCapacity if asked.building else InstanceStateConflict
            if not self._services.ask(asked, 'GET', f'{path}/ports').get('ports'):
                raise asked.error(
                    kind,
                    f'node {name} has no MAC address: enrol its network cards as ports of Ironic.',
                ) from exc
            raise asked.error(kind, f'node {name} has no network card for it. {exc}') from exc

    def _is_plugged(self, asked: Asked, path: str, port_id: str) -> bool:
        answer = self._services.ask(asked, 'GET', f'{path}/vifs')
        return any(one.get('id') == port_id for one in answer.get('vifs') or ())

    def _unplug(self, asked: Asked, node: Node, port_id: str) -> None:
        path = f'/nodes/{node["uuid"]}'
        try:
            self._services.ask(asked, 'DELETE', f'{path}/vifs/{port_id}')
        except AmphoraComputeError as exc:
            if exc.http_status not in (400, 404) or self._is_plugged(asked, path, port_id):
                raise


def addresses_of(port: Port) -> list[dict[str, str]]:
    """Return the addresses of a port, as a claim records them."""
    return [
        {
            'address': str(one['ip_address']),
            'network_id': str(port['network_id']),
            'port_id': str(port['id']),
            **({'mac': str(port['mac_address'])} if port.get('mac_address') else {}),
        }
        for one in port.get('fixed_ips') or ()
    ]


def attachment_of(amphora_id: str, port: Port) -> Attachment:
    """Return the attachment of a port."""
    fixed_ips = port.get('fixed_ips') or ()
    return Attachment(
        amphora_id=amphora_id,
        port_id=str(port['id']),
        network_id=str(port['network_id']),
        addresses=tuple(str(one['ip_address']) for one in fixed_ips),
        subnet_ids=tuple(str(one.get('subnet_id')) for one in fixed_ips),
    )


def _absent(asked: Asked) -> type[AmphoraComputeError]:
    return InvalidBuildRequest if asked.building else ResourceNotFoundError
