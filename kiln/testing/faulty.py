"""Faulty drivers: a correct driver, made slow, failing or flapping on purpose.

They take the place of a troubled backend, so that a test shows how the guards
above, or a controller, handle the trouble.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError, ServiceUnavailable
from kiln.wrappers.base import DriverWrapper

#: Returns the error of a call that fails.
MakeError = Callable[[Call], AmphoraComputeError]

_ALL = frozenset(Call)


def unavailable(call: Call) -> AmphoraComputeError:
    """Return the error of a backend that is out of service."""
    return ServiceUnavailable(f'Cannot {call.label}: the backend is down, as the test requests.')


class FaultyDriver(DriverWrapper):
    """Base class: passes calls on to a correct driver, and disturbs ``calls`` first."""

    def __init__(self, inner: AmphoraComputeDriver, *, calls: Collection[Call] = _ALL) -> None:
        super().__init__(inner)
        self.calls = frozenset(calls)

    def disturb(self, call: Call) -> None:
        """Take time, or raise; the call goes on when this returns."""
        raise NotImplementedError(f'{type(self).__name__} must implement disturb().')

    def perform(self, call: Call, *args: Any) -> Any:
        """Disturb the call if it is one of ``calls``, then pass it on."""
        if call in self.calls:
            self.disturb(call)
        return self.inner.perform(call, *args)


class SlowDriver(FaultyDriver):
    """Takes ``seconds`` on the driver's clock for each call."""

    def __init__(
        self, inner: AmphoraComputeDriver, seconds: float, *, calls: Collection[Call] = _ALL
    ) -> None:
        super().__init__(inner, calls=calls)
        self.seconds = seconds

    def disturb(self, call: Call) -> None:
        self.clock.sleep(self.seconds)


class FailingDriver(FaultyDriver):
    """Fails each call while ``broken``; with ``late``, after it has taken effect."""

    def __init__(
        self,
        inner: AmphoraComputeDriver,
        error: MakeError = unavailable,
        *,
        late: bool = False,
        calls: Collection[Call] = _ALL,
    ) -> None:
        super().__init__(inner, calls=calls)
        self.broken = True
        self._error = error
        self._late = late

    def perform(self, call: Call, *args: Any) -> Any:
        if self._late and self.broken and call in self.calls:
            self.inner.perform(call, *args)
        return super().perform(call, *args)

    def disturb(self, call: Call) -> None:
        if self.broken:
            raise self._error(call)


class FlappingDriver(FaultyDriver):
    """Fails ``fails`` calls, serves ``serves`` calls, and starts over."""

    def __init__(
        self,
        inner: AmphoraComputeDriver,
        *,
        fails: int,
        serves: int,
        error: MakeError = unavailable,
        calls: Collection[Call] = _ALL,
    ) -> None:
        super().__init__(inner, calls=calls)
        # next() of a cycle is atomic, so each item goes to exactly one thread.
        self._turns = itertools.cycle([True] * fails + [False] * serves)
        self._error = error

    def disturb(self, call: Call) -> None:
        if next(self._turns):
            raise self._error(call)
