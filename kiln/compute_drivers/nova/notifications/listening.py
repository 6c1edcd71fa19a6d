"""Nova driver that reads notifications and polls Nova only for the rest."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.notifications.bus import DOUBTFUL, Bus
from kiln.compute_drivers.nova.notifications.cache import TRUSTED_S, News, Server
from kiln.compute_drivers.nova.notifications.hearing import Hearing
from kiln.compute_drivers.nova.servers import ServerDriver
from kiln.exceptions import InstanceNotFoundError
from kiln.models import BuildRequest, Changes, ComputeStatus, DriverHealth, State

LOG = logging.getLogger(__name__)

#: Seconds that a check waits for the first connection to the broker.
_CONNECT_S = 1.0
_BEING_BUILT = (State.PENDING, State.BUILDING)


class ListeningDriver(ServerDriver):
    """Answers from Nova's notifications while they arrive without a break.

    In any doubt it polls Nova, as the driver without notifications does: a cursor
    has both the time up to which Nova was polled and the place up to which
    notifications were read. It also polls while nothing is reported about its builds.
    """

    def __init__(self, conf: Any, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(conf, clock=clock)
        self._news = News(clock)
        self._hearing = Hearing(clock)
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
        self._bus.close()
        super().close()

    # ---- notifications, on the thread of the bus -------------------------

    def on_news(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry

    def _up(self) -> None:
        self._news.begin()
        self._hearing.up()
        self._hurry()

    def _down(self) -> None:
        self._news.end()
        self._hearing.down()
        self._hurry()

    def _heard(self, server: Server) -> None:
        ours = self._ours(server)
        if self._hearing.heard(server['id'], ours=ours):
            LOG.info('Nova reports the builds of %s again, so it is listened to', self.name)
        if not ours:
            return
        state = translate.state_of(server)
        if state is State.DELETED:
            self._builds.gone(server['id'])
        self._news.tell(server)
        # Intermediate states are reported too; they can wait for the next poll.
        if state.settled or DOUBTFUL in server:
            self._hurry()

    def _ours(self, server: Server) -> bool:
        if server['tags']:
            return translate.owner_of(server) == self.owner
        # Without tags: its site was reported before, or is unknown. But the end of any
        # server that kiln made is of interest, even if it was never reported before.
        return server['id'] in self._news or (
            translate.state_of(server) is State.DELETED
            and any(key.startswith(translate.RESERVED) for key in server['metadata'])
        )

    # ---- the hooks -------------------------------------------------------

    def _check(self) -> DriverHealth:
        # After a check, calls usually follow; the bus should be connected by then.
        self._bus.start()
        health = super()._check()
        return dataclasses.replace(health, detail=f'{health.detail}, {self._how()}')

    def _how(self) -> str:
        """Return how states are read, for operators."""
        if not self._bus.is_up(_CONNECT_S):
            why = self._bus.trouble
            return f'polled, no notifications from {why}' if why else 'polled, no notifications'
        if self._hearing.deaf:
            return 'polled, connected but Nova reports no builds'
        heard_s = self._hearing.last_heard_s()
        said = 'nothing heard so far' if heard_s is None else f'last heard {heard_s:.0f} s ago'
        return f'listening, {said}'

    def _build(self, request: BuildRequest) -> str:
        self._bus.start()
        # Taken before the request: all reports about the server come after this place.
        place, began = self._news.place(), self.clock.monotonic()
        server_id = super()._build(request)
        sent_at = self._builds.sent.get(server_id, -math.inf)
        if sent_at >= began:
            if self._news.last(server_id) is None:
                self._hearing.sent(server_id, sent_at)
            # It was created now, not found: it is building, unless the bus reported more.
            self._news.note({'id': server_id, 'OS-EXT-STS:vm_state': 'building'}, place)
        return server_id

    def _delete(self, amphora_id: str) -> None:
        # Nothing might be reported about a server that is deleted before it has a host.
        self._hearing.forget((amphora_id,))
        super()._delete(amphora_id)

    def _status(self, amphora_id: str) -> ComputeStatus:
        self._bus.start()
        place = self._news.place()
        try:
            status = super()._status(amphora_id)
        except InstanceNotFoundError:
            self._note(amphora_id, None, place)
            raise
        self._shown((status,))
        # Nova stores a state before it sends the notification, and a state returned
        # here would otherwise be missing for another reader.
        self._note(amphora_id, status, place)
        return status

    def _statuses(self, amphora_ids: tuple[str, ...]) -> Mapping[str, ComputeStatus]:
        self._bus.start()
        quiet = self._hearing.quiet()
        known = [None if quiet else self._news.known(amphora_id) for amphora_id in amphora_ids]
        told = self._told([server for server in known if server is not None])
        unknown = [one for one, server in zip(amphora_ids, known, strict=True) if server is None]
        found = {status.amphora_id: status for status in told.statuses}
        found |= self._asked(unknown)
        return {one: found[one] for one in amphora_ids if one in found}

    def _changes(self, since: str) -> Changes:
        self._bus.start()
        moment, _, place = since.partition('/')
        listens = self._recent(moment) and not self._hearing.quiet()
        told = self._news.since(place) if listens else None
        if told is not None:
            return dataclasses.replace(self._told(told.servers), cursor=f'{moment}/{told.place}')
        # The place first: changes reported while Nova answers are then reported again.
        place = self._news.place()
        changes = super()._changes(moment)
        self._shown(changes.statuses)
        return dataclasses.replace(changes, cursor=f'{changes.cursor}/{place}')

    def cursor(self) -> str:
        """Return a cursor for the present: the time and the place."""
        return f'{super().cursor()}/{self._news.place()}'

    def _act(self, asked: Asked, action: str, how: Any = None) -> None:
        assert asked.amphora_id is not None
        try:
            super()._act(asked, action, how)
        finally:
            # Nova accepts the action, but sends a notification only when a host begins.
            self._news.doubt(asked.amphora_id)

    def _reached(self, state: State, since: str) -> Collection[str] | None:
        # Searching the reports costs less than any request.
        if self._news.place() and not self._hearing.quiet():
            return None
        moment, _, _ = since.partition('/')
        found = super()._reached(state, moment)
        if found and state is State.ACTIVE:
            self._built(found)
        return found

    # ---- doubts ----------------------------------------------------------

    def _shown(self, statuses: Iterable[ComputeStatus]) -> None:
        """Compare the statuses that Nova returned with what the bus has reported."""
        ended = {one.amphora_id: one.state for one in statuses if one.state.settled}
        self._built([one for one, state in ended.items() if state is State.ACTIVE])
        # A build that has failed might not be reported.
        self._hearing.forget(ended)

    def _built(self, server_ids: Collection[str]) -> None:
        if (unheard := self._hearing.shown(server_ids)) is None:
            return
        LOG.warning(
            'Nova reported nothing about amphora %s of backend %s until it was ACTIVE, so Nova '
            'is polled until it reports a build. Let every service of Nova send versioned '
            'notifications ([oslo_messaging_notifications] driver = messagingv2), or unset '
            'notification_url.', unheard, self.name,
        )  # fmt: skip

    def _recent(self, moment: str) -> bool:
        """Return True if Nova was polled recently, in case a message was lost."""
        asked_at = translate.seconds_of(moment)
        now = self.clock.time() + self._services.ahead_s
        return asked_at is not None and now - asked_at < TRUSTED_S

    def _told(self, servers: Iterable[Server]) -> Changes:
        """Return the reported changes, and those that must be requested from Nova."""
        asked = Asked(verb='read', subject='changes')
        now = self.clock.time()
        # Nothing is reported about a server that is deleted before it has a host.
        overdue = self._builds.unheard(())
        unsaid = {one for one in overdue if not self._leaving(one)}
        statuses: dict[str, ComputeStatus] = {}
        gone: set[str] = set()
        for server in servers:
            state = translate.state_of(server)
            if state is State.DELETED:
                gone.add(server['id'])
            elif _told_an_error(server):
                # Only Nova's API returns the fault, and whether the build really failed.
                unsaid.add(server['id'])
            elif server['id'] not in unsaid:
                taken = self._builds.accepted(asked, dict(server))
                statuses[server['id']] = translate.status_of(taken, now)
        found = self._asked(unsaid - gone)
        gone |= unsaid - found.keys()
        return Changes(statuses=(*statuses.values(), *found.values()), gone=tuple(gone))

    def _leaving(self, server_id: str) -> bool:
        # Nova's API shows a delete under way, and the end can remain without a report.
        server = self._news.reported(server_id)
        return server is not None and translate.state_of(server) is State.DELETING

    def _asked(self, server_ids: Collection[str]) -> Mapping[str, ComputeStatus]:
        """Request statuses from Nova, and remember them."""
        if not server_ids:
            return {}
        place = self._news.place()
        found = super()._statuses(tuple(server_ids))
        self._shown(found.values())
        # Deleted servers are recorded when they are requested by id.
        for server_id, status in found.items():
            self._note(server_id, status, place)
        # These are now reported to every reader with an older place, so they cannot be lost.
        self._builds.unproven.kept(found)
        return found

    def _note(self, server_id: str, status: ComputeStatus | None, place: str) -> None:
        """Remember the status that Nova returned; None if the server no longer exists.

        A server with a reported error that is still being built stays doubtful: its
        build continues on another host, which is reported, or fails soon, which
        might not be reported.
        """
        last = self._news.last(server_id)
        if status is None:
            said: dict[str, Any] = {'id': server_id, 'OS-EXT-STS:vm_state': 'deleted'}
        # Reports about servers of other owners are dropped, so their states would get old.
        elif translate.owner_of(status.raw) != self.owner:
            return
        else:
            said = {'fault': None, **status.raw}
            if status.state in _BEING_BUILT and last is not None and _told_an_error(last):
                said[DOUBTFUL] = True
        self._news.note(said, place)


def _told_an_error(server: Server) -> bool:
    """Return True if the bus reported an error that Nova has not confirmed."""
    if DOUBTFUL in server:
        return True
    return translate.state_of(server) is State.ERROR and 'fault' not in server
