"""Drivers that are slow, fail or flap on purpose, around a driver that is right.

They stand where a backend's trouble would come from, so that a test can see
what the guards above, or a controller, make of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError, ServiceUnavailable
from kiln.models import Ability, Amphora, BuildRequest, Limits

#: Makes the error of a call that fails.
MakeError = Callable[[Call], AmphoraComputeError]

_ALL = frozenset(Call)


def unavailable(call: Call) -> AmphoraComputeError:
    """Return the error of a backend that serves nobody."""
    return ServiceUnavailable(f'Cannot {call.label}: the backend is down, as the test wants it.')


class FaultyDriver(AmphoraComputeDriver):
    """Passes calls on to a right driver, but does something to ``calls`` before."""

    def __init__(self, inner: AmphoraComputeDriver, *, calls: Collection[Call] = _ALL) -> None:
        self.inner = inner
        self.calls = frozenset(calls)
        self.name, self.owner, self.clock = inner.name, inner.owner, inner.clock

    def disturb(self, call: Call) -> None:
        """Take time, or raise; the call goes on when this returns."""
        raise NotImplementedError(f'{type(self).__name__} must have disturb().')

    def perform(self, call: Call, *args: Any) -> Any:
        """Disturb the call if it is one of those, then pass it on."""
        if call in self.calls:
            self.disturb(call)
        return self.inner.perform(call, *args)

    @property
    def limits(self) -> Limits:
        """What the right driver accepts."""
        return self.inner.limits

    @property
    def abilities(self) -> frozenset[Ability]:
        """What the right driver can do."""
        return self.inner.abilities

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        """Ask the right driver; no fault is foretold."""
        return self.inner.refusal(call)

    def close(self) -> None:
        """Close the right driver."""
        self.inner.close()

    # Wanted of every driver; whoever calls them gets the faults as well.

    def _build(self, request: BuildRequest) -> str:
        amphora_id: str = self.perform(Call.BUILD, request)
        return amphora_id

    def _delete(self, amphora_id: str) -> None:
        self.perform(Call.DELETE, amphora_id)

    def _get(self, amphora_id: str) -> Amphora:
        amphora: Amphora = self.perform(Call.GET, amphora_id)
        return amphora

    def _list(self, owner: str) -> Iterable[Amphora]:
        amphorae: Iterable[Amphora] = self.perform(Call.LIST, owner)
        return amphorae


class SlowDriver(FaultyDriver):
    """Takes ``seconds`` on the driver's clock for each call."""

    def __init__(
        self, inner: AmphoraComputeDriver, seconds: float, *, calls: Collection[Call] = _ALL
    ) -> None:
        super().__init__(inner, calls=calls)
        self.seconds = seconds

    def disturb(self, call: Call) -> None:
        """Wait."""
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
        """Fail a call before it is passed on, or lose its answer after."""
        if self._late and self.broken and call in self.calls:
            self.inner.perform(call, *args)
        return super().perform(call, *args)

    def disturb(self, call: Call) -> None:
        """Raise, unless repaired meanwhile."""
        if self.broken:
            raise self._error(call)


class FlappingDriver(FaultyDriver):
    """Fails so many calls, serves so many, and begins again."""

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
        # One step of a cycle is atomic, so threads share the turns out rightly.
        self._turns = itertools.cycle([True] * fails + [False] * serves)
        self._error = error

    def disturb(self, call: Call) -> None:
        """Raise, or not, as the turn is."""
        if next(self._turns):
            raise self._error(call)
