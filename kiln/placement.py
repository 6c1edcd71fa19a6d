"""Where a build may go: several places in turn, those with room lately first."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.exceptions import AmphoraComputeError, BuildDiffers, InsufficientCapacity
from kiln.models import BuildRequest, Placement
from kiln.wrappers.errand import Errand

Place = tuple[str | None, str | None, str | None]

FIRST_S, LONGEST_S = 30.0, 600.0
#: Places that are remembered to be full.
_MEMORY = 10_000


class FullPlaces:
    """Remembers which zone, flavor and group had no room, each time for longer.

    A place that is full is no failure of the backend: its circuits never hear
    of it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By place: until when it is avoided, and for how long that was.
        self._full: dict[Place, tuple[float, float]] = {}

    def avoid(self, place: Place) -> None:
        """Note that a place had no room."""
        now = self._clock.monotonic()
        with self._lock:
            until, pause_s = self._full.pop(place, (now, 0.0))
            # Builds that were sent side by side learn of one lack of room.
            if pause_s == 0.0 or until <= now:
                pause_s = min(LONGEST_S, 2 * pause_s or FIRST_S)
                until = now + pause_s
            self._full[place] = (until, pause_s)
            if len(self._full) > _MEMORY:
                del self._full[next(iter(self._full))]

    def welcome(self, place: Place) -> None:
        """Note that a place had room."""
        with self._lock:
            self._full.pop(place, None)

    def wait_s(self, place: Place) -> float:
        """Return for how long a place is avoided yet; 0 where it is not."""
        until, _ = self._full.get(place, (0.0, 0.0))
        return max(0.0, until - self._clock.monotonic())

    def in_order(self, places: Sequence[Place]) -> list[Place]:
        """Return the places as they were given, those that are avoided last.

        None is left out: where all are full the one that was so the longest
        ago is the best guess.
        """
        return sorted(dict.fromkeys(places), key=self.wait_s)


class PlacedBuild:
    """Builds in one place after the other until one has room, or has the machine already."""

    def __init__(
        self,
        operation: Errand[str],
        request: BuildRequest,
        placements: Sequence[Placement],
        full: FullPlaces,
        build: Callable[[BuildRequest, float], Errand[str]],
        discard: Callable[[str], object],
    ) -> None:
        self._operation = operation
        self._request = request
        self._full = full
        self._build = build
        self._discard = discard
        given = [(request.availability_zone, request.flavor)]
        given += [
            (
                other.availability_zone or request.availability_zone,
                other.amphora_flavor or request.flavor,
            )
            for other in placements
        ]
        group = request.server_group_id
        self._left = full.in_order([(zone, flavor, group) for zone, flavor in given])
        self._trying: Errand[str] | None = None

    def start(self) -> None:
        """Try the best place; what is wrong with the request raises here."""
        self._operation.then(self._ended)
        self._try_next()

    def _try_next(self) -> None:
        assert self._operation.deadline is not None
        place = self._left.pop(0)
        zone, flavor, _ = place
        request = dataclasses.replace(self._request, availability_zone=zone, flavor=flavor)
        self._operation.note('tries', f'zone {zone or "any"}, flavor {flavor or "the default"}')
        attempt = self._build(request, self._operation.deadline.remaining_s())
        self._trying = attempt
        self._operation.stands_on(attempt)
        attempt.then(lambda done: self._tried(place, done))
        # A cancel that came before this attempt was known could not cancel it.
        self._ended(self._operation)

    def _tried(self, place: Place, attempt: Errand[str]) -> None:
        operation = self._operation
        error = attempt.exception()
        if error is None:
            self._full.welcome(place)
            operation.amphora_id = attempt.result()
            if not operation.resolve(attempt.result()):
                # A cancel came when the attempt was over already.
                self._discard(attempt.result())
            return
        if isinstance(error, InsufficientCapacity):
            self._full.avoid(place)
            operation.note('no room', str(error))
        elif isinstance(error, BuildDiffers):
            # An earlier build of the key may have found its room at a later place.
            operation.note('differs', str(error))
        else:
            operation.fail(error)
            return
        if self._left and not operation.done() and self._in_time():
            self._go_on()
        else:
            operation.fail(error)

    def _go_on(self) -> None:
        try:
            self._try_next()
        except AmphoraComputeError as exc:
            # Its circuit has opened since, or the queue is full.
            self._operation.fail(exc)

    def _in_time(self) -> bool:
        return self._operation.deadline is not None and not self._operation.deadline.passed

    def _ended(self, operation: Errand[Any]) -> None:
        if operation.cancelled() and self._trying is not None:
            self._trying.cancel()
