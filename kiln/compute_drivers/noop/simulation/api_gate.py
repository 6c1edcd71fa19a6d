"""API gate of the simulated cloud: latencies and scripted faults of its calls."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import itertools
import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from kiln.clock import Clock, ClockEvent, current_deadline
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.noop import faults as scripted
from kiln.compute_drivers.noop.faults import Action, Fault, FaultScript
from kiln.exceptions import AmphoraComputeError, ConfigurationError, InvalidBuildRequest
from kiln.models import BuildRequest

T = TypeVar('T')
#: The effect of a call, given the time and the fault that is scripted for the call.
Act = Callable[[float, Fault | None], T]
#: Returns the metadata of a machine, for a fault that depends on it.
Metadata = Callable[[], Mapping[str, str]]


#: What a caller sees of a cloud that answers after the deadline.
_SILENCE = Fault(action=Action.HANG)


def no_metadata() -> Mapping[str, str]:
    """Return the empty metadata of a call that is not about one machine."""
    return MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Latencies:
    """Seconds that actions take; ``jitter`` is the part by which they vary.

    ``accept_s`` is how long each call blocks its caller. The others are the
    time from then until the effect.
    """

    accept_s: float = 0.0
    build_s: float = 0.0
    delete_s: float = 0.0
    suspend_s: float = 0.0
    resume_s: float = 0.0
    reboot_s: float = 0.0
    rebuild_s: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value < 0:
                raise ConfigurationError(f'Cannot simulate {name}={value}: give 0 or more.')
        if self.jitter > 1:
            raise ConfigurationError(f'Cannot simulate jitter={self.jitter}: give 0 to 1.')


class Gate:
    """Passes calls on to the cloud, or refuses or delays them, or drops their answers."""

    def __init__(
        self,
        clock: Clock,
        now: Callable[[], float],
        latencies: Latencies,
        faults: FaultScript,
        dice: random.Random,
    ) -> None:
        self.now = now
        self.latencies = latencies
        self.faults = faults
        self._clock = clock
        self._dice = dice
        # Entered again by an effect that schedules another one.
        self._lock = threading.RLock()
        # True while an effect is applied, which can call the cloud in turn.
        self._applying = False
        self._late: list[tuple[float, int, Callable[[float], object]]] = []
        self._order = itertools.count()
        # Set when the outage ends that goes on now.
        self._outage: ClockEvent | None = None

    def build(self, request: BuildRequest, act: Act[T]) -> T:
        """Serve a build; its request can script a fault for itself."""
        fault = None
        if (own := request.metadata.get(scripted.REQUEST_KEY)) is not None:
            try:
                fault = self.faults.decide_for_request(request.build_key, own)
            except ConfigurationError as exc:
                raise InvalidBuildRequest(
                    f'Cannot build {request.name!r}: metadata {scripted.REQUEST_KEY!r}: {exc}',
                    build_key=request.build_key,
                ) from exc
        if fault is None and self.faults:
            fault = self.faults.decide(Call.BUILD, None, lambda: request.metadata)
        return self._pass(Call.BUILD, act, fault, request.build_key)

    def serve(
        self,
        call: Call,
        act: Act[T],
        amphora_id: str | None = None,
        metadata: Metadata = no_metadata,
    ) -> T:
        """Serve any other call."""
        fault = self.faults.decide(call, amphora_id, metadata) if self.faults else None
        return self._pass(call, act, fault, amphora_id or '')

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Answer no call as long as the context lasts; none has an effect, also later."""
        ended = self._outage = ClockEvent(self._clock)
        try:
            yield
        finally:
            self._outage = None
            ended.set()

    def later(self, seconds: float, act: Callable[[float], object]) -> None:
        """Schedule an effect on the cloud; the first call after it applies it.

        Lost if this process ends before, as a request in transit would be.
        """
        with self._lock:
            due = self._clock.monotonic() + seconds
            heapq.heappush(self._late, (due, next(self._order), act))

    def catch_up(self) -> float:
        """Apply all effects that are due, each with its own time; return the present time.

        A caller that took a later time would see machines as they never were: what comes
        due in between would be missing. The same holds for a caller beside this one, so
        each waits until all is applied.
        """
        now = self.now()
        if not self._late:
            return now
        with self._lock:
            # By this, the clock of the cloud can be set back meanwhile.
            monotonic = self._clock.monotonic()
            while self._late and self._late[0][0] <= monotonic and not self._applying:
                due, _, act = self._late[0]
                self._applying = True
                try:
                    # The caller of the request has already had its answer.
                    with contextlib.suppress(AmphoraComputeError):
                        act(now - (monotonic - due))
                finally:
                    self._applying = False
                    # Not before, as an empty list means that all is applied. What the effect
                    # itself has scheduled comes later.
                    heapq.heappop(self._late)
        return now

    def vary(self, seconds: float) -> float:
        """Return a latency with its jitter."""
        jitter = self.latencies.jitter
        if not jitter or not seconds:
            return seconds
        return seconds * (1 + jitter * (2 * self._dice.random() - 1))

    def _wait(
        self, seconds: float, call: Call, act: Act[T], fault: Fault | None, subject: str
    ) -> None:
        """Block the caller as long as the cloud does not answer, or until its deadline.

        :raises AmphoraComputeError: the deadline is earlier; the call takes effect later,
            unless its fault prevents that.
        """
        left_s = _left_s()
        self._clock.sleep(min(seconds, left_s))
        if left_s < seconds:
            if fault is None or fault.action not in scripted.PREVENTED:
                self.later(seconds - left_s, lambda now: act(now, fault))
            raise (fault or _SILENCE).error(call, subject)

    def _pass(self, call: Call, act: Act[T], fault: Fault | None, subject: str) -> T:
        if (outage := self._outage) is not None:
            # A client notices when its connection ends with the outage.
            outage.wait(_left_s())
            raise _SILENCE.error(call, subject)
        if self.latencies.accept_s:
            self._wait(self.vary(self.latencies.accept_s), call, act, fault, subject)
        if fault is None:
            return act(self.catch_up(), None)
        if fault.action in scripted.HANGING:
            self._wait(fault.seconds, call, act, fault, subject)
        now = self.catch_up()
        if fault.action is Action.CRASH:
            raise RuntimeError(fault.text or 'simulated defect of the driver')
        if fault.action is Action.LATE:
            self.later(fault.seconds, lambda now: act(now, None))
        if fault.action in scripted.PREVENTED:
            raise fault.error(call, subject)
        result = act(now, fault)
        if fault.action in scripted.UNHEARD:
            raise fault.error(call, subject)
        return result


def _left_s() -> float:
    """Return the seconds until the deadline of the call."""
    deadline = current_deadline()
    return math.inf if deadline is None else max(0.0, deadline.remaining_s())
