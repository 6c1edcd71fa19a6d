"""Circuit breaker that holds no lock while a guarded call runs."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Sequence

import pybreaker
from pybreaker import STATE_CLOSED, STATE_OPEN

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.exceptions import AmphoraComputeError, CircuitOpenError, KilnError, Verdict, redact
from kiln.wrappers.circuit.listeners import StateChanges
from kiln.wrappers.circuit.phase import BY_HAND, SLOW_CALLS, Phase, Ticket
from kiln.wrappers.circuit.settings import CircuitSettings, CircuitSnapshot
from kiln.wrappers.circuit.shared import LONGEST_S, Peers, SharedPhase, SharedStorage
from kiln.wrappers.circuit.window import OutcomeWindow


class Circuit:
    """A circuit breaker: refuses calls to a backend that failed recently.

    While it is closed, calls pass without any lock. If the share of failed or slow calls
    is too large it opens for a period. After that it admits one probe at a time, and the
    result of the probe closes the circuit or opens it for longer.

    The effect of a result is the error's own ``circuit`` verdict. An error that is a clear
    answer, such as "not found", has the verdict SUCCESS: it proves that a probe's backend
    works, but it is not counted in the window. Reading missing objects is fast even while
    operations on existing objects fail, so counting such answers would hide failures.

    pybreaker stores the state and notifies the listeners. The calls do not go through
    pybreaker, because it holds its lock while a call runs.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: CircuitSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        storage: pybreaker.CircuitBreakerStorage | None = None,
        listeners: Sequence[pybreaker.CircuitBreakerListener] = (),
        rng: random.Random | None = None,
    ) -> None:
        self.name = name
        self.settings: CircuitSettings = settings or CircuitSettings()
        self._monotonic, self._time = clock.monotonic, clock.time
        self._rng = rng or random.Random()  # noqa: S311  # spreads probes, guards no secret
        self._slow_s = self.settings.slow_call_s
        self._lock = threading.RLock()
        self._window = OutcomeWindow(self.settings.window_s)
        self._phase = Phase()
        self._peers: Peers | None = None
        if isinstance(storage, SharedStorage):
            self._peers = Peers(storage, clock.monotonic, lambda: self._phase, self._adopt)
        breaker = pybreaker.CircuitBreaker(name=name, listeners=listeners, state_storage=storage)
        self._changes = StateChanges(breaker)
        if breaker.current_state != STATE_CLOSED:
            # The storage does not record how long the circuit stays open.
            self._enter(self._tripped(self._phase, self._monotonic(), None, 'an earlier process'))
            self._changes.publish()

    # ---- the two halves of a guarded call ---------------------------------

    def admit(self) -> Ticket:
        """Return a ticket for one call, to be passed to :meth:`settle`.

        :raises CircuitOpenError: not now; ``retry_after`` is the time to wait.
        """
        if self._peers is not None and self._peers.look():
            self._changes.publish()
        # Phases are replaced, never changed, so reading one requires no lock.
        phase = self._phase
        if phase.state == STATE_CLOSED:
            return Ticket(phase.generation, 0.0 if self._slow_s is None else self._monotonic())
        return self._admit_probe(phase)

    def settle(self, ticket: Ticket, error: BaseException | None = None) -> None:
        """Record how an admitted call ended; drop a result that comes too late."""
        verdict = Verdict.SUCCESS if error is None else _verdict(error)
        now = self._monotonic()
        slow = self._slow_s is not None and now - ticket.started >= self._slow_s
        with self._lock:
            phase = self._phase
            if ticket.generation != phase.generation:
                return
            if phase.state != STATE_CLOSED:
                self._enter(self._after_probe(now, verdict, slow, error))
            elif error is None or verdict is Verdict.FAILURE:
                failed = error is not None
                self._window.record(now, failed=failed, slow=slow)
                # A success never trips, even if it completes the minimum number of calls.
                if (failed or slow) and self._is_bad():
                    self._enter(self._tripped(phase, now, error))
        if self._phase is not phase:
            self._report_phase()

    def refusal(self) -> CircuitOpenError | None:
        """Return the error with which a call would be refused now; takes no probe."""
        phase = self._phase
        if phase.state == STATE_CLOSED:
            return None
        now = self._monotonic()
        return phase.refusal(self.name, now, self._time()) if now < phase.until else None

    def _admit_probe(self, phase: Phase) -> Ticket:
        now = self._monotonic()
        if now < phase.until:
            raise phase.refusal(self.name, now, self._time())
        until = now + self.settings.probe_lease_s
        leased = phase.half_opened(until=until, successes=phase.successes)
        with self._lock:
            first = phase is self._phase
            if first:
                self._enter(leased)
        if first:
            self._report_phase()
            # With shared storage, another process might have been first.
            if leased is self._phase:
                return Ticket(leased.generation, now)
        # Another call took the probe, or the circuit has closed in the meantime.
        return self.admit()

    def _after_probe(
        self, now: float, verdict: Verdict, slow: bool, error: BaseException | None
    ) -> Phase:
        phase, settings = self._phase, self.settings
        if verdict is Verdict.NEUTRAL:
            # The result proves nothing about the backend's health: return the permit.
            return phase.half_opened(until=now, successes=phase.successes)
        if slow or verdict is Verdict.FAILURE:
            return self._tripped(phase, now, error if verdict is Verdict.FAILURE else None)
        if phase.successes + 1 < settings.success_threshold:
            return phase.half_opened(until=now, successes=phase.successes + 1)
        return phase.closed(until=now + settings.window_s, trips=phase.trips)

    def _is_bad(self) -> bool:
        window, settings = self._window, self.settings
        return window.calls >= settings.minimum_calls and (
            window.failures >= settings.failure_rate * window.calls
            or window.slow >= settings.slow_call_rate * window.calls
        )

    # ---- by hand -----------------------------------------------------------

    def isolate(self) -> None:
        """Refuse all calls until :meth:`close` is called, or for a day if it is shared."""
        longest_s = math.inf if self._peers is None else LONGEST_S
        self._by_hand(lambda phase: phase.isolated(until=self._monotonic() + longest_s))

    def trip(self, cause: BaseException | None = None) -> None:
        """Open for the normal period, as after failures."""
        self._by_hand(lambda phase: self._tripped(phase, self._monotonic(), cause, BY_HAND))

    def half_open(self) -> None:
        """Admit the next call as a probe, whatever the state is."""
        self._by_hand(lambda phase: phase.half_opened(until=self._monotonic()))

    def close(self) -> None:
        """Admit all calls, and forget earlier failures and trips."""
        self._by_hand(lambda phase: phase.closed(until=0.0, trips=0))

    def _by_hand(self, step: Callable[[Phase], Phase]) -> None:
        overruled = True
        # Another process might have changed the circuit unnoticed. Its change is adopted
        # first, as always, and then the change by hand is repeated.
        while overruled:
            with self._lock:
                self._enter(step(self._phase))
            overruled = self._report_phase()

    # ---- snapshot ------------------------------------------------------------

    def snapshot(self) -> CircuitSnapshot:
        """Return the current state of the circuit as data."""
        if self._peers is not None and self._peers.look():
            self._changes.publish()
        now = self._monotonic()
        with self._lock:
            phase, window = self._phase, self._window
            window.slide(now)
            calls, failures, slow = window.calls, window.failures, window.slow
        waits = phase.state != STATE_CLOSED and phase.until != math.inf
        return CircuitSnapshot(
            name=self.name,
            state=phase.state,
            retry_after=max(0.0, phase.until - now) if waits else None,
            failure_rate=failures / calls if calls else 0.0,
            slow_call_rate=slow / calls if calls else 0.0,
            calls=calls,
            opened_by=phase.opened_by,
            manual=phase.manual,
            trips=phase.trips,
        )

    # ---- from phase to phase -------------------------------------------------

    def _tripped(
        self, phase: Phase, now: float, cause: BaseException | None, why: str = SLOW_CALLS
    ) -> Phase:
        # A circuit that trips again soon after closing had not recovered.
        forgiven = phase.manual or (phase.state == STATE_CLOSED and now >= phase.until)
        trips = 1 if forgiven else phase.trips + 1
        if cause is not None:
            why = cause.code if isinstance(cause, KilnError) else type(cause).__name__
        settings = self.settings
        grown_s = settings.open_s * settings.open_factor ** min(trips - 1, 50)
        period_s = min(grown_s, settings.open_max_s)
        period_s *= 1 - settings.open_jitter * self._rng.random()
        return phase.opened(until=now + period_s, trips=trips, opened_by=why, cause=cause)

    def _enter(self, phase: Phase) -> None:
        """Begin a phase, with the lock held; :meth:`_report_phase` reports it without the lock."""
        if phase.state == STATE_CLOSED:
            self._window.clear()
        if phase.state != self._phase.state:
            cause = phase.cause if phase.state == STATE_OPEN else None
            self._changes.add(phase.state, '' if cause is None else redact(str(cause)))
        self._phase = phase

    def _report_phase(self) -> bool:
        """Report a new phase; return True if another process's phase replaced it."""
        overruled = self._peers is not None and self._peers.agree()
        self._changes.publish()
        return overruled

    def _adopt(self, found: SharedPhase) -> Phase:
        with self._lock:
            self._enter(found.after(self._phase, self._monotonic()))
            return self._phase


def _verdict(error: BaseException) -> Verdict:
    if isinstance(error, AmphoraComputeError):
        return error.circuit
    # KeyboardInterrupt, SystemExit, a cancelled task: the caller stopped, and the backend
    # reported nothing.
    return Verdict.FAILURE if isinstance(error, Exception) else Verdict.NEUTRAL
