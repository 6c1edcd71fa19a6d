"""Stack: the guards around one driver, assembled in order."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kiln.clock import Clock, Deadline
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import AmphoraComputeError, ConfigurationError, InvalidRequest
from kiln.telemetry.events import Listener, Listeners
from kiln.wrappers.circuit.breaker import BreakerDriver
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.executor import ExecutorDriver
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.observer import ObserverDriver
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.caller_threads import CallerThreads
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import Goal, Priority
from kiln.wrappers.operations.scheduler import Scheduler
from kiln.wrappers.rate import RateDriver, RateSettings
from kiln.wrappers.watcher.interval import WatcherSettings
from kiln.wrappers.watcher.watcher import Watcher

#: Minimum time for callbacks at the end, even if a hanging call took all of wait_s.
_CALLBACKS_S = 1.0
#: How often a stack without callers checks whether its last operation is done.
_RETIRE_S = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class StackSettings:
    """Settings of the wrappers around a driver."""

    executor: ExecutorSettings = dataclasses.field(default_factory=ExecutorSettings)
    circuit: CircuitSettings = dataclasses.field(default_factory=CircuitSettings)
    #: Creates the storage of each circuit by name; None keeps circuits in this process.
    circuit_storage: Callable[[str], Any] | None = None
    rate: RateSettings | None = None
    watcher: WatcherSettings = dataclasses.field(default_factory=WatcherSettings)
    #: Time limit in seconds of an operation that waits for an effect.
    effect_timeout_s: float = 600.0
    #: Seconds until a delete without effect is sent again, doubled each time.
    delete_again_s: float = 60.0
    probe_interval_s: float = 2.0
    #: Maximum number of threads for callers' callbacks, and of threads for probes.
    callback_threads: int = 8
    probe_threads: int = 64

    def __post_init__(self) -> None:
        for name in ('callback_threads', 'probe_threads'):
            if getattr(self, name) < 1:
                raise ConfigurationError(
                    f'Setting {name} must be 1 or more, not {getattr(self, name)!r}.'
                )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stack:
    """One driver and all of its guards."""

    driver: AmphoraComputeDriver
    breaker: BreakerDriver
    executor: ExecutorDriver
    watcher: Watcher
    scheduler: Scheduler
    #: Threads for the callbacks and probes of callers.
    callbacks: CallerThreads
    probes: CallerThreads
    listener: Listener
    settings: StackSettings
    #: Multi-step operations that are not done.
    operations: set[Errand[Any]] = dataclasses.field(default_factory=set)

    @property
    def name(self) -> str:
        """Name of the backend."""
        return self.driver.name

    @property
    def clock(self) -> Clock:
        """Clock of all parts."""
        return self.driver.clock

    def operation(
        self,
        kind: str,
        subject: str,
        deadline: Deadline | None,
        *,
        amphora_id: str | None = None,
        build_key: BuildKey | None = None,
        goal: Goal | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> Errand[Any]:
        """Return a new multi-step operation."""
        operation: Errand[Any] = Errand(
            kind,
            backend=self.name,
            subject=subject,
            deadline=deadline,
            clock=self.clock,
            build_key=build_key,
            priority=priority,
            callers=self.callbacks,
        )
        operation.amphora_id, operation.goal = amphora_id, goal
        self.add(operation)
        return operation

    def add(self, operation: Errand[Any]) -> None:
        """Count a multi-step operation until it is done."""
        self.operations.add(operation)
        operation.then(self.operations.discard)

    @property
    def idle(self) -> bool:
        """True if nothing is in progress."""
        return not self.operations and self.executor.idle and self.watcher.idle

    def close(self, wait_s: float, *, driver: bool = True) -> None:
        """Stop the parts, producers of work first, and by default the driver."""
        deadline = Deadline.after(wait_s)
        self.watcher.close()
        self.executor.close(wait_s, inner=driver)
        self.scheduler.close()
        # Results of probes are no longer of use; callbacks still have to run.
        self.probes.close(0.0)
        self.callbacks.close(max(_CALLBACKS_S, deadline.remaining_s()))

    def retire(self) -> None:
        """Close once nothing is in progress; for a stack that nobody can call again."""
        if self.idle:
            self.close(0.0, driver=False)
        else:
            self.scheduler.call_later(_RETIRE_S, self.retire)

    def disown(self) -> None:
        """Forget everything in progress in the child of a fork: it is the parent's.

        Does not wait for locks: a thread of the parent might have held one, and only the
        calling thread exists in the child.
        """
        self.scheduler.disown()
        self.watcher.disown()
        self.callbacks.disown()
        self.probes.disown()
        for operation in [*self.operations, *self.executor.disown()]:
            operation.disown()


@contextlib.contextmanager
def beginning(operation: Errand[Any]) -> Iterator[None]:
    """End a multi-step operation that cannot begin, because its caller never gets it."""
    try:
        yield
    except AmphoraComputeError as exc:
        operation.fail(exc)
        raise


def check_parts(driver: object, settings: object, reopen: Any) -> None:
    """Check that a stack can be made of these parts.

    :raises InvalidRequest: a part has the wrong type.
    """
    kinds: list[tuple[str, object, type]] = [('driver', driver, AmphoraComputeDriver)]
    if settings is not None:
        kinds.append(('settings', settings, StackSettings))
    for argument, value, kind in kinds:
        if not isinstance(value, kind):
            raise InvalidRequest(
                f'{argument} must be a {kind.__module__}.{kind.__name__}, '
                f'not {validation.quoted(value)}.'
            )
    if reopen is not None:
        validation.check_callable('reopen', reopen)


def check_listeners(listeners: object) -> tuple[Listener, ...]:
    """Return the checked listeners of a caller.

    :raises InvalidRequest: they are not a list of listeners.
    """
    given = validation.check_items('listeners', listeners, 'listeners')
    for listener in given:
        if not isinstance(listener, Listener):
            raise InvalidRequest(
                f'listeners must be a list of kiln.telemetry.events.Listener, '
                f'with {validation.quoted(listener)} among them.'
            )
    return given


def assemble(
    driver: AmphoraComputeDriver,
    settings: StackSettings,
    listeners: Iterable[Listener] = (),
) -> Stack:
    """Assemble the guards around a driver, innermost first."""
    notified = Listeners(listeners)
    # With a plain Listener nobody listens, so the parts need not collect anything.
    listener: Listener = notified if notified else Listener()
    guarded: AmphoraComputeDriver = ObserverDriver(driver, listener) if notified else driver
    if settings.rate is not None:
        guarded = RateDriver(guarded, settings=settings.rate)
    breaker = BreakerDriver(
        guarded,
        settings=settings.circuit,
        storage_factory=settings.circuit_storage,
        listener=listener,
    )
    scheduler = Scheduler(name=driver.name, clock=driver.clock)
    callbacks = CallerThreads(f'{driver.name}-callback', settings.callback_threads)
    # The watcher polls the guarded driver on its own thread, so that it polls even while every
    # worker is held up.
    watcher = Watcher(breaker, scheduler=scheduler, settings=settings.watcher, listener=listener)
    breaker.on_close = watcher.resume
    return Stack(
        driver=driver,
        breaker=breaker,
        executor=ExecutorDriver(
            breaker,
            scheduler=scheduler,
            settings=settings.executor,
            listener=listener,
            callers=callbacks,
        ),
        watcher=watcher,
        scheduler=scheduler,
        callbacks=callbacks,
        # Probes are expected to block.
        probes=CallerThreads(f'{driver.name}-probe', settings.probe_threads, stall_s=0.0),
        listener=listener,
        settings=settings,
    )
