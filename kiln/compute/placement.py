"""Placement of builds: several places in turn, places with recent room first."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kiln.clock import Clock
from kiln.exceptions import AmphoraComputeError, BuildDiffers, InsufficientCapacity
from kiln.models import BuildRequest, Placement
from kiln.wrappers.operations.errand import Errand

Place = tuple[str | None, str | None, str | None]

FIRST_S, LONGEST_S = 30.0, 600.0
#: Maximum number of full places that are remembered.
_MEMORY = 10_000


class FullPlaces:
    """Full places: avoids a zone, flavor and group without room, longer each time.

    A full place is not a failure of the backend, and its circuits do not count it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # For each place: the end of the period in which it is avoided, and its length.
        self._full: dict[Place, tuple[float, float]] = {}

    def record_full(self, place: Place) -> None:
        """Record that a place had no room."""
        now = self._clock.monotonic()
        with self._lock:
            until, pause_s = self._full.pop(place, (now, 0.0))
            # Concurrent builds report the same lack of room.
            if pause_s == 0.0 or until <= now:
                pause_s = min(LONGEST_S, 2 * pause_s or FIRST_S)
                until = now + pause_s
            self._full[place] = (until, pause_s)
            if len(self._full) > _MEMORY:
                del self._full[next(iter(self._full))]

    def record_room(self, place: Place) -> None:
        """Record that a place had room."""
        with self._lock:
            self._full.pop(place, None)

    def wait_s(self, place: Place) -> float:
        """Return for how many seconds a place is still avoided; 0 if it is not."""
        until, _ = self._full.get(place, (0.0, 0.0))
        return max(0.0, until - self._clock.monotonic())

    def in_order(self, places: Sequence[Place]) -> list[Place]:
        """Return the given places, with avoided places last.

        Every place is returned: if all are full, the place that has been full for the
        longest time is the best guess.
        """
        return sorted(dict.fromkeys(places), key=self.wait_s)


class PlacedBuild:
    """Builds in one place after another until one has room or already has the machine."""

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
        """Try the best place; an invalid request raises here."""
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
        self._operation.set_call(attempt)
        attempt.then(lambda done: self._attempt_ended(place, done))
        # A cancel before this attempt was recorded could not cancel it.
        self._ended(self._operation)

    def _attempt_ended(self, place: Place, attempt: Errand[str]) -> None:
        operation = self._operation
        error = attempt.exception()
        if error is None:
            self._full.record_room(place)
            operation.amphora_id = attempt.result()
            if not operation.resolve(attempt.result()):
                # The cancel came after the attempt had ended.
                self._discard(attempt.result())
            return
        if isinstance(error, InsufficientCapacity):
            self._full.record_full(place)
            operation.note('no room', str(error))
        elif isinstance(error, BuildDiffers):
            # An earlier build of the key might have found room at a later place.
            operation.note('differs', str(error))
        else:
            operation.fail(error)
            return
        if self._left and not operation.done() and self._in_time():
            self._continue()
        else:
            operation.fail(error)

    def _continue(self) -> None:
        try:
            self._try_next()
        except AmphoraComputeError as exc:
            # The circuit has opened since, or the queue is full.
            self._operation.fail(exc)

    def _in_time(self) -> bool:
        return self._operation.deadline is not None and not self._operation.deadline.passed

    def _ended(self, operation: Errand[Any]) -> None:
        if operation.cancelled() and self._trying is not None:
            self._trying.cancel()
