"""The working parts around one driver, put together in the one right order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.listeners import Listener, Listeners
from kiln.wrappers.breaker import BreakerDriver
from kiln.wrappers.circuit_settings import CircuitSettings
from kiln.wrappers.executor import ExecutorDriver
from kiln.wrappers.executor_settings import ExecutorSettings
from kiln.wrappers.observer import ObserverDriver
from kiln.wrappers.rate import RateDriver, RateSettings
from kiln.wrappers.scheduler import Scheduler
from kiln.wrappers.watcher import Watcher, WatcherSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class StackSettings:
    """How the wrappers around a driver behave."""

    executor: ExecutorSettings = dataclasses.field(default_factory=ExecutorSettings)
    circuit: CircuitSettings = dataclasses.field(default_factory=CircuitSettings)
    #: How circuits are stored, by their name; None keeps them in this process.
    circuit_storage: Callable[[str], Any] | None = None
    rate: RateSettings | None = None
    watcher: WatcherSettings = dataclasses.field(default_factory=WatcherSettings)
    #: Seconds an operation may take that waits for an effect, not for a yes.
    effect_timeout_s: float = 600.0
    #: Seconds after which a delete that had no effect yet is sent again, then twice that.
    delete_again_s: float = 60.0
    probe_interval_s: float = 2.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stack:
    """One driver and all that guards it."""

    driver: AmphoraComputeDriver
    breaker: BreakerDriver
    executor: ExecutorDriver
    watcher: Watcher
    scheduler: Scheduler
    listener: Listener
    settings: StackSettings

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self.driver.name

    @property
    def clock(self) -> Clock:
        """The clock all parts go by."""
        return self.driver.clock

    def close(self, wait_s: float) -> None:
        """Stop the parts, those that give out work first."""
        self.watcher.close()
        self.executor.close(wait_s)
        self.scheduler.close()


def assemble(
    driver: AmphoraComputeDriver,
    settings: StackSettings,
    listeners: Iterable[Listener] = (),
) -> Stack:
    """Put the guards around a driver, from the inside out."""
    told = Listeners(listeners)
    # A plain Listener tells the parts that nobody listens, so they need not
    # gather what nobody hears.
    listener: Listener = told if told else Listener()
    guarded: AmphoraComputeDriver = ObserverDriver(driver, listener) if told else driver
    if settings.rate is not None:
        guarded = RateDriver(guarded, settings=settings.rate)
    breaker = BreakerDriver(
        guarded,
        settings=settings.circuit,
        storage_factory=settings.circuit_storage,
        listener=listener,
    )
    scheduler = Scheduler(name=driver.name, clock=driver.clock)
    return Stack(
        driver=driver,
        breaker=breaker,
        executor=ExecutorDriver(
            breaker, scheduler=scheduler, settings=settings.executor, listener=listener
        ),
        # The watcher asks the guarded driver on its own thread: it must look
        # even while every worker is held up.
        watcher=Watcher(
            breaker, scheduler=scheduler, settings=settings.watcher, listener=listener
        ),
        scheduler=scheduler,
        listener=listener,
        settings=settings,
    )
