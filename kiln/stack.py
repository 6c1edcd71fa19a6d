"""The working parts around one driver, put together in the one right order."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kiln.clock import Clock, Deadline
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import AmphoraComputeError, ConfigurationError, InvalidRequest
from kiln.listeners import Listener, Listeners
from kiln.wrappers.breaker import BreakerDriver
from kiln.wrappers.build_key import BuildKey
from kiln.wrappers.caller_threads import CallerThreads
from kiln.wrappers.circuit_settings import CircuitSettings
from kiln.wrappers.errand import Errand
from kiln.wrappers.executor import ExecutorDriver
from kiln.wrappers.executor_settings import ExecutorSettings
from kiln.wrappers.observer import ObserverDriver
from kiln.wrappers.operation import Goal
from kiln.wrappers.rate import RateDriver, RateSettings
from kiln.wrappers.scheduler import Scheduler
from kiln.wrappers.watcher import Watcher, WatcherSettings

#: How long the callbacks have at the end, even where a call that hangs took all the time.
_CALLBACKS_S = 1.0
#: How often a stack that nobody can call looks whether its last operation is done.
_RETIRE_S = 1.0


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
    #: Threads at most for the callbacks of callers, and for their probes.
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
    """One driver and all that guards it."""

    driver: AmphoraComputeDriver
    breaker: BreakerDriver
    executor: ExecutorDriver
    watcher: Watcher
    scheduler: Scheduler
    #: Where the callbacks of callers are called, and their probes asked.
    callbacks: CallerThreads
    probes: CallerThreads
    listener: Listener
    settings: StackSettings
    #: Operations of several steps that are not done.
    operations: set[Errand[Any]] = dataclasses.field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of the backend."""
        return self.driver.name

    @property
    def clock(self) -> Clock:
        """The clock all parts go by."""
        return self.driver.clock

    def deadline(self, seconds: float) -> Deadline:
        """Return the deadline that comes in so many seconds."""
        return Deadline.after(seconds, self.clock)

    def operation(
        self,
        kind: str,
        subject: str,
        deadline: Deadline | None,
        *,
        amphora_id: str | None = None,
        build_key: BuildKey | None = None,
        goal: Goal | None = None,
    ) -> Errand[Any]:
        """Return a new operation of several steps."""
        operation: Errand[Any] = Errand(
            kind,
            backend=self.name,
            subject=subject,
            deadline=deadline,
            clock=self.clock,
            build_key=build_key,
            callers=self.callbacks,
        )
        operation.amphora_id, operation.goal = amphora_id, goal
        self.take_in(operation)
        return operation

    def take_in(self, operation: Errand[Any]) -> None:
        """Count an operation of several steps among those that are not done."""
        self.operations.add(operation)
        operation.then(self.operations.discard)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self.operations and self.executor.idle and self.watcher.idle

    def close(self, wait_s: float, *, driver: bool = True) -> None:
        """Stop the parts, those that give out work first, and the driver unless told not to."""
        deadline = Deadline.after(wait_s)
        self.watcher.close()
        self.executor.close(wait_s, inner=driver)
        self.scheduler.close()
        # What the probes would say is of no use any more; the callbacks are owed.
        self.probes.close(0.0)
        self.callbacks.close(max(_CALLBACKS_S, deadline.remaining_s()))

    def retire(self) -> None:
        """Close once nothing is under way; for a stack that nobody can call any more."""
        if self.idle:
            self.close(0.0, driver=False)
        else:
            self.scheduler.call_later(_RETIRE_S, self.retire)

    def disown(self) -> None:
        """Forget all that is under way in the child of a fork: it is the parent's.

        No lock is waited for: a thread of the parent may have held it, and no
        thread but the caller's came along.
        """
        self.scheduler.disown()
        self.watcher.disown()
        self.callbacks.disown()
        self.probes.disown()
        for operation in [*self.operations, *self.executor.disown()]:
            operation.disown()


@contextlib.contextmanager
def beginning(operation: Errand[Any]) -> Iterator[None]:
    """End an operation of several steps that cannot begin, as its caller never gets it."""
    try:
        yield
    except AmphoraComputeError as exc:
        operation.fail(exc)
        raise


def check_parts(driver: object, settings: object, reopen: Any) -> None:
    """Say so where a stack cannot be made of these.

    :raises InvalidRequest: one of them is of another type.
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
    """Return the listeners of a caller, or say what is wrong with them.

    :raises InvalidRequest: they are not a list of listeners.
    """
    given = validation.check_items('listeners', listeners, 'listeners')
    for listener in given:
        if not isinstance(listener, Listener):
            raise InvalidRequest(
                f'listeners must be a list of kiln.listeners.Listener, '
                f'with {validation.quoted(listener)} among them.'
            )
    return given


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
    callbacks = CallerThreads(f'{driver.name}-callback', settings.callback_threads)
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
        # The watcher asks the guarded driver on its own thread: it must look
        # even while every worker is held up.
        watcher=Watcher(
            breaker, scheduler=scheduler, settings=settings.watcher, listener=listener
        ),
        scheduler=scheduler,
        callbacks=callbacks,
        probes=CallerThreads(f'{driver.name}-probe', settings.probe_threads),
        listener=listener,
        settings=settings,
    )
