"""Amphorae as servers of Nova: every hook of the contract, answered by requests."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.actions import ServerActions
from kiln.compute_drivers.nova.building.builds import Builds
from kiln.compute_drivers.nova.building.claims import Claims
from kiln.compute_drivers.nova.building.port_locks import PORT
from kiln.compute_drivers.nova.defaults import check_defaults
from kiln.exceptions import (
    AmphoraComputeError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    ResourceNotFoundError,
)
from kiln.models import (
    Amphora,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    Limits,
    Resource,
    State,
)

#: Seconds by which two requests for changes overlap: Nova's clock shows whole
#: seconds, and a row that was just written might not be readable.
_OVERLAP_S = 2


class ServerDriver(ServerActions):
    """The hooks of the contract as requests to one project of one Nova.

    The only resources beside servers that it lists and deletes are ports.
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
        super().__init__(conf, clock=clock)
        self._page_size = self._services.page_size(conf.page_size)
        self._brief_page_size = self._services.page_size(conf.page_size)
        self._builds = Builds(conf, self._services, self._catalogue, self._ports, clock)
        self._claims = Claims(self._services, self._builds)

    def close(self) -> None:
        self._builds.close()
        self._services.close()

    # ---- build, delete, find ---------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        return self._builds.build(request)

    def _delete(self, amphora_id: str) -> None:
        asked = self._about('delete', amphora_id)
        self._builds.delete(asked, self.owner)

    def _get(self, amphora_id: str) -> Amphora:
        asked = self._about('get', amphora_id)
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

    def _claim(self, amphora_id: str, build_key: str) -> None:
        asked = dataclasses.replace(self._about('claim', amphora_id), build_key=build_key)
        self._claims.claim(asked, self.owner)

    # ---- status ----------------------------------------------------------

    def _status(self, amphora_id: str) -> ComputeStatus:
        server = self._server(self._about('read the status of', amphora_id))
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

    # ---- resources -------------------------------------------------------

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

    def _path(self, asked: Asked) -> str:
        return f'/servers/{asked.amphora_id}'
