"""Who waits for which amphora, and what was last seen of each; asks nobody."""

from __future__ import annotations

import dataclasses
import math
import operator
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kiln.models import ComputeStatus, State
from kiln.wrappers.moments import Order
from kiln.wrappers.watch import Watch

#: Amphorae nobody watches any more whose last status is still remembered.
REMEMBERED = 4096

_SENT_AT = operator.attrgetter('sent_at')
_BUILDING = frozenset({State.PENDING, State.BUILDING})


class Sighting(NamedTuple):
    """What was seen of an amphora, and when by the monotonic clock."""

    status: ComputeStatus
    at: float


class _Watched:
    """An amphora somebody waits for."""

    __slots__ = ('sighting', 'watches')

    def __init__(self, sighting: Sighting | None) -> None:
        self.sighting = sighting
        self.watches: list[Watch[Any]] = []


class WatchTable:
    """The watches of one backend, by amphora. Thread-safe; no call is slow.

    A watch that is added takes part from the next :meth:`admit` on, which the
    watcher calls before it asks: an answer to a question older than the watch
    may tell of the time before, and must not end it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrivals: dict[Watch[Any], None] = {}
        self._watched: dict[str, _Watched] = {}
        # Each with when it was ordered, where that is known.
        self._unseen: dict[str, Order | None] = {}
        # How many watches want to hear of all that happens.
        self._thorough = 0
        self._past: OrderedDict[str, Sighting] = OrderedDict()
        # The last moment at which all that was watched was asked about, by the
        # monotonic clock and by the wall's.
        self._covered = (float('-inf'), 0.0)

    def __len__(self) -> int:
        return len(self._watched) + len(self._arrivals)

    def add(self, watch: Watch[Any]) -> None:
        """Add a watch."""
        with self._lock:
            self._arrivals[watch] = None

    def admit(self) -> None:
        """Let those added take part in what is seen from now on."""
        with self._lock:
            if not self._unseen:
                # A dict keeps the room it once had, and reading it takes as
                # long: a crowd that came and was seen must not slow each look.
                self._unseen = {}
            for watch in self._arrivals:
                watched = self._watched.get(watch.amphora_id)
                if watched is None:
                    watched = _Watched(self._past.pop(watch.amphora_id, None))
                    self._watched[watch.amphora_id] = watched
                watched.watches.append(watch)
                self._thorough += not watch.brief
                self._unseen[watch.amphora_id] = watch.order
            self._arrivals.clear()

    def drop(self, watch: Watch[Any]) -> None:
        """Forget a watch that is here, and with its last one the amphora."""
        amphora_id = watch.amphora_id
        with self._lock:
            if watch in self._arrivals:
                del self._arrivals[watch]
                return
            watched = self._watched.get(amphora_id)
            if watched is None or watch not in watched.watches:
                return
            watched.watches.remove(watch)
            self._thorough -= not watch.brief
            if watched.watches:
                return
            if sighting := self._sighting(amphora_id):
                self._past[amphora_id] = sighting
                if len(self._past) > REMEMBERED:
                    self._past.popitem(last=False)
            del self._watched[amphora_id]
            self._unseen.pop(amphora_id, None)

    def watches(self) -> list[Watch[Any]]:
        """Return all watches."""
        with self._lock:
            admitted = [watch for one in self._watched.values() for watch in one.watches]
            return [*self._arrivals, *admitted]

    # ---- what to ask for ------------------------------------------------

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all amphorae watched."""
        with self._lock:
            return tuple(self._watched)

    def unseen(self, since: float = math.inf) -> tuple[str, ...]:
        """Return the ids for which a watch has not been looked at once.

        Those that were certainly not there by then, on the monotonic clock, are left
        out: all that happened to them has happened since.
        """
        with self._lock:
            return tuple(
                amphora_id
                for amphora_id, order in self._unseen.items()
                if order is None or not order.certain or order.sent_at < since
            )

    def first_order(self) -> Order | None:
        """Return the first order of the unseen to be sent; None where one is not known."""
        with self._lock:
            orders = [order for order in self._unseen.values() if order is not None]
            if not orders or len(orders) < len(self._unseen):
                return None
            return min(orders, key=_SENT_AT)

    def all_unseen(self) -> bool:
        """Tell whether nothing that is watched has been looked at yet."""
        with self._lock:
            return len(self._unseen) == len(self._watched)

    def all_brief(self) -> bool:
        """Tell whether all wait for amphorae to be built, and for nothing else."""
        return not self._thorough

    def among(self, amphora_ids: Iterable[str]) -> tuple[str, ...]:
        """Return those that are watched."""
        with self._lock:
            return tuple(one for one in amphora_ids if one in self._watched)

    def all_building(self, amphora_ids: Iterable[str]) -> bool:
        """Tell whether of each, which are all watched, no more is known than its build."""
        with self._lock:
            found = [self._watched.get(amphora_id) for amphora_id in amphora_ids]
        sightings = [watched.sighting for watched in found if watched is not None]
        return all(one is None or one.status.state in _BUILDING for one in sightings)

    # ---- what was answered ----------------------------------------------

    def saw(self, status: ComputeStatus, at: float) -> Sequence[Watch[Any]]:
        """Take a status in; return the watches to which it is news."""
        amphora_id, sighting = status.amphora_id, Sighting(status, at)
        with self._lock:
            watched = self._watched.get(amphora_id)
            if watched is None:
                if amphora_id in self._past:
                    self._past[amphora_id] = sighting
                return ()
            old, watched.sighting = watched.sighting, sighting
            if old is None or _differ(old.status, status):
                self._unseen.pop(amphora_id, None)
                return tuple(watched.watches)
            if amphora_id in self._unseen:
                del self._unseen[amphora_id]
                return tuple(watch for watch in watched.watches if not watch.told)
            return ()

    def gone(self, amphora_id: str) -> Sequence[Watch[Any]]:
        """Take in that an amphora is gone; return the watches to be told."""
        with self._lock:
            self._past.pop(amphora_id, None)
            self._unseen.pop(amphora_id, None)
            watched = self._watched.get(amphora_id)
            if watched is None:
                return ()
            watched.sighting = None
            return tuple(watched.watches)

    def covered(self, at: float, observed_at: float) -> None:
        """Take in that at that moment all was as it is known, told anew or not."""
        with self._lock:
            self._covered = (at, observed_at)

    def latest(self, amphora_id: str) -> Sighting | None:
        """Return what was last seen of an amphora, watched now or not long ago."""
        with self._lock:
            if amphora_id in self._watched:
                return self._sighting(amphora_id)
            return self._past.get(amphora_id)

    def _sighting(self, amphora_id: str) -> Sighting | None:
        sighting = self._watched[amphora_id].sighting
        at, observed_at = self._covered
        if sighting is None or sighting.at >= at or amphora_id in self._unseen:
            return sighting
        return Sighting(dataclasses.replace(sighting.status, observed_at=observed_at), at)


def missing(asked: Iterable[str], seen: Iterable[str]) -> tuple[str, ...]:
    """Return those asked for that were not seen, in order."""
    seen = frozenset(seen)
    return tuple(one for one in asked if one not in seen)


def _differ(old: ComputeStatus, new: ComputeStatus) -> bool:
    return (
        old.state is not new.state
        or old.task_state != new.task_state
        or old.fault != new.fault
        or old.stale != new.stale
    )
