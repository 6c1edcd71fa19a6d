"""Network interfaces of amphorae: ports of Neutron, attached to the ports of nodes.

Ports for the networks of a build are made before its claim, which then names them: so two
requests for one build, of which one has the claim, leave no port too many. Ports that a build
is given are taken by the claim, which is their ``device_id``. Whatever has the id of a claim
as its ``device_id`` is given back with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_names import is_uuid
from kiln.compute_drivers.authoring.openstack_networks import split
from kiln.compute_drivers.ironic import translate
from kiln.compute_drivers.ironic.api.client import Ironic
from kiln.compute_drivers.ironic.api.neutron import Neutron
from kiln.compute_drivers.ironic.catalogue import is_unconnected
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    ResourceNotFoundError,
)
from kiln.models import Resource

PORT = 'port'
#: The ``device_owner`` of ports of amphorae. Neutron lets only its administrators delete a
#: port whose one begins with "baremetal:" or "compute:".
_USER = 'kiln:node'
#: The ``description`` of ports that kiln has made begins so; the name of their site follows.
#: Not that of the ports of a Nova backend, whose sweep would find no server of theirs.
_MADE_BY = 'kiln-metal-site:'
#: Attempts to take a port that others change at the same time.
_ATTEMPTS = 3

#: A port as Neutron has it.
Port = dict[str, Any]


class Nics:
    """Makes, takes, attaches and gives back the ports of amphorae."""

    def __init__(self, ironic: Ironic, neutron: Neutron) -> None:
        self._ironic = ironic
        self._neutron = neutron

    # ---- of a build ----------------------------------------------------------------

    def check_given(self, asked: Asked, port_ids: Sequence[str]) -> None:
        """Raise an error if a port does not exist, or something uses it."""
        for port_id in port_ids:
            port = self.port(asked, port_id)
            if port['device_id'] and not self._is_abandoned(asked, port):
                raise _in_use(asked, port)

    def make(
        self,
        asked: Asked,
        amphora_id: str,
        networks: Sequence[str],
        groups: Sequence[str] = (),
        *,
        owner: str,
        name: str,
    ) -> list[Port]:
        """Make a port for each network; all of them, or none."""
        if not networks:
            return []
        common = {
            'name': name,
            'description': _MADE_BY + owner,
            'device_id': amphora_id,
            'device_owner': _USER,
            'binding:vnic_type': 'baremetal',
            **({'security_groups': list(groups)} if groups else {}),
        }
        body = {'ports': [{**_on(network), **common} for network in networks]}
        made: list[Port] = self._neutron.ask(asked, 'POST', '/ports', body=body)['ports']
        return made

    def drop(self, asked: Asked, amphora_id: str) -> None:
        """Give back the ports of an id that nothing was claimed with, if that is possible now."""
        # If it is not, the orphan sweep finds them.
        with contextlib.suppress(AmphoraComputeError):
            for port in self._ports_of(asked, amphora_id):
                self._give_back(asked, amphora_id, port)

    def attach_all(self, asked: Asked, claim: Mapping[str, Any]) -> dict[str, Any]:
        """Attach the ports of a build to its node; return what its claim keeps of them."""
        nics = translate.nics_of(claim)
        for port_id, nic in nics.items():
            if not translate.is_described(nic):
                self._take(asked, claim['uuid'], port_id)
            self._attach(asked, claim['node_uuid'], port_id)
        ports = {port['id']: port for port in self._ports_of(asked, claim['uuid'])}
        for port_id in nics.keys() - ports.keys():
            raise asked.error(BuildConflict, f'port {port_id} was deleted meanwhile.')
        return {
            port_id: translate.nic_of(ports[port_id], nic['at']) for port_id, nic in nics.items()
        }

    # ---- of an amphora -----------------------------------------------------------------

    def attach_port(self, asked: Asked, claim: Mapping[str, Any], port_id: str) -> Port:
        """Attach a port to the node of an amphora; return it as it is then."""
        taken = self._take(asked, claim['uuid'], port_id)
        try:
            self._attach(asked, claim['node_uuid'], port_id)
        except AmphoraComputeError:
            if taken:
                self.take_back(asked, claim, [port_id])
            raise
        return self.port(asked, port_id)

    def attach_network(
        self, asked: Asked, claim: Mapping[str, Any], network: str, owner: str
    ) -> Port:
        """Attach a new port of a network to the node of an amphora; return it."""
        name = str(translate.facts_of(claim).get('name') or '')
        (made,) = self.make(asked, claim['uuid'], [network], owner=owner, name=name)
        try:
            self._attach(asked, claim['node_uuid'], made['id'])
        except AmphoraComputeError:
            self.take_back(asked, claim, [made['id']])
            raise
        return self.port(asked, made['id'])

    def take_back(self, asked: Asked, claim: Mapping[str, Any], port_ids: Iterable[str]) -> None:
        """Detach ports after an error, and give them back, as far as that is possible now."""
        for port_id in port_ids:
            with contextlib.suppress(AmphoraComputeError):
                self.detach(asked, claim, port_id)

    def detach(self, asked: Asked, claim: Mapping[str, Any], port_id: str) -> None:
        """Detach a port from the node of an amphora, and give it back."""
        self._detach(asked, claim['node_uuid'], port_id)
        with _gone_already():
            self._give_back(asked, claim['uuid'], self.port(asked, port_id))

    def found_on(self, asked: Asked, node: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a claim keeps of the ports that others have attached to its node.

        They stay as they are when the amphora is deleted.
        """
        if is_unconnected(node) or not self._neutron.exists(asked):
            return {}
        nics: dict[str, Any] = {}
        for port_id in self._attached(asked, node['uuid']):
            # Another project can own it.
            with _gone_already():
                nics[port_id] = translate.nic_of(self.port(asked, port_id), len(nics))
        return nics

    def port(self, asked: Asked, port_id: str) -> Port:
        """Return a port; raise an error if it does not exist."""
        if not is_uuid(port_id):
            kind = InvalidBuildRequest if asked.building else ResourceNotFoundError
            raise asked.error(kind, f'Neutron has no port {port_id!r}: give its id.')
        found: Port = self._neutron.ask(asked, 'GET', f'/ports/{port_id}')['port']
        return found

    # ---- of a claim that ends ------------------------------------------------------------

    def give_back(self, asked: Asked, claim: Mapping[str, Any], *, detached: bool = False) -> None:
        """Give all ports of an amphora back; ``detached`` means that Ironic detaches them."""
        if not translate.nics_of(claim):
            return
        for port in self._ports_of(asked, claim['uuid']):
            if claim.get('node_uuid') and not detached:
                # Before another amphora gets it: Ironic would take it away from that one.
                self._detach(asked, claim['node_uuid'], port['id'])
            self._give_back(asked, claim['uuid'], port)

    def _give_back(self, asked: Asked, amphora_id: str, port: Port) -> None:
        """Delete or release a port, unless it belongs to something else by now."""
        if port['device_id'] != amphora_id:
            return
        if port['description'].startswith(_MADE_BY):
            self._delete(asked, port['id'])
        else:
            self._release(asked, amphora_id, port['id'])

    # ---- what was left behind --------------------------------------------------------------

    def resources(self, asked: Asked, owner: str) -> Iterator[Resource]:
        """Yield the ports that kiln has made for a site."""
        if not self._neutron.exists(asked):
            return
        for port in self._listed(asked, {'description': _MADE_BY + owner}):
            yield Resource(
                kind=PORT,
                id=port['id'],
                name=port['name'],
                owner=owner,
                amphora_id=port['device_id'] or None,
                created_at=translate.seconds_of(port.get('created_at')),
            )

    def delete_resource(self, asked: Asked, port_id: str) -> None:
        """Delete a port that kiln has made, unless its amphora still exists."""
        try:
            port = self.port(asked, port_id)
        except ResourceNotFoundError:
            return
        if not port['description'].startswith(_MADE_BY):
            raise asked.error(InvalidRequest, 'kiln has not made it.')
        if not self._is_abandoned(asked, port):
            raise asked.error(InstanceStateConflict, f'amphora {port["device_id"]} uses it.')
        self._delete(asked, port_id)

    def _is_abandoned(self, asked: Asked, port: Port) -> bool:
        """Return True if the amphora that a port belonged to is gone."""
        if port['device_owner'] != _USER:
            return False
        user = port['device_id']
        if any(self._ironic.ask(asked, 'GET', '/nodes', query={'instance_uuid': user})['nodes']):
            return False
        try:
            self._ironic.ask(asked, 'GET', f'/allocations/{user}')
        except AmphoraComputeError as exc:
            if exc.http_status == 404 and not exc.retryable:
                return True
            raise
        return False

    # ---- requests ------------------------------------------------------------------------

    def _take(self, asked: Asked, amphora_id: str, port_id: str) -> bool:
        """Make a port one of an amphora; return False if it was before.

        :raises AmphoraComputeError: something else uses it.
        """

        def taken(port: Port) -> bool:
            if port['device_id'] == amphora_id:
                return False
            if port['device_id'] and not self._is_abandoned(asked, port):
                raise _in_use(asked, port)
            return True

        return self._assign(asked, port_id, taken, amphora_id, _USER)

    def _release(self, asked: Asked, amphora_id: str, port_id: str) -> None:
        with _gone_already():
            self._assign(asked, port_id, lambda port: port['device_id'] == amphora_id, '', '')

    def _assign(
        self, asked: Asked, port_id: str, may: Callable[[Port], bool], user: str, owner: str
    ) -> bool:
        """Give a port to a user if it may have it; return whether it did not have it before."""
        for left in reversed(range(_ATTEMPTS)):
            port = self.port(asked, port_id)
            if not may(port):
                break
            try:
                self._neutron.ask(
                    asked, 'PUT', f'/ports/{port_id}', revision=port['revision_number'],
                    body={'port': {'device_id': user, 'device_owner': owner}},
                )  # fmt: skip
            except AmphoraComputeError as exc:
                # It was changed meanwhile: Neutron itself does so after a port was detached.
                if exc.http_status != 412 or not left:
                    raise
            else:
                return True
        return False

    def _delete(self, asked: Asked, port_id: str) -> None:
        with _gone_already():
            self._neutron.ask(asked, 'DELETE', f'/ports/{port_id}')

    def _attach(self, asked: Asked, node_id: str, port_id: str) -> None:
        try:
            self._ironic.ask(asked, 'POST', f'/nodes/{node_id}/vifs', body={'id': port_id})
        except AmphoraComputeError as exc:
            if exc.http_status != 409 or port_id not in self._attached(asked, node_id):
                raise

    def _detach(self, asked: Asked, node_id: str, port_id: str) -> None:
        if port_id not in self._attached(asked, node_id):
            return
        try:
            self._ironic.ask(asked, 'DELETE', f'/nodes/{node_id}/vifs/{port_id}')
        except AmphoraComputeError as exc:
            # Somebody else can have detached it.
            if exc.http_status not in (400, 404) or port_id in self._attached(asked, node_id):
                raise

    def _attached(self, asked: Asked, node_id: str) -> list[str]:
        answer = self._ironic.ask(asked, 'GET', f'/nodes/{node_id}/vifs')
        return [vif['id'] for vif in answer['vifs']]

    def _ports_of(self, asked: Asked, amphora_id: str) -> list[Port]:
        return self._listed(asked, {'device_id': amphora_id})

    def _listed(self, asked: Asked, query: Mapping[str, str]) -> list[Port]:
        """Return the ports with facts; Neutron on MySQL ignores capitals in its filters."""
        rows = self._neutron.ask(asked, 'GET', '/ports', query={**query, 'device_owner': _USER})
        return [one for one in rows['ports'] if one.items() >= query.items()]


@contextlib.contextmanager
def _gone_already() -> Iterator[None]:
    """Take it for a success that something does not exist."""
    try:
        yield
    except AmphoraComputeError as exc:
        if exc.http_status != 404 or exc.retryable:
            raise


def _on(network: str) -> Port:
    network_id, address = split(network)
    fixed = {'fixed_ips': [{'ip_address': address}]} if address else {}
    return {'network_id': network_id, **fixed}


def _in_use(asked: Asked, port: Port) -> AmphoraComputeError:
    user = port['device_id'] or 'others'
    kind = BuildConflict if asked.building else InstanceStateConflict
    return asked.error(kind, f'port {port["id"]} is in use by {user}.')
