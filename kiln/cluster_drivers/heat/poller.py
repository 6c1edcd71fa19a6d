"""Poller of stacks: one list a tick for all clusters of a site, details for what changed."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.cluster_drivers.heat.names import site_tag
from kiln.clusters.exceptions import ClusterDriverError
from kiln.openstack.heat.events import StackEvent
from kiln.openstack.heat.rows import StackRow

#: Seconds for which a list serves all clusters: as long as the engine has between two polls,
#: so that no end is seen later than two of them.
TICK_S = 5.0
#: Seconds without an event after which a stack in progress is taken for left alone. Most
#: resources take less, and a request for nothing does no harm.
QUIET_S = 120.0
#: Stacks in progress at once whose events are read. More would take many requests for lines that
#: nobody can follow.
_MOST_READ = 10
#: Stacks whose details are kept.
_MOST = 4096

_Detail = TypeVar('_Detail')


class Lists(Protocol):
    """The part of a client that a poller needs."""

    def stacks(self, **filters: str) -> Iterator[StackRow]: ...

    def events(self, name: str, id_: str, after: str = '') -> Sequence[StackEvent]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """What has happened to a stack in progress."""

    events: Sequence[StackEvent] = ()
    #: True if nothing has for long; the stack then has as long again.
    quiet: bool = False


class HeatPoller:
    """What Heat reports of the stacks of a site, for any number of threads and drivers.

    The first caller within a tick has the list requested, and the others wait for
    it. A list that fails is an error for each of them, and for all callers until a tick after
    the failure has passed.
    """

    def __init__(
        self,
        clock: Clock = SYSTEM_CLOCK,
        tick_s: float = TICK_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self.clock = clock
        self._tick_s = tick_s
        self._quiet_s = quiet_s
        self._lock = threading.Lock()
        # A client goes with its connections, and its lists with it.
        self._lists: weakref.WeakKeyDictionary[Lists, dict[str, _List]]
        self._lists = weakref.WeakKeyDictionary()
        self._details: OrderedDict[tuple[object, ...], object] = OrderedDict()
        self._signs: OrderedDict[str, _Sign] = OrderedDict()

    def row(self, client: Lists, site: str, name: str) -> StackRow | None:
        """Return the row of a stack; None if the list does not have it, which proves nothing.

        :raises ClusterDriverError: Heat does not answer.
        """
        known = self._list(client, site)
        # Before the wait for the lock: what was requested during the wait is new enough.
        now = self.clock.monotonic()
        with known.lock:
            if known.error is not None and now - known.failed_at < self._tick_s:
                # A fresh one: callers on other threads change the error that they get.
                raise copy.copy(known.error)
            if now - known.read_at >= self._tick_s or known.has_changed(name):
                self._read(known, client, site)
            return known.rows.get(name)

    @contextlib.contextmanager
    def changing(self, client: Lists, site: str, name: str) -> Iterator[None]:
        """Send a request about a stack in the block: lists from before its end do not count."""
        try:
            yield
        # Also a request without an answer can have been accepted.
        finally:
            self._list(client, site).note(name)

    def detail(self, row: StackRow, kind: Callable[[str, str], _Detail]) -> _Detail:
        """Return a detail of a stack, requested once for each change of its row."""
        key = (kind.__name__, dataclasses.astuple(row))
        with self._lock:
            if key in self._details:
                self._details.move_to_end(key)
                return self._details[key]  # type: ignore[return-value]
        found = kind(row.name, row.id)
        with self._lock:
            self._details[key] = found
            while len(self._details) > _MOST:
                self._details.popitem(last=False)
        return found

    def news(self, client: Lists, site: str, row: StackRow, after: str) -> News:
        """Return what has happened to a stack in progress since an event, if a read is due.

        Each stack is read at first, then once a tick, or once in as many ticks as there are stacks
        in progress: so a tick has one request for events. If there are many, each is read only
        after a long time without a change.
        """
        now = self.clock.monotonic()
        pause_s = self._pause_s(client, site)
        with self._lock:
            last = self._signs.get(row.id)
            if last is None or last.row != row:
                last = _Sign(row, now, float('-inf'))
            is_old = now - last.seen_at >= self._quiet_s
            due = is_old or (pause_s is not None and now - last.read_at >= pause_s)
            self._note(dataclasses.replace(last, read_at=now) if due else last)
        if not due:
            return News()
        events = client.events(row.name, row.id, after)
        with self._lock:
            seen_at = now if events or is_old else last.seen_at
            self._note(_Sign(row, seen_at, now))
        return News(events, quiet=is_old and not events)

    def _pause_s(self, client: Lists, site: str) -> float | None:
        """Return the seconds between two reads of the events of a stack; None without any."""
        rows = self._list(client, site).rows.values()
        busy = sum(row.status == 'IN_PROGRESS' for row in rows)
        return busy * self._tick_s if busy <= _MOST_READ else None

    def _note(self, sign: _Sign) -> None:
        self._signs[sign.row.id] = sign
        self._signs.move_to_end(sign.row.id)
        while len(self._signs) > _MOST:
            self._signs.popitem(last=False)

    def _list(self, client: Lists, site: str) -> _List:
        with self._lock:
            return self._lists.setdefault(client, {}).setdefault(site, _List())

    def _read(self, known: _List, client: Lists, site: str) -> None:
        # What is noted from now on stays noted: this list can be from before it.
        known.forget_changed()
        # Until it is there, the former list is old, whatever happens.
        read_at, known.read_at = self.clock.monotonic(), float('-inf')
        try:
            known.rows = {row.name: row for row in client.stacks(tags=site_tag(site))}
        except ClusterDriverError as exc:
            # From the end of the request: Heat can have taken longer than a tick to fail, and
            # each of those that waited would try it again.
            known.failed_at = self.clock.monotonic()
            known.error = copy.copy(exc)
            raise
        known.read_at, known.error = read_at, None


@dataclasses.dataclass(slots=True)
class _List:
    #: Held while the list is requested.
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    read_at: float = float('-inf')
    rows: Mapping[str, StackRow] = dataclasses.field(default_factory=dict)
    #: Why the last request failed, and when; None if it did not.
    error: ClusterDriverError | None = None
    failed_at: float = float('-inf')
    #: Stacks that a request was sent about since the last list. They have a lock of their own,
    #: so that a change does not wait for a list.
    _changed: set[str] = dataclasses.field(default_factory=set)
    _noting: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def note(self, name: str) -> None:
        """Record that a request was sent about a stack."""
        with self._noting:
            self._changed.add(name)

    def has_changed(self, name: str) -> bool:
        """Return True if a request about a stack was sent since the last list."""
        with self._noting:
            return name in self._changed

    def forget_changed(self) -> None:
        """Forget about which stacks requests were sent: a list is requested now."""
        with self._noting:
            self._changed.clear()


@dataclasses.dataclass(frozen=True, slots=True)
class _Sign:
    """The last signs of work on a stack: its row, when any was seen, and when it was read."""

    row: StackRow
    seen_at: float
    read_at: float
