"""Fixture with a driver behind kiln's guards, and a gate that holds its calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kiln.clock import Deadline
from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.models import State
from kiln.testing.conformance.fixture import ConformanceFixture
from kiln.testing.conformance.sweep import without_guards
from kiln.testing.conformance.wording import in_words
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.operations.operation import Operation

#: Seconds to advance in each step, and real seconds to let other threads run.
_STEP_S, _REAL_STEP_S = 0.05, 0.001
#: Step in seconds while waiting for the backend.
_LONG_STEP_S = 0.25
#: The first step: on a real clock most of what is waited for comes at once.
_FIRST_STEP_S = 0.01


class Gate(DriverWrapper):
    """Holds some calls until it is released; ``close`` leaves the driver open."""

    def __init__(self, inner: AmphoraComputeDriver, held: frozenset[Call]) -> None:
        super().__init__(inner)
        self._held = held
        #: Set once a call was held; and, by the behaviour, to let all calls pass.
        self.entered, self.released = threading.Event(), threading.Event()

    def perform(self, call: Call, *args: Any) -> Any:
        if call in self._held:
            self.entered.set()
            self.released.wait()
        return super().perform(call, *args)

    def close(self) -> None:
        """Leave the driver open; the behaviour closes it."""


class GuardedFixture(ConformanceFixture):
    """Fixture for builds behind the guards."""

    def behind_guards(self, *held: Call) -> tuple[Compute, Gate]:
        """Return the driver behind guards, and the gate that holds these calls."""
        gate = Gate(without_guards(self.driver), frozenset(held))
        compute = self.make_compute(gate)
        self.addCleanup(compute.close, 0.0)
        # Runs before the close, so that no thread of a pool hangs in a call.
        self.addCleanup(gate.released.set)
        return compute, gate

    def start_build(
        self, compute: Compute, *, timeout: float | None = None, **given: Any
    ) -> Operation[str]:
        """Start a build that ends when the instance is active."""
        seconds = self.timeout_s if timeout is None else timeout
        arguments = self.arguments(**given)
        return compute.build(**arguments, until=Until.ACTIVE, timeout=seconds)

    def comes(self, so: Callable[[], bool], sentence: str, *, step_s: float = _STEP_S) -> None:
        """Let time pass until other threads have made a condition true."""
        # Real time, as other threads make progress in real time only.
        deadline = Deadline.after(self.timeout_s)
        next_s = min(_FIRST_STEP_S, step_s)
        while not so():
            if deadline.passed:
                self.never(sentence, 'it is not so')
            self.pass_time(next_s)
            time.sleep(_REAL_STEP_S)
            next_s = min(2 * next_s, step_s)

    def error_of(self, operation: Operation[Any]) -> BaseException | None:
        """Wait for an operation; return its error, or None if it succeeded."""
        done = f'the operation on {operation.subject} is done'
        self.comes(operation.done, done, step_s=_LONG_STEP_S)
        return operation.exception(0)

    def begin_to_close(self, compute: Compute) -> threading.Thread:
        """Close on another thread, which ends when cleanup is done or abandoned."""
        thread = threading.Thread(target=compute.close, args=(self.timeout_s,), daemon=True)
        thread.start()
        return thread

    def close_guards(self, compute: Compute) -> None:
        """Close, and return when cleanup is done or abandoned."""
        thread = self.begin_to_close(compute)
        self.comes(lambda: not thread.is_alive(), 'the guards are closed', step_s=_LONG_STEP_S)

    def assert_still(self, state: State, amphora_id: str, what: str) -> None:
        """Fail unless an instance is still in a state after something unrelated."""
        seen = self.seen(amphora_id)
        if seen is None or seen.state is not state:
            now = 'gone' if seen is None else in_words(seen)
            self.broken(f'amphora {amphora_id} stays {state.value}', f'{what}, and it is {now}')
