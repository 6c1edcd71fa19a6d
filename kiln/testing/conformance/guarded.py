"""A driver behind kiln's guards, and calls that are held for as long as a behaviour needs."""

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
from kiln.testing.conformance.wording import in_words
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.executor.executor import ExecutorDriver
from kiln.wrappers.operations.operation import Operation

#: Of the time that behaviours go by, and real seconds in which other threads use it.
_STEP_S, _REAL_STEP_S = 0.05, 0.001
#: What takes a backend's time may come in longer steps.
_LONG_STEP_S = 0.25
#: The guards that a Compute adds; none can be around a driver twice.
_GUARDS = (BreakerDriver, ExecutorDriver)


class Gate(DriverWrapper):
    """Holds some calls until it is released; closed, it leaves the driver open for others."""

    def __init__(self, inner: AmphoraComputeDriver, held: frozenset[Call]) -> None:
        super().__init__(inner)
        self._held = held
        self._entered, self._released = threading.Event(), threading.Event()

    @property
    def entered(self) -> bool:
        """Whether a call is held, or was."""
        return self._entered.is_set()

    def release(self) -> None:
        """Let all calls pass from now on."""
        self._released.set()

    def perform(self, call: Call, *args: Any) -> Any:
        """Pass a call on, once it may pass."""
        if call in self._held:
            self._entered.set()
            self._released.wait()
        return super().perform(call, *args)

    def close(self) -> None:
        """Leave the driver to the behaviour."""


class GuardedFixture(ConformanceFixture):
    """The words for what happens to builds behind the guards."""

    def behind_guards(self, *held: Call) -> tuple[Compute, Gate]:
        """Return the driver behind guards, and the gate at which these calls are held."""
        gate = Gate(without_guards(self.driver), frozenset(held))
        compute = self.make_compute(gate)
        self.addCleanup(compute.close, 0.0)
        # Before that: no thread of a pool is to hang in a call.
        self.addCleanup(gate.release)
        return compute, gate

    def start_build(
        self, compute: Compute, *, timeout: float | None = None, **given: Any
    ) -> Operation[str]:
        """Start a build that ends when the instance is active."""
        seconds = self.timeout_s if timeout is None else timeout
        arguments = self.arguments(**given)
        return compute.build(**arguments, until=Until.ACTIVE, timeout=seconds)

    def comes(self, so: Callable[[], bool], sentence: str, *, step_s: float = _STEP_S) -> None:
        """Let time pass until other threads have made something so."""
        # Real time, as they do nothing in any other.
        deadline = Deadline.after(self.timeout_s)
        while not so():
            if deadline.passed:
                self.fail(f'After {self.timeout_s:g} s it is still not so that {sentence}.')
            self.pass_time(step_s)
            time.sleep(_REAL_STEP_S)

    def error_of(self, operation: Operation[Any]) -> BaseException | None:
        """Return the error of an operation once it is done, or None where it has none."""
        done = f'the operation on {operation.subject} is done'
        self.comes(operation.done, done, step_s=_LONG_STEP_S)
        return operation.exception(0)

    def begin_to_close(self, compute: Compute) -> threading.Thread:
        """Close on another thread, which ends when all is cleaned up or given up."""
        thread = threading.Thread(target=compute.close, args=(self.timeout_s,), daemon=True)
        thread.start()
        return thread

    def close_guards(self, compute: Compute) -> None:
        """Close, and return when all is cleaned up or given up."""
        thread = self.begin_to_close(compute)
        self.comes(lambda: not thread.is_alive(), 'the guards are closed', step_s=_LONG_STEP_S)

    def assert_still(self, state: State, amphora_id: str, what: str) -> None:
        """Fail unless an instance is in a state after something that was not to touch it."""
        seen = self.seen(amphora_id)
        if seen is None or seen.state is not state:
            now = 'gone' if seen is None else in_words(seen)
            self.fail(f'{what}, and amphora {amphora_id} was {state.value} and is {now}')


def without_guards(driver: AmphoraComputeDriver) -> AmphoraComputeDriver:
    """Return the outermost part of a driver that has none of a Compute's guards."""
    outermost, layer = driver, driver
    while isinstance(layer, DriverWrapper):
        if isinstance(layer, _GUARDS):
            outermost = layer.inner
        layer = layer.inner
    return outermost
