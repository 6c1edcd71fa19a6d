"""Actions on servers of Nova, for each driver whose amphorae are servers."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building import body
from kiln.compute_drivers.nova.building.port_locks import PortLocks
from kiln.compute_drivers.nova.catalogue import Catalogue
from kiln.compute_drivers.nova.rules import DEFAULT_GROUPS, about_groups, closed_ports, reason
from kiln.exceptions import (
    AmphoraComputeError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    NotSuspendedError,
    Outcome,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.models import (
    Attachment,
    ImageFacts,
    ServerGroup,
    State,
)
from kiln.openstack.session import open_session

#: The statuses with which Nova reports that a port or a network is already attached.
_TAKEN = (400, 409)
#: The form of Nova's ids; in a path, any other text could name something else.
_ID = re.compile(r'(?!detail$)[0-9a-z-]+')

_GROUPS = '/os-server-groups'


class ServerActions(AmphoraComputeDriver):
    """Execution state, ports, groups, validation and consoles of servers of one project.

    A server that boots from a volume has no image to reuse, so its rebuild must name one.
    Server groups do not record who created them.
    """

    def __init__(self, conf: Any, *, clock: Clock, further: Sequence[str] = ()) -> None:
        """Take the services, beside Nova, Neutron and Glance, that the driver uses."""
        self.clock = clock
        self._conf = conf
        session, region = open_session(conf)
        self._services = Services(conf, session, region=region, clock=clock, further=further)
        self._catalogue = Catalogue(
            self._services, clock, ttl_s=conf.catalogue_ttl, image_owner=conf.image_owner
        )
        self._ports = PortLocks(self._services)

    @abc.abstractmethod
    def _server(self, asked: Asked) -> dict[str, Any]:
        """Return the server of an amphora, as Nova describes it."""

    @abc.abstractmethod
    def _path(self, asked: Asked) -> str:
        """Return the path of the server of an amphora."""

    # ---- execution state -------------------------------------------------

    def _suspend(self, amphora_id: str) -> None:
        asked = self._about('suspend', amphora_id)
        try:
            self._act(asked, 'suspend')
        except InstanceStateConflict:
            if self._status(amphora_id).state is not State.SUSPENDED:
                raise

    def _resume(self, amphora_id: str) -> None:
        asked = self._about('resume', amphora_id)
        try:
            self._act(asked, 'resume')
        except NotSuspendedError as exc:
            # Nova answers the same for a server that is still being suspended.
            if self._status(amphora_id).task_state != 'suspending':
                raise
            raise asked.error(
                InstanceStateConflict, 'it is still being suspended.', retryable=True
            ) from exc

    def _reboot(self, amphora_id: str, hard: bool) -> None:
        how = {'type': 'HARD' if hard else 'SOFT'}
        self._act(self._about('reboot', amphora_id), 'reboot', how)

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        asked = self._about('rebuild', amphora_id)
        if image_id is None:
            same = (self._server(asked).get('image') or {}).get('id')
            if not same:
                raise asked.error(
                    UnsupportedOperation, 'it boots from a volume, which has no image to reuse.'
                )
            self._act(asked, 'rebuild', {'imageRef': same})
            return
        found = self._catalogue.image_id(asked, image_id)
        # A rebuild replaces all metadata of the server.
        metadata = {**(self._server(asked).get('metadata') or {}), translate.IMAGE: image_id}
        self._act(asked, 'rebuild', {'imageRef': found, 'metadata': metadata})

    # ---- ports, networks, groups -----------------------------------------

    def _attach_port(self, amphora_id: str, port_id: str) -> Attachment:
        asked = self._about(f'attach port {port_id} to', amphora_id, port_id)
        try:
            return self._attach(asked, {'port_id': port_id})
        except AmphoraComputeError as exc:
            if exc.http_status not in _TAKEN:
                raise
            for interface in self._interfaces(asked):
                if interface['port_id'] == port_id:
                    return translate.attachment_of(amphora_id, interface)
            if exc.http_status == 400 and self._ports.holder(asked, port_id):
                # Nova answers 400 for a port in use.
                raise asked.error(
                    InstanceStateConflict, 'the port is in use.', http_status=400
                ) from exc
            raise

    def _detach_port(self, amphora_id: str, port_id: str) -> None:
        asked = self._about(f'detach port {port_id} from', amphora_id, port_id)
        if not _ID.fullmatch(port_id):
            self._server(asked)
            return
        try:
            self._services.ask(asked, 'DELETE', f'{self._path(asked)}/os-interface/{port_id}')
        except ResourceNotFoundError:
            # For a server that does not exist, Nova might report the missing port first.
            self._server(asked)
        except InstanceStateConflict:
            # Nova checks the state of the server before it looks for the port.
            if any(one['port_id'] == port_id for one in self._interfaces(asked)):
                raise

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        asked = self._about(f'attach network {network_id} to', amphora_id, network_id)
        wanted: dict[str, Any] = {'net_id': network_id}
        if address:
            wanted['fixed_ips'] = [{'ip_address': address}]
        try:
            return self._attach(asked, wanted)
        except ServiceUnavailable as exc:
            # Nova answers 500 for a network that does not exist; that is not an outage.
            if exc.http_status == 500:
                self._catalogue.networks.check(asked, network_id)
            raise

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        asked = self._about(f'detach network {network_id} from', amphora_id, network_id)
        for interface in self._interfaces(asked):
            if interface['net_id'] == network_id:
                self._detach_port(amphora_id, interface['port_id'])

    def _create_server_group(self, name: str, policy: str) -> ServerGroup:
        asked = Asked(verb='create server group', subject=name)
        group: dict[str, Any] = {'name': name}
        if body.at_least(self._services.version(asked), 64):
            group['policy'] = policy
        else:
            group['policies'] = [policy]
        try:
            made = self._services.ask(asked, 'POST', _GROUPS, body={'server_group': group})
        except AmphoraComputeError as exc:
            if exc.outcome is Outcome.UNKNOWN and (found := self._unused_group(name, policy)):
                return found
            raise
        return translate.group_of(made['server_group'])

    def _unused_group(self, name: str, policy: str) -> ServerGroup | None:
        # A group does not record its creator. An empty group with that name and policy
        # is as good as the group whose answer was lost.
        asked = Asked(verb='look for server group', subject=name)
        try:
            listed = self._services.ask(asked, 'GET', _GROUPS)['server_groups']
        except AmphoraComputeError:
            return None
        groups = [translate.group_of(one) for one in listed]
        alike = [
            one for one in groups if (one.name, one.policy, one.member_ids) == (name, policy, ())
        ]
        return alike[0] if len(alike) == 1 else None

    def _delete_server_group(self, server_group_id: str) -> None:
        asked = Asked.of('delete server group', server_group_id)
        if not _ID.fullmatch(server_group_id):
            return
        try:
            self._services.ask(asked, 'DELETE', f'{_GROUPS}/{server_group_id}')
        except ResourceNotFoundError:
            return

    # ---- validation, resources, console ----------------------------------

    def _validate_flavor(self, flavor: str) -> None:
        self._catalogue.flavor_id(Asked.of('use flavor', flavor), flavor)

    def _validate_image(self, image_id: str) -> None:
        self._catalogue.check_image(Asked.of('use image', image_id), image_id)

    def _validate_zone(self, availability_zone: str) -> None:
        asked = Asked.of('use zone', availability_zone)
        self._catalogue.check_zone(asked, availability_zone)

    def _validate_network(self, network_id: str) -> None:
        asked = Asked.of('use network', network_id)
        (found,) = self._catalogue.networks.ids(asked, [network_id])
        self._catalogue.networks.check_address(asked, found)

    def _validate_security_group(self, security_group: str) -> None:
        asked = Asked.of('use security group', security_group)
        self._catalogue.networks.group_ids(asked, [security_group])

    def _check_ports(
        self,
        sec_groups: tuple[str, ...],
        ports: tuple[str, ...],
        peers: tuple[str, ...] | None,
    ) -> None:
        groups = self._groups_of_build(sec_groups)
        others = groups if peers is None else self._groups_of_build(peers)
        asked = about_groups(groups)
        networks = self._catalogue.networks
        ids = networks.current_group_ids(groups)
        of_peers = ids if others == groups else networks.current_group_ids(others)
        rules = networks.group_rules(asked, ids)
        if not {rule['security_group_id'] for rule in rules}.issuperset(ids):
            # A group without any rule, also for what goes out, is one whose rules are not shown
            # to this project, so it cannot be judged.
            return
        closed = closed_ports(rules, ports, of_peers)
        # Nova refuses named groups on a network without port security, but not the default one.
        if closed and (groups != DEFAULT_GROUPS or not networks.has_unguarded(asked)):
            raise asked.error(InvalidRequest, reason(closed, others if others != groups else ()))

    def _groups_of_build(self, named: tuple[str, ...]) -> tuple[str, ...]:
        return named or tuple(self._conf.security_groups) or DEFAULT_GROUPS

    def _describe_image(self, image_id: str) -> ImageFacts:
        return self._catalogue.image_facts(Asked.of('use image', image_id), image_id)

    def _list_zones(self) -> Sequence[str]:
        return self._catalogue.zones(Asked(verb='list', subject='zones'))

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        wanted = {} if lines is None else {'length': lines}
        asked = self._about('read the console log of', amphora_id)
        answer = self._post_action(asked, 'os-getConsoleOutput', wanted)
        return str(answer['output'])

    # ---- requests --------------------------------------------------------

    def _act(self, asked: Asked, action: str, how: Any = None) -> None:
        """Start an action that changes a server."""
        self._post_action(asked, action, how)

    def _post_action(self, asked: Asked, action: str, how: Any) -> Any:
        path = f'{self._path(asked)}/action'
        return self._services.ask(asked, 'POST', path, body={action: how})

    def _interfaces(self, asked: Asked) -> list[dict[str, Any]]:
        answer = self._services.ask(asked, 'GET', f'{self._path(asked)}/os-interface')
        found: list[dict[str, Any]] = answer['interfaceAttachments']
        return found

    def _attach(self, asked: Asked, wanted: Mapping[str, Any]) -> Attachment:
        assert asked.amphora_id is not None
        answer = self._services.ask(
            asked,
            'POST',
            f'{self._path(asked)}/os-interface',
            body={'interfaceAttachment': wanted},
        )
        return translate.attachment_of(asked.amphora_id, answer['interfaceAttachment'])

    def _about(self, verb: str, amphora_id: str, resource_id: str | None = None) -> Asked:
        """Return the context of a request for an amphora, whose id has a form of OpenStack's."""
        asked = Asked.about(verb, amphora_id, resource_id)
        if not _ID.fullmatch(amphora_id):
            raise asked.error(InstanceNotFoundError, 'Nova has no ids of that form.')
        return asked
