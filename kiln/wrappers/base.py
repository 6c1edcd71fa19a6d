"""DriverWrapper: base of all drivers that wrap another driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError, ConfigurationError
from kiln.models import Ability, Amphora, BuildRequest, Limits


class DriverWrapper(AmphoraComputeDriver):
    """A driver that passes each call on; subclasses override :meth:`perform`."""

    def __init__(self, inner: AmphoraComputeDriver) -> None:
        if any(type(driver) is type(self) for driver in _layers(inner)):
            raise ConfigurationError(
                f'Cannot wrap {inner.name!r} in {type(self).__name__} twice; it has one already.'
            )
        self.inner = inner
        self.name: str = inner.name
        self.owner: str = inner.owner
        self.clock: Clock = inner.clock

    @property
    def limits(self) -> Limits:
        return self.inner.limits

    @property
    def abilities(self) -> frozenset[Ability]:
        return self.inner.abilities

    def perform(self, call: Call, *args: Any) -> Any:
        return self.inner.perform(call, *args)

    def cursor(self) -> str:
        return self.inner.cursor()

    def refusal(self, call: Call) -> AmphoraComputeError | None:
        return self.inner.refusal(call)

    def on_news(self, hurry: Callable[[], None]) -> None:
        self.inner.on_news(hurry)

    def close(self) -> None:
        self.inner.close()

    # The contract requires these four hooks of every driver. perform() reaches the hooks
    # of the innermost driver, so here they only call it.

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


def _layers(driver: AmphoraComputeDriver) -> Iterator[AmphoraComputeDriver]:
    yield driver
    while isinstance(driver, DriverWrapper):
        driver = driver.inner
        yield driver
