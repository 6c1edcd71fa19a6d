"""Waiter table: the waiters of a backend by amphora, with the last status of each."""

from __future__ import annotations

import dataclasses
import math
import operator
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kiln.models import ComputeStatus, State
from kiln.wrappers.watcher.cursors import BuildCursor
from kiln.wrappers.watcher.waiter import Waiter

#: Number of amphorae without a waiter whose last status is still remembered.
REMEMBERED = 4096

_SENT_AT = operator.attrgetter('sent_at')
_BUILDING = frozenset({State.PENDING, State.BUILDING})


class SeenStatus(NamedTuple):
    """A status of an amphora, with its time on the monotonic clock."""

    status: ComputeStatus
    at: float


@dataclasses.dataclass(slots=True, eq=False)
class _Watched:
    """An amphora with waiters."""

    seen_status: SeenStatus | None
    waiters: list[Waiter[Any]] = dataclasses.field(default_factory=list)


class WaiterTable:
    """The waiters of one backend, by amphora. Thread-safe; no call is slow.

    A waiter that is added takes part from the next :meth:`admit` on, which the watcher
    calls before it polls: the answer to an earlier poll might date from before the waiter,
    and must not end it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrivals: dict[Waiter[Any], None] = {}
        self._watched: dict[str, _Watched] = {}
        # Each with the time at which its build was sent, if known.
        self._unseen: dict[str, BuildCursor | None] = {}
        # Number of waiters that need every change.
        self._thorough = 0
        self._past: OrderedDict[str, SeenStatus] = OrderedDict()
        # The last time at which all watched amphorae were polled, by the monotonic clock
        # and by the wall clock.
        self._covered = (float('-inf'), 0.0)

    def __len__(self) -> int:
        return len(self._watched) + len(self._arrivals)

    def add(self, waiter: Waiter[Any]) -> None:
        """Add a waiter."""
        with self._lock:
            self._arrivals[waiter] = None

    def admit(self) -> None:
        """Let added waiters take part in the answers from now on."""
        with self._lock:
            if not self._unseen:
                # A dict keeps its largest size, and iterating over it takes as long: a
                # large group of past waiters must not slow down each poll.
                self._unseen = {}
            for waiter in self._arrivals:
                watched = self._watched.get(waiter.amphora_id)
                if watched is None:
                    watched = _Watched(self._past.pop(waiter.amphora_id, None))
                    self._watched[waiter.amphora_id] = watched
                watched.waiters.append(waiter)
                self._thorough += not waiter.brief
                self._unseen[waiter.amphora_id] = waiter.since
            self._arrivals.clear()

    def drop(self, waiter: Waiter[Any]) -> None:
        """Remove a waiter, and with its last waiter the amphora."""
        amphora_id = waiter.amphora_id
        with self._lock:
            if waiter in self._arrivals:
                del self._arrivals[waiter]
                return
            watched = self._watched.get(amphora_id)
            if watched is None or waiter not in watched.waiters:
                return
            watched.waiters.remove(waiter)
            self._thorough -= not waiter.brief
            if watched.waiters:
                return
            if seen_status := self._seen_status(amphora_id):
                self._past[amphora_id] = seen_status
                if len(self._past) > REMEMBERED:
                    self._past.popitem(last=False)
            del self._watched[amphora_id]
            self._unseen.pop(amphora_id, None)

    def waiters(self) -> list[Waiter[Any]]:
        """Return all waiters."""
        with self._lock:
            admitted = [waiter for one in self._watched.values() for waiter in one.waiters]
            return [*self._arrivals, *admitted]

    # ---- what to poll ---------------------------------------------------

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all watched amphorae."""
        with self._lock:
            return tuple(self._watched)

    def unseen(self, since: float = math.inf) -> tuple[str, ...]:
        """Return the ids with a waiter that has not received a status.

        Amphorae that certainly did not exist at ``since``, on the monotonic clock, are left
        out, because all of their changes have happened later.
        """
        with self._lock:
            return tuple(
                amphora_id
                for amphora_id, build in self._unseen.items()
                if build is None or not build.certain or build.sent_at < since
            )

    def first_build(self) -> BuildCursor | None:
        """Return the unseen build that was sent first; None if any is not known."""
        with self._lock:
            builds = [build for build in self._unseen.values() if build is not None]
            if not builds or len(builds) < len(self._unseen):
                return None
            return min(builds, key=_SENT_AT)

    def all_unseen(self) -> bool:
        """Return True if no watched amphora has a status."""
        with self._lock:
            return len(self._unseen) == len(self._watched)

    def all_brief(self) -> bool:
        """Return True if all waiters wait only until amphorae are built."""
        return not self._thorough

    def among(self, amphora_ids: Iterable[str]) -> tuple[str, ...]:
        """Return the ids that are watched."""
        with self._lock:
            return tuple(one for one in amphora_ids if one in self._watched)

    def all_building(self, amphora_ids: Iterable[str]) -> bool:
        """Return True if all that is known of these amphorae is that they are being built."""
        with self._lock:
            found = [self._watched.get(amphora_id) for amphora_id in amphora_ids]
        sightings = [watched.seen_status for watched in found if watched is not None]
        return all(one is None or one.status.state in _BUILDING for one in sightings)

    # ---- answers ---------------------------------------------------------

    def record_status(self, status: ComputeStatus, at: float) -> Sequence[Waiter[Any]]:
        """Record a status; return the waiters for which it is a change."""
        amphora_id, seen_status = status.amphora_id, SeenStatus(status, at)
        with self._lock:
            watched = self._watched.get(amphora_id)
            if watched is None:
                if amphora_id in self._past:
                    self._past[amphora_id] = seen_status
                return ()
            old, watched.seen_status = watched.seen_status, seen_status
            if old is None or _differ(old.status, status):
                self._unseen.pop(amphora_id, None)
                return tuple(watched.waiters)
            if amphora_id in self._unseen:
                del self._unseen[amphora_id]
                return tuple(waiter for waiter in watched.waiters if not waiter.informed)
            return ()

    def gone(self, amphora_id: str) -> Sequence[Waiter[Any]]:
        """Record that an amphora is gone; return the waiters to notify."""
        with self._lock:
            self._past.pop(amphora_id, None)
            self._unseen.pop(amphora_id, None)
            watched = self._watched.get(amphora_id)
            if watched is None:
                return ()
            watched.seen_status = None
            return tuple(watched.waiters)

    def record_full_poll(self, at: float, observed_at: float) -> None:
        """Record that at that time all statuses were current, reported again or not."""
        with self._lock:
            self._covered = (at, observed_at)

    def latest(self, amphora_id: str) -> SeenStatus | None:
        """Return the last status of an amphora that is watched, or was recently."""
        with self._lock:
            if amphora_id in self._watched:
                return self._seen_status(amphora_id)
            return self._past.get(amphora_id)

    def _seen_status(self, amphora_id: str) -> SeenStatus | None:
        seen_status = self._watched[amphora_id].seen_status
        at, observed_at = self._covered
        if seen_status is None or seen_status.at >= at or amphora_id in self._unseen:
            return seen_status
        return SeenStatus(dataclasses.replace(seen_status.status, observed_at=observed_at), at)


def missing(polled: Iterable[str], seen: Iterable[str]) -> tuple[str, ...]:
    """Return the polled ids that were not seen, in order."""
    seen = frozenset(seen)
    return tuple(one for one in polled if one not in seen)


def _differ(old: ComputeStatus, new: ComputeStatus) -> bool:
    return (
        old.state is not new.state
        or old.task_state != new.task_state
        or old.fault != new.fault
        or old.stale != new.stale
    )
