"""The Nova driver that hears what servers do, and asks only for the rest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.compute_drivers.nova.errors import Asked
from kiln.compute_drivers.nova.news import TRUSTED_S, News, Server
from kiln.compute_drivers.nova.notifications import DOUBTFUL, Bus
from kiln.exceptions import InstanceNotFoundError
from kiln.models import BuildRequest, Changes, ComputeStatus, DriverHealth, State

#: Seconds that a check waits for the first connection to the broker.
_CONNECT_S = 1.0
_BEING_BUILT = (State.PENDING, State.BUILDING)


class ListeningDriver(NovaDriver):
    """Answers from Nova's notifications while it hears them without a break.

    Whatever puts that in doubt is answered by Nova itself, as if there were no
    notifications: a cursor has both the moment up to which Nova was asked and
    the place up to which was listened.
    """

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(conf, clock=clock)
        self._news = News(clock)
        self._hurry: Callable[[], None] = lambda: None
        self._bus = Bus(
            conf.notification_url,
            exchange=conf.notification_exchange,
            topic=conf.notification_topic,
            on_server=self._heard,
            on_up=self._up,
            on_down=self._down,
            gather_s=conf.notification_gather,
        )

    def close(self) -> None:
        """Give back the connections."""
        self._bus.close()
        super().close()

    # ---- what is heard, on the thread of the bus -------------------------

    def on_news(self, hurry: Callable[[], None]) -> None:
        """Have somebody told that there is something to look at."""
        self._hurry = hurry

    def _up(self) -> None:
        self._news.begin()
        self._hurry()

    def _down(self) -> None:
        self._news.end()
        self._hurry()

    def _heard(self, server: Server) -> None:
        if not self._ours(server):
            return
        state = translate.state_of(server)
        if state is State.DELETED:
            self._builds.gone(server['id'])
        self._news.tell(server)
        # Each step on the way is told, and can wait for the next look.
        if state.settled or DOUBTFUL in server:
            self._hurry()

    def _ours(self, server: Server) -> bool:
        if server['tags']:
            return translate.owner_of(server) == self.owner
        # Whose it is was told before, or it is not told at all: but an end is
        # news even of what was never heard of, if kiln made it.
        return server['id'] in self._news or (
            translate.state_of(server) is State.DELETED
            and any(key.startswith(translate.RESERVED) for key in server['metadata'])
        )

    # ---- the hooks -------------------------------------------------------

    def _check(self) -> DriverHealth:
        # Who checks will want something soon, and then it should be heard already.
        self._bus.start()
        health = super()._check()
        how = 'listened to' if self._bus.is_up(_CONNECT_S) else 'polled, no notifications'
        return dataclasses.replace(health, detail=f'{health.detail}, {how}')

    def _build(self, request: BuildRequest) -> str:
        self._bus.start()
        # Before the request: all that is told of the server comes after this place.
        place, began = self._news.place(), self.clock.monotonic()
        server_id = super()._build(request)
        if self._builds.sent.get(server_id, -math.inf) >= began:
            # It was made now, not found: so it is being built, if nothing was told yet.
            self._news.note({'id': server_id, 'OS-EXT-STS:vm_state': 'building'}, place)
        return server_id

    def _status(self, amphora_id: str) -> ComputeStatus:
        self._bus.start()
        place = self._news.place()
        try:
            status = super()._status(amphora_id)
        except InstanceNotFoundError:
            self._note(amphora_id, None, place)
            raise
        # Nova writes a state down before it tells of it, and what one reader was
        # answered here is no news to come for another.
        self._note(amphora_id, status, place)
        return status

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        self._bus.start()
        known = [self._news.known(amphora_id) for amphora_id in amphora_ids]
        told = self._told([server for server in known if server is not None])
        unknown = [one for one, server in zip(amphora_ids, known, strict=True) if server is None]
        found = {status.amphora_id: status for status in told.statuses}
        found |= self._asked(unknown)
        return {one: found[one] for one in amphora_ids if one in found}

    def _changes(self, since: str) -> Changes:
        self._bus.start()
        moment, _, place = since.partition('/')
        told = self._news.since(place) if self._recent(moment) else None
        if told is not None:
            return dataclasses.replace(self._told(told.servers), cursor=f'{moment}/{told.place}')
        # The place first: what is told while Nova answers is told again later.
        place = self._news.place()
        changes = super()._changes(moment)
        return dataclasses.replace(changes, cursor=f'{changes.cursor}/{place}')

    def cursor(self) -> str:
        """Return the present moment, and how much has been told."""
        return f'{super().cursor()}/{self._news.place()}'

    def _act(self, asked: Asked, action: str, how: Any = None) -> None:
        assert asked.amphora_id is not None
        try:
            super()._act(asked, action, how)
        finally:
            # Nova agrees to it, and tells of it when a host begins.
            self._news.doubt(asked.amphora_id)

    def _reached(self, state: State, since: str) -> Collection[str] | None:
        # To look through what was told costs less than any question.
        if self._news.place():
            return None
        moment, _, _ = since.partition('/')
        return super()._reached(state, moment)

    # ---- how much is known -----------------------------------------------

    def _recent(self, moment: str) -> bool:
        """Say whether Nova was asked not long ago, in case a message was lost."""
        asked_at = translate.seconds_of(moment)
        now = self.clock.time() + self._services.ahead_s
        return asked_at is not None and now - asked_at < TRUSTED_S

    def _told(self, servers: Iterable[Server]) -> Changes:
        """Return what was told, together with what has to be asked for."""
        asked = Asked(verb='read', subject='changes')
        now = self.clock.time()
        # Of one that is deleted before it has a host nothing is told.
        overdue = self._builds.unheard(())
        unsaid = {one for one in overdue if not self._leaving(one)}
        statuses: dict[str, ComputeStatus] = {}
        gone: set[str] = set()
        for server in servers:
            state = translate.state_of(server)
            if state is State.DELETED:
                gone.add(server['id'])
            elif _told_an_error(server):
                # Whether and why it failed is told to those who ask.
                unsaid.add(server['id'])
            elif server['id'] not in unsaid:
                taken = self._builds.accepted(asked, dict(server))
                statuses[server['id']] = translate.status_of(taken, now)
        found = self._asked(unsaid - gone)
        gone |= unsaid - found.keys()
        return Changes(statuses=(*statuses.values(), *found.values()), gone=tuple(gone))

    def _leaving(self, server_id: str) -> bool:
        server = self._news.known(server_id)
        return server is not None and translate.state_of(server) is State.DELETING

    def _asked(self, server_ids: Collection[str]) -> Mapping[str, ComputeStatus]:
        """Ask Nova, and know from now on what it said."""
        if not server_ids:
            return {}
        place = self._news.place()
        found = super()._statuses(tuple(server_ids))
        # Of those that are no more it was noted when they were asked for by id.
        for server_id, status in found.items():
            self._note(server_id, status, place)
        # From the place of its reader on this is told, so that it cannot get lost.
        self._builds.unproven.kept(found)
        return found

    def _note(self, server_id: str, status: ComputeStatus | None, place: str) -> None:
        """Know from now on what Nova said of a server, which is None where it is no more.

        One of which an error was told, and that is being built, is doubtful yet: it goes
        on on another host, which is told, or fails soon, which may not be.
        """
        last = self._news.last(server_id)
        if status is None:
            said: dict[str, Any] = {'id': server_id, 'OS-EXT-STS:vm_state': 'deleted'}
        # What becomes of a stranger is not listened to, so its state would soon be old.
        elif translate.owner_of(status.raw) != self.owner:
            return
        else:
            said = {'fault': None, **status.raw}
            if status.state in _BEING_BUILT and last is not None and _told_an_error(last):
                said[DOUBTFUL] = True
        self._news.note(said, place)


def _told_an_error(server: Server) -> bool:
    """Return whether the bus told of an error, of which Nova was not asked yet."""
    if DOUBTFUL in server:
        return True
    return translate.state_of(server) is State.ERROR and 'fault' not in server
