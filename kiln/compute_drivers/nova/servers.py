"""Amphorae as servers of Nova: every hook of the contract, answered by requests."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.api.client import Services
from kiln.compute_drivers.nova.building import body
from kiln.compute_drivers.nova.building.builds import Builds
from kiln.compute_drivers.nova.building.port_locks import PORT, PortLocks
from kiln.compute_drivers.nova.catalogue import Catalogue
from kiln.compute_drivers.nova.defaults import check_defaults
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
    Amphora,
    Attachment,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    ImageFacts,
    Limits,
    Resource,
    ServerGroup,
    State,
)
from kiln.openstack.session import open_session

#: Seconds by which two requests for changes overlap: Nova's clock shows whole
#: seconds, and a row that was just written might not be readable.
_OVERLAP_S = 2
#: The statuses with which Nova reports that a port or a network is already attached.
_TAKEN = (400, 409)
#: The form of Nova's ids; in a path, any other text could name something else.
_ID = re.compile(r'(?!detail$)[0-9a-z-]+')

_GROUPS = '/os-server-groups'


class ServerDriver(AmphoraComputeDriver):
    """The hooks of the contract as requests to one project of one Nova.

    A server that boots from a volume has no image to reuse, so its rebuild must name one.
    Server groups do not record who created them. The only resources beside servers that it
    lists and deletes are ports.
    """

    options = lazy_options('kiln.compute_drivers.nova.conf')
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.nova.bench:NovaBench'
    # Four of the 128 items of metadata are kiln's own.
    limits = Limits(max_metadata_items=124)
    name = 'nova'
    most_read_by_id = 3
    # No cloud schedules, plugs and starts a server in less time.
    soonest_build_s = 2.0

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._conf = conf
        session, region = open_session(conf)
        self._services = Services(conf, session, region=region, clock=clock)
        self._page_size = self._services.page_size(conf.page_size)
        self._brief_page_size = self._services.page_size(conf.page_size)
        self._catalogue = Catalogue(
            self._services, clock, ttl_s=conf.catalogue_ttl, image_owner=conf.image_owner
        )
        self._ports = PortLocks(self._services)
        self._builds = Builds(conf, self._services, self._catalogue, self._ports, clock)

    def close(self) -> None:
        self._builds.close()
        self._services.close()

    # ---- build, delete, find ---------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        return self._builds.build(request)

    def _delete(self, amphora_id: str) -> None:
        asked = _about('delete', amphora_id)
        self._builds.delete(asked, self.owner)

    def _get(self, amphora_id: str) -> Amphora:
        asked = _about('get', amphora_id)
        amphora = translate.amphora_of(self._server(asked))
        if len({address.mac for address in amphora.addresses}) > 1:
            # With two or more ports, the network of each address matters.
            amphora = translate.placed_on(amphora, self._interfaces(asked))
        return amphora

    def _list(self, owner: str) -> Iterable[Amphora]:
        asked = Asked(verb='list', subject=f'the amphorae of {owner}')
        return [
            translate.amphora_of(self._builds.accepted(asked, server))
            for server in self._detail(asked, {'tags': translate.OWNER_TAG + owner})
            if translate.is_of(server, owner)
        ]

    def _find(self, name: str) -> Sequence[Amphora]:
        # Nova reads the name as an unanchored regular expression.
        query = {'name': f'^{re.escape(name)}$', 'tags': translate.OWNER_TAG + self.owner}
        asked = Asked(verb='find', subject=name)
        return [
            translate.amphora_of(self._builds.accepted(asked, server))
            for server in self._detail(asked, query)
            if server.get('name') == name and translate.is_of(server, self.owner)
        ]

    def _find_build(self, build_key: str) -> Amphora | None:
        asked = Asked(verb='look for build', subject=build_key, build_key=build_key)
        server = self._builds.find(asked, self.owner)
        return None if server is None else translate.amphora_of(server)

    # ---- status ----------------------------------------------------------

    def _status(self, amphora_id: str) -> ComputeStatus:
        server = self._server(_about('read the status of', amphora_id))
        return translate.status_of(server, self.clock.time())

    def _changes(self, since: str) -> Changes:
        asked = Asked(verb='read', subject='changes')
        now = self.clock.time()
        query: dict[str, Any] = {}
        if translate.seconds_of(since) is None:
            # Nova refuses what is not a time, so a foreign cursor counts as expired.
            since = ''
        if since:
            self._builds.unproven.arrived(since)
            # Nova deletes the tags of a server with the server, so a filter by tag
            # would hide deleted servers. For a tenth of a second a new server is
            # missing here: its build request is already deleted, and its host has
            # not written to it. A later answer has it.
            query['changes-since'] = since
        else:
            query['tags'] = translate.OWNER_TAG + self.owner
        statuses: dict[str, ComputeStatus] = {}
        gone = set()
        for server in self._detail(asked, query):
            if translate.state_of(server) is State.DELETED:
                gone.add(server['id'])
                self._builds.gone(server['id'])
            elif translate.owner_of(server) == self.owner:
                status = translate.status_of(self._builds.accepted(asked, server), now)
                statuses[status.amphora_id] = status
        statuses |= self._unheard(statuses)
        ahead_s = self._services.ahead_s
        if since:
            departures = self._builds.departures
            gone |= set(departures.ended_since((translate.seconds_of(since) or 0.0) - ahead_s))
        cursor = self._moment(now)
        self._builds.unproven.told(statuses, cursor)
        return Changes(
            statuses=tuple(statuses.values()),
            gone=tuple(gone),
            cursor=cursor,
            complete=not since,
        )

    def _reached(self, state: State, since: str) -> Collection[str] | None:
        # For a list with details, Nova requests the ports of all its servers from Neutron.
        # Under load that takes several times as long as a list of the ids alone.
        asked = Asked(verb='list', subject=f'the servers that are {state}')
        query = {
            'changes-since': since,
            'status': state.upper(),
            'tags': translate.OWNER_TAG + self.owner,
        }
        rows = self._services.pages(asked, '/servers', 'servers', query, self._brief_page_size)
        departures = self._builds.departures
        ids = {
            server['id']
            for server in rows
            # A server whose cell is down is in every list, in an unknown state.
            if 'status' not in server and server['id'] not in departures
        }
        return None if self._builds.doubtful(ids) else ids

    def _unheard(self, heard: Collection[str]) -> Mapping[str, ComputeStatus]:
        """Return the statuses of servers that the answers about changes should have had."""
        found: dict[str, ComputeStatus] = {}
        for amphora_id in self._builds.unheard(heard):
            # A server that is gone is recorded by the request itself. A request that
            # fails must not discard the answer about all other servers.
            try:
                found |= self._statuses((amphora_id,))
            except AmphoraComputeError as exc:
                if not exc.retryable:
                    raise
                break
        return found

    def cursor(self) -> str:
        """Return a cursor for the present, by Nova's clock as far as it is known."""
        return self._moment(self.clock.time())

    def _moment(self, now: float) -> str:
        return translate.moment_of(now + self._services.ahead_s - _OVERLAP_S)

    def _check(self) -> DriverHealth:
        asked = Asked(verb='check', subject='the backend')
        started = self.clock.monotonic()
        self._services.ask(asked, 'GET', '/servers', query={'limit': 1})
        latency_s = self.clock.monotonic() - started
        check_defaults(asked, self._conf, self._catalogue)
        detail = f'microversion {self._services.version(asked)}'
        return DriverHealth(healthy=True, detail=detail, latency_s=latency_s)

    # ---- execution state -------------------------------------------------

    def _suspend(self, amphora_id: str) -> None:
        asked = _about('suspend', amphora_id)
        try:
            self._act(asked, 'suspend')
        except InstanceStateConflict:
            if self._status(amphora_id).state is not State.SUSPENDED:
                raise

    def _resume(self, amphora_id: str) -> None:
        asked = _about('resume', amphora_id)
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
        self._act(_about('reboot', amphora_id), 'reboot', how)

    def _rebuild(self, amphora_id: str, image_id: str | None) -> None:
        asked = _about('rebuild', amphora_id)
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
        asked = _about(f'attach port {port_id} to', amphora_id, port_id)
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
        asked = _about(f'detach port {port_id} from', amphora_id, port_id)
        if not _ID.fullmatch(port_id):
            self._server(asked)
            return
        try:
            self._services.ask(asked, 'DELETE', f'/servers/{amphora_id}/os-interface/{port_id}')
        except ResourceNotFoundError:
            # For a server that does not exist, Nova might report the missing port first.
            self._server(asked)
        except InstanceStateConflict:
            # Nova checks the state of the server before it looks for the port.
            if any(one['port_id'] == port_id for one in self._interfaces(asked)):
                raise

    def _attach_network(self, amphora_id: str, network_id: str, address: str | None) -> Attachment:
        asked = _about(f'attach network {network_id} to', amphora_id, network_id)
        wanted: dict[str, Any] = {'net_id': network_id}
        if address:
            wanted['fixed_ips'] = [{'ip_address': address}]
        try:
            return self._attach(asked, wanted)
        except ServiceUnavailable as exc:
            # Nova answers 500 for a network that does not exist; that is not an outage.
            if exc.http_status == 500:
                self._catalogue.check_network(asked, network_id)
            raise

    def _detach_network(self, amphora_id: str, network_id: str) -> None:
        asked = _about(f'detach network {network_id} from', amphora_id, network_id)
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
        self._catalogue.network_ids(Asked.of('use network', network_id), [network_id])

    def _validate_security_group(self, security_group: str) -> None:
        asked = Asked.of('use security group', security_group)
        self._catalogue.security_group_ids(asked, [security_group])

    def _describe_image(self, image_id: str) -> ImageFacts:
        return self._catalogue.image_facts(Asked.of('use image', image_id), image_id)

    def _list_zones(self) -> Sequence[str]:
        return self._catalogue.zones(Asked(verb='list', subject='zones'))

    def _list_resources(self, owner: str) -> Iterable[Resource]:
        return self._ports.resources(Asked(verb='list', subject=f'the ports of {owner}'), owner)

    def _delete_resource(self, resource: Resource) -> None:
        asked = Asked.of(f'delete {resource.kind}', resource.id)
        if resource.kind != PORT:
            raise asked.error(InvalidRequest, 'only ports are resources of this backend.')
        try:
            user = self._ports.holder(asked, resource.id)
        except ResourceNotFoundError:
            return
        # A port can keep the id of a server that is gone.
        if user and self._statuses((user,)):
            # Neutron would take the port away from a server that runs.
            raise asked.error(InstanceStateConflict, f'amphora {user} uses it.')
        self._ports.delete(asked, resource.id)

    def _console_log(self, amphora_id: str, lines: int | None) -> str:
        wanted = {} if lines is None else {'length': lines}
        asked = _about('read the console log of', amphora_id)
        answer = self._post_action(asked, 'os-getConsoleOutput', wanted)
        return str(answer['output'])

    # ---- requests --------------------------------------------------------

    def _server(self, asked: Asked) -> dict[str, Any]:
        assert asked.amphora_id is not None
        try:
            answer = self._services.ask(asked, 'GET', f'/servers/{asked.amphora_id}')
        except InstanceNotFoundError:
            self._builds.gone(asked.amphora_id)
            raise
        return self._builds.accepted(asked, answer['server'])

    def _detail(self, asked: Asked, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        return self._services.pages(asked, '/servers/detail', 'servers', query, self._page_size)

    def _act(self, asked: Asked, action: str, how: Any = None) -> None:
        """Start an action that changes a server."""
        self._post_action(asked, action, how)

    def _post_action(self, asked: Asked, action: str, how: Any) -> Any:
        path = f'/servers/{asked.amphora_id}/action'
        return self._services.ask(asked, 'POST', path, body={action: how})

    def _interfaces(self, asked: Asked) -> list[dict[str, Any]]:
        answer = self._services.ask(asked, 'GET', f'/servers/{asked.amphora_id}/os-interface')
        found: list[dict[str, Any]] = answer['interfaceAttachments']
        return found

    def _attach(self, asked: Asked, wanted: Mapping[str, Any]) -> Attachment:
        assert asked.amphora_id is not None
        answer = self._services.ask(
            asked,
            'POST',
            f'/servers/{asked.amphora_id}/os-interface',
            body={'interfaceAttachment': wanted},
        )
        return translate.attachment_of(asked.amphora_id, answer['interfaceAttachment'])


def _about(verb: str, amphora_id: str, resource_id: str | None = None) -> Asked:
    """Return the context of a request for a server, whose id has a form of Nova's."""
    asked = Asked.about(verb, amphora_id, resource_id)
    if not _ID.fullmatch(amphora_id):
        raise asked.error(InstanceNotFoundError, 'Nova has no ids of that form.')
    return asked
