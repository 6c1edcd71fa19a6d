"""The Heat driver: each amphora is a stack, and what its server does is up to Nova."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.lazy_options import lazy_options
from kiln.compute_drivers.heat import translate
from kiln.compute_drivers.heat.api.stacks import Stacks
from kiln.compute_drivers.heat.building.content import content_of
from kiln.compute_drivers.heat.building.names import (
    SERVER_OWNER_TAG,
    SERVER_STACK_TAG,
    key_of,
    owner_of,
    stack_name,
    stack_tags,
)
from kiln.compute_drivers.heat.building.template import stack_body
from kiln.compute_drivers.heat.news import StackNews
from kiln.compute_drivers.nova import translate as nova
from kiln.compute_drivers.nova.actions import ServerActions
from kiln.compute_drivers.nova.building.body import Chosen
from kiln.compute_drivers.nova.building.builds import Memory
from kiln.compute_drivers.nova.building.choice import choose
from kiln.compute_drivers.nova.building.port_locks import KeyedLock
from kiln.compute_drivers.nova.defaults import check_defaults
from kiln.compute_drivers.nova.translate import OWNER_TAG, placed_on
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    ResourceNotFoundError,
)
from kiln.models import (
    Amphora,
    BuildRequest,
    Changes,
    ComputeStatus,
    DriverHealth,
    Limits,
    State,
)
from kiln.openstack.heat.requests import SERVICE
from kiln.openstack.heat.rows import StackRow

_Server = Mapping[str, Any]
#: Seconds by which two requests for changed servers overlap: Nova shows whole seconds.
_OVERLAP_S = 2


class StackDriver(ServerActions):
    """Builds each amphora as a stack of one project of one Heat: a server with its ports.

    The id of an amphora is that of its stack. Heat accepts a build before Nova has heard of
    it, so a lack of capacity or of quota shows only after the build began.
    """

    options = lazy_options('kiln.compute_drivers.heat.conf')
    #: The bench of the conformance kit; only the kit imports it.
    bench = 'kiln.compute_drivers.heat.bench:StackBench'
    # Four of the 128 items of metadata are kiln's own.
    limits = Limits(max_metadata_items=124)
    name = 'heat'
    # For each, Heat and Nova are asked; for all together as well.
    most_read_by_id = 1
    soonest_build_s = 2.0

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(conf, clock=clock, further=(SERVICE,))
        self._page_size = self._services.page_size(conf.page_size)
        # By the id of a stack. All of it can be read again.
        self._names = Memory()
        self._servers = Memory()
        self._facts = Memory()
        self._deleted = Memory()
        self._news = StackNews()
        self._turns = KeyedLock()

    def close(self) -> None:
        self._services.close()

    # ---- build, delete, find ---------------------------------------------

    def _build(self, request: BuildRequest) -> str:
        asked = Asked(
            verb='build', subject=request.name, build_key=request.build_key, looking=True
        )
        name = stack_name(request.owner, request.build_key)
        # Heat looks for the name first and stores the stack later: of two requests that arrive
        # together, it accepts both.
        with self._turns.hold(name):
            return self._made(asked, request, name)

    def _made(self, asked: Asked, request: BuildRequest, name: str) -> str:
        try:
            chosen = self._chosen(asked, request)
        except (InvalidBuildRequest, BuildConflict):
            # The name of its image can stand for another by now, or for none; and its ports
            # are in use by what an earlier request has made.
            found = None if request.fresh else self._repeated(asked, request, name)
            if found is None:
                raise
            return found
        body = stack_body(request, chosen, self._conf)
        making = dataclasses.replace(asked, making=True, looking=False)
        try:
            id_ = self._stacks(making).post(name, body, self._conf.stack_timeout)
        except BuildConflict:
            found = self._repeated(asked, request, name)
            if found is None:
                raise
            return found
        except InvalidBuildRequest:
            # A remembered id might have been deleted since.
            self._catalogue.forget()
            raise
        if not id_:
            raise making.error(BuildOutcomeUnknown, 'Heat answered without the id of a stack.')
        self._names[id_] = name
        self._facts[id_] = translate.Facts.read(body['parameters'])
        return id_

    def _chosen(self, asked: Asked, request: BuildRequest) -> Chosen:
        chosen = choose(asked, request, self._conf, self._catalogue, content=content_of)
        # Heat checks most names itself, but leaves these to Nova, which is asked much later.
        if chosen.availability_zone:
            self._catalogue.check_zone(asked, chosen.availability_zone)
        if request.server_group_id:
            self._catalogue.check_group(asked, request.server_group_id)
        self._catalogue.networks.group_ids(asked, chosen.security_groups, checked=True)
        for port_id in request.port_ids:
            if user := self._ports.holder(asked, port_id):
                raise asked.error(BuildConflict, f'port {port_id} is in use by {user}.')
        return chosen

    def _repeated(self, asked: Asked, request: BuildRequest, name: str) -> str | None:
        """Return the id of the stack that an earlier request of a build has made.

        :raises BuildDiffers: it was made with other arguments.
        :raises BuildConflict: it is somebody else's.
        """
        row = self._stacks(asked).named(name)
        if row is None:
            return None
        if not set(stack_tags(request.owner, request.build_key)) <= set(row.tags):
            raise asked.error(
                BuildConflict,
                f'stack {row.id} has the name {name}, and kiln did not make it. Delete or rename '
                f'that stack.',
            )
        self._names[row.id] = row.name
        return adopted(request, translate.as_built(row, self._facts_of(asked, row)))

    def _delete(self, amphora_id: str) -> None:
        asked = self._about('delete', amphora_id)
        name = self._names.get(amphora_id) or self._row(asked).name
        self._stacks(asked).delete(name, amphora_id)
        self._deleted[amphora_id] = True

    def _get(self, amphora_id: str) -> Amphora:
        asked = self._about('get', amphora_id)
        row = self._row(asked)
        server = self._server_of(asked, row)
        amphora = self._amphora(asked, row, server)
        if server and len({address.mac for address in amphora.addresses}) > 1:
            # With two or more ports, the network of each address matters.
            amphora = placed_on(amphora, self._interfaces(asked))
        return amphora

    def _list(self, owner: str) -> Iterable[Amphora]:
        asked = Asked(verb='list', subject=f'the amphorae of {owner}')
        rows = self._rows(asked, owner)
        found = self._beside(asked, rows, self._servers_of(asked, owner, rows))
        return [self._amphora(asked, row, server) for row, server in found]

    def _find_build(self, build_key: str) -> Amphora | None:
        asked = Asked(verb='look for build', subject=build_key, build_key=build_key)
        row = self._stacks(asked).named(stack_name(self.owner, build_key))
        if row is None or (owner_of(row), key_of(row)) != (self.owner, build_key):
            return None
        row = self._noted(row)
        return self._amphora(asked, row, self._server_of(asked, row))

    def _status(self, amphora_id: str) -> ComputeStatus:
        asked = self._about('read the status of', amphora_id)
        row = self._row(asked)
        amphora = translate.amphora_of(row, self._server_of(asked, row))
        return amphora.status(self.clock.time())

    def _changes(self, since: str) -> Changes:
        """Return what changed: by a list of the stacks, and one of the servers that changed."""
        asked = Asked(verb='read', subject='changes')
        now = self.clock.time()
        after = self._news.since(since, now)
        rows = self._rows(asked, self.owner)
        self._news.note(rows, now)
        if after is None:
            found = self._beside(asked, rows, self._servers_of(asked, self.owner, rows))
        else:
            found = self._beside_changed(asked, rows, after)
        return Changes(
            statuses=tuple(translate.amphora_of(row, one).status(now) for row, one in found),
            gone=() if after is None else tuple(self._news.gone(after)),
            cursor=self._news.cursor(now),
            complete=after is None,
        )

    def _beside_changed(
        self, asked: Asked, rows: Sequence[StackRow], after: float
    ) -> Iterator[tuple[StackRow, _Server | None]]:
        """Yield the stacks that changed after a time, or whose servers did."""
        changed = self._changed_servers(asked, after) if _any_complete(rows) else {}
        for row in rows:
            server = changed.get(row.id)
            if server and nova.state_of(server) is not State.DELETED:
                yield row, server if translate.has_server(row) else None
            elif server or not translate.has_server(row) or self._news.is_new(row, after):
                yield row, self._server_of(asked, row)

    def _changed_servers(self, asked: Asked, after: float) -> Mapping[str, _Server]:
        # Without a filter by tag: Nova deletes the tags of a server with the server.
        moment = nova.moment_of(after + self._services.ahead_s - _OVERLAP_S)
        stacks = {server_id: id_ for id_, server_id in list(self._servers.items())}
        rows = self._services.pages(
            asked, '/servers/detail', 'servers', {'changes-since': moment}, self._page_size
        )
        return {translate.stack_of(one) or stacks.get(one['id'], ''): one for one in rows}

    def _check(self) -> DriverHealth:
        asked = Asked(verb='check', subject='the backend')
        started = self.clock.monotonic()
        self._services.ask(asked, 'GET', '/stacks', service=SERVICE, query={'limit': 1})
        latency_s = self.clock.monotonic() - started
        check_defaults(asked, self._conf, self._catalogue)
        detail = f'Heat, and Nova with microversion {self._services.version(asked)}'
        return DriverHealth(healthy=True, detail=detail, latency_s=latency_s)

    # ---- stacks and their servers ----------------------------------------

    def _stacks(self, asked: Asked) -> Stacks:
        return Stacks(self._services, asked, page=self._conf.stack_page_size)

    def _row(self, asked: Asked) -> StackRow:
        """Return the stack of an amphora; one that no build has made is not found."""
        assert asked.amphora_id is not None
        row = self._stacks(asked).with_id(asked.amphora_id)
        if row is None or key_of(row) is None:
            raise asked.error(InstanceNotFoundError, 'Heat has no stack of kiln with that id.')
        return self._noted(row)

    def _noted(self, row: StackRow) -> StackRow:
        """Remember the name of a stack; return it in the state that kiln takes it to have."""
        self._names[row.id] = row.name
        if row.action != 'DELETE' and row.id in self._deleted:
            # Heat has accepted the delete, and ends first what it does with the stack.
            return dataclasses.replace(row, action='DELETE', status='IN_PROGRESS')
        return row

    def _rows(self, asked: Asked, owner: str) -> list[StackRow]:
        """Return the stacks of a site."""
        return [
            self._noted(row)
            for row in self._stacks(asked).stacks(tags=OWNER_TAG + owner)
            if owner_of(row) == owner and key_of(row) is not None
        ]

    def _beside(
        self, asked: Asked, rows: Sequence[StackRow], servers: Mapping[str, _Server]
    ) -> Iterator[tuple[StackRow, _Server | None]]:
        """Yield stacks, each with its server if it has one."""
        for row in rows:
            server = servers.get(row.id) if translate.has_server(row) else None
            # A list can leave a server out, so its absence is confirmed.
            yield row, server or self._server_of(asked, row)

    def _servers_of(
        self, asked: Asked, owner: str, rows: Sequence[StackRow]
    ) -> Mapping[str, _Server]:
        """Return the servers of a site by the ids of their stacks, after these were listed."""
        if not _any_complete(rows):
            return {}
        query = {'tags': SERVER_OWNER_TAG + owner}
        found = {}
        for server in self._services.pages(
            asked, '/servers/detail', 'servers', query, self._page_size
        ):
            found[translate.stack_of(server)] = server
            self._servers[translate.stack_of(server)] = server['id']
        return found

    def _server_of(self, asked: Asked, row: StackRow) -> _Server | None:
        """Return the server of a stack that has one; None if it is lost, or not there yet."""
        if not translate.has_server(row):
            return None
        query = {'tags': SERVER_STACK_TAG + row.id}
        rows = self._services.ask(asked, 'GET', '/servers/detail', query=query)['servers']
        server: _Server | None = next(
            (one for one in rows if translate.stack_of(one) == row.id), None
        )
        if server is not None:
            self._servers[row.id] = server['id']
        return server

    def _amphora(self, asked: Asked, row: StackRow, server: _Server | None) -> Amphora:
        facts = None if server else self._facts_if_shown(asked, row)
        return translate.amphora_of(row, server, facts)

    def _facts_if_shown(self, asked: Asked, row: StackRow) -> translate.Facts:
        """Return the facts of a stack; empty ones while Heat can list it and not show it."""
        try:
            return self._facts_of(asked, row)
        except AmphoraComputeError as exc:
            # Heat has been seen to do so for hours. The row alone says whose the stack is and
            # what becomes of it: enough to list it, and to see that it is deleted.
            if exc.retryable or isinstance(exc, InstanceNotFoundError | ResourceNotFoundError):
                return translate.Facts()
            raise

    def _facts_of(self, asked: Asked, row: StackRow) -> translate.Facts:
        facts: translate.Facts | None = self._facts.get(row.id)
        if facts is None:
            shown = self._stacks(asked).shown(row.name, row.id, 'the parameters', outputs=False)
            facts = self._facts[row.id] = translate.Facts.read(shown.get('parameters') or {})
        return facts

    # ---- what actions need ------------------------------------------------

    def _server(self, asked: Asked) -> dict[str, Any]:
        row = self._row(asked)
        if not translate.has_server(row):
            # Whatever is to be attached, no port is to blame.
            raise dataclasses.replace(asked, resource_id=None).error(
                InstanceStateConflict, f'its stack is {row.state}.',
                retryable=row.status == 'IN_PROGRESS',
            )  # fmt: skip
        server = self._server_of(asked, row)
        if server is None:
            raise asked.error(
                InstanceStateConflict, translate.LOST[0].lower() + translate.LOST[1:]
            )
        return dict(server)

    def _path(self, asked: Asked) -> str:
        assert asked.amphora_id is not None
        server_id = self._servers.get(asked.amphora_id) or self._server(asked)['id']
        return f'/servers/{server_id}'


def _any_complete(rows: Sequence[StackRow]) -> bool:
    return any(map(translate.has_server, rows))
