"""A circuit: pybreaker's, but no lock is held while a call is made.

pybreaker 1.4 runs the guarded call under its lock, counts consecutive
failures, takes an excluded error for a success and reads the wall clock. Here
its names, states, storages and listeners stay; admission and settlement are
kiln's own: :meth:`Circuit.admit`, then the call, then :meth:`Circuit.settle`.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import random
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

import pybreaker
from pybreaker import STATE_CLOSED, STATE_HALF_OPEN, STATE_OPEN

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.exceptions import AmphoraComputeError, CircuitOpenError, KilnError, Verdict
from kiln.wrappers.circuit_news import Herald
from kiln.wrappers.circuit_peers import Peers, SharedPhase, SharedStorage
from kiln.wrappers.circuit_phase import BY_HAND, SLOW_CALLS, Phase, Ticket
from kiln.wrappers.circuit_settings import CircuitSettings, CircuitSnapshot
from kiln.wrappers.circuit_window import OutcomeWindow

T = TypeVar('T')


class Circuit(pybreaker.CircuitBreaker):
    """Refuses calls to what failed lately, and looks now and then if it is well.

    Closed, calls pass without any lock. Too large a share of failed (or slow)
    calls opens it for a period; after that one probe at a time may go, and
    its outcome closes the circuit or opens it for longer.

    What an outcome means is the error's own ``circuit`` verdict. An error
    that is a clear answer, such as "not found", has the verdict SUCCESS: it
    proves a probe's backend alive, but it is left out of the window. Counted
    there it would heal, since looking for things that are gone is quick where
    working with things that exist is broken; and so it neither trips nor heals.
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
        settings = settings or CircuitSettings()
        # The three that pybreaker has too are kept in its attributes, so that
        # its setters go on working.
        super().__init__(
            fail_max=settings.minimum_calls,
            reset_timeout=settings.open_s,
            success_threshold=settings.success_threshold,
            listeners=listeners,
            state_storage=storage,
            name=name,
            throw_new_error_on_trip=False,
        )
        self.settings = settings
        self._label = name
        self._monotonic = clock.monotonic
        self._rng = rng or random.Random()  # noqa: S311  # spreads probes, guards no secret
        self._slow_s = settings.slow_call_s
        self._window = OutcomeWindow(settings.window_s)
        self._phase = Phase()
        self._herald = Herald()
        self._peers = (
            Peers(storage, clock.monotonic) if isinstance(storage, SharedStorage) else None
        )
        self._resume_stored_state()

    # ---- the two halves of a guarded call ---------------------------------

    def admit(self) -> Ticket:
        """Return leave for one call, to be given back to :meth:`settle`.

        :raises CircuitOpenError: not now; ``retry_after`` says when.
        """
        if self._peers is not None:
            self._look_around()
        # Phases are replaced, never changed, so reading one needs no lock.
        phase = self._phase
        if phase.state == STATE_CLOSED:
            return Ticket(phase.generation, 0.0 if self._slow_s is None else self._monotonic())
        return self._admit_probe(phase)

    def settle(self, ticket: Ticket, error: BaseException | None = None) -> None:
        """Take note of how an admitted call ended; what comes too late is dropped."""
        verdict = Verdict.SUCCESS if error is None else self._verdict(error)
        now = self._monotonic()
        slow = self._slow_s is not None and now - ticket.started >= self._slow_s
        with self._lock:
            phase = self._phase
            if ticket.generation != phase.generation:
                return
            if phase.state != STATE_CLOSED:
                self._conclude_probe(now, verdict, slow, error)
            elif error is None or verdict is Verdict.FAILURE:
                failed = error is not None
                self._window.record(now, failed=failed, slow=slow)
                # A success never trips, even where it completes the minimum.
                if (failed or slow) and self._is_bad():
                    self._enter(self._tripped(phase, now, error if failed else None))
        if self._listeners and verdict is not Verdict.NEUTRAL:
            if verdict is Verdict.FAILURE:
                self._herald.tell(self, 'failure', error)
            else:
                self._herald.tell(self, 'success')
        if self._phase is not phase:
            self._spread()

    def refusal(self) -> CircuitOpenError | None:
        """Return the error a call would be refused with now; takes no probe."""
        phase = self._phase
        if phase.state == STATE_CLOSED:
            return None
        now = self._monotonic()
        return phase.refusal(self._label, now) if now < phase.until else None

    def _admit_probe(self, phase: Phase) -> Ticket:
        now = self._monotonic()
        if now < phase.until:
            raise phase.refusal(self._label, now)
        with self._lock:
            if phase is not self._phase:
                leased = None
            else:
                until = now + self.settings.probe_lease_s
                leased = phase.half_opened(until=until, successes=phase.successes)
                self._enter(leased)
        if leased is not None:
            self._spread()
            # With shared storage, another process may have been first.
            if leased is self._phase:
                return Ticket(leased.generation, now)
        # Somebody else took the probe, or the circuit has closed meanwhile.
        return self.admit()

    def _conclude_probe(
        self, now: float, verdict: Verdict, slow: bool, error: BaseException | None
    ) -> None:
        phase = self._phase
        if verdict is Verdict.NEUTRAL:
            # It says nothing of the backend's health: the permit goes back.
            self._enter(phase.half_opened(until=now, successes=phase.successes))
        elif slow or verdict is Verdict.FAILURE:
            cause = error if verdict is Verdict.FAILURE else None
            self._enter(self._tripped(phase, now, cause))
        elif phase.successes + 1 < self._success_threshold:
            self._enter(phase.half_opened(until=now, successes=phase.successes + 1))
        else:
            self._enter(phase.closed(until=now + self.settings.window_s, trips=phase.trips))

    def _verdict(self, error: BaseException) -> Verdict:
        if isinstance(error, AmphoraComputeError):
            return error.circuit
        # KeyboardInterrupt, SystemExit, a cancelled task: the caller left,
        # the backend said nothing. pybreaker's exclusions say nothing either.
        if not isinstance(error, Exception) or not self.is_system_error(error):
            return Verdict.NEUTRAL
        return Verdict.FAILURE

    def _is_bad(self) -> bool:
        window, settings = self._window, self.settings
        if window.calls < self._fail_max:
            return False
        return window.failures >= settings.failure_rate * window.calls or (
            self._slow_s is not None and window.slow >= settings.slow_call_rate * window.calls
        )

    # ---- by hand -----------------------------------------------------------

    def isolate(self) -> None:
        """Refuse all calls until :meth:`close` is called."""
        self._by_hand(
            lambda phase: phase.opened(
                until=math.inf, trips=phase.trips, opened_by=BY_HAND, cause=None
            )
        )

    def open(self) -> bool:
        """Refuse all calls until :meth:`close` is called: pybreaker's word for it."""
        self.isolate()
        return self._throw_new_error_on_trip

    def trip(self, cause: BaseException | None = None) -> None:
        """Open for the normal period, as failures would."""
        self._by_hand(lambda phase: self._tripped(phase, self._monotonic(), cause, BY_HAND))

    def half_open(self) -> None:
        """Let the next call go as a probe, whatever the state is."""
        self._by_hand(lambda phase: phase.half_opened(until=self._monotonic()))

    def close(self) -> None:
        """Let all calls go, and forget what was."""
        self._by_hand(lambda phase: phase.closed(until=0.0, trips=0))

    def _by_hand(self, step: Callable[[Phase], Phase]) -> None:
        overruled = True
        # Another process may have changed the circuit unseen. What it did is
        # taken over first, as ever, and then gives way to the word of a hand.
        while overruled:
            with self._lock:
                self._enter(step(self._phase))
            overruled = self._spread()

    # ---- what it looks like ------------------------------------------------

    def snapshot(self) -> CircuitSnapshot:
        """Return what the circuit looks like now."""
        if self._peers is not None:
            self._look_around()
        now = self._monotonic()
        with self._lock:
            phase, window = self._phase, self._window
            window.slide(now)
            calls, failures, slow = window.calls, window.failures, window.slow
        waits = phase.state != STATE_CLOSED and not phase.manual
        return CircuitSnapshot(
            name=self._label,
            state=phase.state,
            retry_after=max(0.0, phase.until - now) if waits else None,
            failure_rate=failures / calls if calls else 0.0,
            slow_call_rate=slow / calls if calls else 0.0,
            calls=calls,
            opened_by=phase.opened_by,
            manual=phase.manual,
            trips=phase.trips,
        )

    @property
    def fail_counter(self) -> int:
        """The failures in the window."""
        with self._lock:
            self._window.slide(self._monotonic())
            return self._window.failures

    @property
    def success_counter(self) -> int:
        """The successful probes in a row."""
        return self._phase.successes

    @property
    def state(self) -> Any:
        """The state as pybreaker's object; setting a state's name enters it."""
        if self._peers is not None:
            self._look_around()
        return self._state

    @state.setter
    def state(self, name: str) -> None:
        enter: dict[str, Callable[[], None]] = {
            STATE_CLOSED: self.close,
            STATE_HALF_OPEN: self.half_open,
            STATE_OPEN: self.trip,
        }
        if name not in enter:
            raise ValueError(f'A circuit can be {", ".join(enter)}, not {name!r}.')
        enter[name]()

    # ---- pybreaker's ways to make a call ------------------------------------

    def call(self, func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Make a call, guarded; a generator is guarded until it is exhausted."""
        ticket = self.admit()
        if self._listeners:
            self._herald.tell(self, 'before_call', func, *args, **kwargs)
        try:
            result = func(*args, **kwargs)
        # Every outcome is settled, then passed on.
        except BaseException as exc:
            self.settle(ticket, exc)
            raise
        if isinstance(result, types.GeneratorType):
            return self._follow(ticket, result)  # type: ignore[no-any-return]
        self.settle(ticket)
        return result

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Guard the block of a ``with`` statement."""
        with self._settled(self.admit()):
            yield

    def call_async(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Refused: pybreaker would hold the lock from one event to the next."""
        raise NotImplementedError('A circuit guards threads; use admit() and settle() instead.')

    def _follow(self, ticket: Ticket, generator: Generator[Any, Any, Any]) -> Any:
        with self._settled(ticket):
            return (yield from generator)

    @contextlib.contextmanager
    def _settled(self, ticket: Ticket) -> Iterator[None]:
        try:
            yield
        # As in call(): settled, then passed on.
        except BaseException as exc:
            self.settle(ticket, exc)
            raise
        self.settle(ticket)

    # ---- from phase to phase -------------------------------------------------

    def _tripped(
        self, phase: Phase, now: float, cause: BaseException | None, why: str = SLOW_CALLS
    ) -> Phase:
        # A circuit that trips again soon after it closed had not recovered.
        forgiven = phase.manual or (phase.state == STATE_CLOSED and now >= phase.until)
        trips = 1 if forgiven else phase.trips + 1
        if cause is not None:
            why = cause.code if isinstance(cause, KilnError) else type(cause).__name__
        until = now + self._open_period_s(trips)
        return phase.opened(until=until, trips=trips, opened_by=why, cause=cause)

    def _open_period_s(self, trips: int) -> float:
        settings = self.settings
        grown = self._reset_timeout * settings.open_factor ** min(trips - 1, 50)
        period = min(grown, max(settings.open_max_s, self._reset_timeout))
        return period * (1 - settings.open_jitter * self._rng.random())

    def _enter(self, phase: Phase) -> None:
        """Begin a phase, with the lock held; :meth:`_spread` tells of it without."""
        old, self._phase = self._phase, phase
        if phase.state == STATE_CLOSED:
            self._window.clear()
        if phase.state == old.state:
            return
        storage = self._state_storage
        if phase.state == STATE_OPEN:
            storage.opened_at = datetime.datetime.now(datetime.UTC)
        storage.state = phase.state
        before, self._state = self._state, self._create_new_state(phase.state)
        self._herald.note(before, self._state)

    def _resume_stored_state(self) -> None:
        # A storage that remembers an open circuit does not say for how long.
        if self._state_storage.state != STATE_CLOSED:
            with self._lock:
                now = self._monotonic()
                self._enter(self._tripped(self._phase, now, None, 'an earlier process'))

    # ---- telling others, never under the lock ---------------------------------

    def _spread(self) -> bool:
        """Tell of a new phase; return whether another process's took its place."""
        overruled = self._peers is not None and self._peers.agree(self._current, self._adopt)
        self._herald.announce(self)
        return overruled

    def _look_around(self) -> None:
        """See now and then what other processes made of the circuit."""
        if self._peers is not None and self._peers.look(self._current, self._adopt):
            self._herald.announce(self)

    def _current(self) -> Phase:
        return self._phase

    def _adopt(self, found: SharedPhase) -> Phase:
        with self._lock:
            self._enter(found.after(self._phase, self._monotonic()))
            return self._phase
