"""The hooks of the Ironic driver about networks and ports."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_networks import Networks
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.ironic import translate
from kiln.compute_drivers.ironic.api.client import Ironic
from kiln.compute_drivers.ironic.building.claims import about
from kiln.compute_drivers.ironic.building.nics import PORT, Nics, Port
from kiln.compute_drivers.ironic.catalogue import is_unconnected
from kiln.exceptions import AmphoraComputeError, InstanceStateConflict, InvalidRequest
from kiln.models import Ability, AmphoraType, Attachment, Limits, Resource

#: What a backend without a Neutron lacks.
_ABILITIES = frozenset({
    Ability.ATTACH_PORT, Ability.DETACH_PORT, Ability.ATTACH_NETWORK, Ability.DETACH_NETWORK,
    Ability.VALIDATE_NETWORK, Ability.VALIDATE_SECURITY_GROUP, Ability.LIST_RESOURCES,
    Ability.DELETE_RESOURCE,
})  # fmt: skip
_OPTIONS = frozenset({'network_ids', 'port_ids', 'sec_groups'})
_REFUSED = frozenset({'server_group_id'})


class NodePorts(AmphoraComputeDriver):
    """Attaches ports of Neutron to nodes, and detaches them."""

    _ironic: Ironic
    _nics: Nics
    _networks: Networks
    _has_neutron: bool

    @property
    def limits(self) -> Limits:
        refused = _REFUSED if self._has_neutron else _REFUSED | _OPTIONS
        return Limits(amphora_types=frozenset({AmphoraType.BARE_METAL}), refused_options=refused)

    @property
    def abilities(self) -> frozenset[Ability]:
        return super().abilities - (frozenset() if self._has_neutron else _ABILITIES)

    @abc.abstractmethod
    def _ours(self, asked: Asked) -> dict[str, Any]:
        """Return the claim of an amphora of a site."""

    @abc.abstractmethod
    def _running(self, asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the claim and the node of an amphora that runs, or is powered off."""

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        asked = about(f'attach port {port_id} to', amphora_id, port_id)
        if port_id in translate.nics_of(self._ours(asked)):
            return translate.attachment_of(amphora_id, self._nics.port(asked, port_id))
        claim = self._connectable(asked)
        return self._attached(asked, claim, self._nics.attach_port(asked, claim, port_id))

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        asked = about(f'attach network {network_id} to', amphora_id, network_id)
        claim = self._connectable(asked)
        network = f'{network_id}={address}' if address else network_id
        port = self._nics.attach_network(asked, claim, network, self.owner)
        return self._attached(asked, claim, port)

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        asked = about(f'detach port {port_id} from', amphora_id, port_id)
        claim = self._ours(asked)
        if port_id in translate.nics_of(claim):
            self._detach(asked, claim, port_id)

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        asked = about(f'detach network {network_id} from', amphora_id, network_id)
        claim = self._ours(asked)
        for port_id, nic in translate.nics_of(claim).items():
            if nic.get('network') == network_id:
                self._detach(asked, claim, port_id)

    def _validate_network(self, network_id: str) -> None:
        asked = Asked.of('use network', network_id)
        (found,) = self._networks.ids(asked, [network_id])
        self._networks.check_address(asked, found)

    def _validate_security_group(self, security_group: str) -> None:
        asked = Asked.of('use security group', security_group)
        self._networks.group_ids(asked, [security_group])

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        asked = Asked(verb='list', subject=f'the ports of {owner}')
        return self._nics.resources(asked, owner)

    def _delete_resource(self, resource: Resource) -> None:
        asked = Asked.of(f'delete {resource.kind}', resource.id)
        if resource.kind != PORT:
            raise asked.error(InvalidRequest, 'only ports are resources of this backend.')
        self._nics.delete_resource(asked, resource.id)

    def _connectable(self, asked: Asked) -> dict[str, Any]:
        """Return the claim of an amphora to which a port can be attached."""
        # Callers take a conflict that names a port for one about the port.
        about_state = dataclasses.replace(asked, resource_id=None)
        claim, node = self._running(about_state)
        if is_unconnected(node):
            raise about_state.error(
                InstanceStateConflict,
                'no port can be attached to its node, whose network interface is '
                f'{node["network_interface"]}.',
                retryable=False,
            )
        return claim

    def _attached(self, asked: Asked, claim: Mapping[str, Any], port: Port) -> Attachment:
        """Write an attached port on the claim, and return the attachment."""
        nics = translate.nics_of(claim)
        at = max((nic['at'] for nic in nics.values()), default=-1) + 1
        nic = translate.nic_of(port, at)
        try:
            if 'nics' in translate.facts_of(claim):
                self._write(asked, 'add', port['id'], nic)
            else:
                self._write(asked, 'add', '', {port['id']: nic})
        except AmphoraComputeError:
            # Nothing would tell of it; or the amphora was deleted meanwhile.
            self._nics.take_back(asked, claim, [port['id']])
            raise
        return translate.attachment_of(claim['uuid'], port)

    def _detach(self, asked: Asked, claim: Mapping[str, Any], port_id: str) -> None:
        self._nics.detach(asked, claim, port_id)
        try:
            self._write(asked, 'remove', port_id)
        except InvalidRequest:
            # Another request has detached it at the same time.
            if port_id in translate.nics_of(self._ours(asked)):
                raise

    def _write(self, asked: Asked, op: str, port_id: str, *value: Any) -> None:
        """Change what the claim of an amphora keeps of one port, or of all of them."""
        path = f'/extra/{translate.FACTS}/nics/{port_id}'.rstrip('/')
        change = {'op': op, 'path': path} | ({'value': value[0]} if value else {})
        self._ironic.ask(asked, 'PATCH', f'/allocations/{asked.amphora_id}', body=[change])
