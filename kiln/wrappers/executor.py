"""Runs the calls of a backend on a few threads, so that no caller ever waits.

The only home of futurist. Its pool gives the threads; who may wait and who
goes next is kiln's own (admission.py), since futurist's queue knows neither
bounds per kind nor priorities. A thread, once started, serves as a *lane*: it
takes one call after the other until none may go. Nothing sleeps in a lane:
what has to wait for its next attempt waits with the scheduler.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import logging
import random
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import futurist

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call, Traffic
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    BuildOutcomeUnknown,
    CircuitOpenError,
    ConfigurationError,
    DeleteTimeout,
    OperationCancelled,
    OperationRejected,
    OperationTimeout,
    Outcome,
    RateLimited,
    ServiceTimeout,
    UnsupportedOperation,
)
from kiln.listeners import Listener
from kiln.models import BuildRequest
from kiln.wrappers.admission import Admission
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.discard import Discard
from kiln.wrappers.operation import Operation, OperationState, Priority
from kiln.wrappers.retry import backoff_s, may_repeat, must_look_first
from kiln.wrappers.scheduler import Appointment, Scheduler

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """How many calls run and wait, for how long, and how they are repeated."""

    max_workers: int = 16
    max_queue: int = 10_000
    #: Seconds for one operation until the backend has agreed, all included.
    timeout_s: float = 60.0
    #: Seconds for which what a failed build left is looked for and removed.
    cleanup_timeout_s: float = 600.0
    #: Seconds after which a lost build is looked for once more: it may come late.
    cleanup_grace_s: float = 5.0
    first_delay_s: float = 0.5
    max_delay_s: float = 30.0

    def __post_init__(self) -> None:
        rules = {
            'max_workers': (self.max_workers >= len(Traffic), f'{len(Traffic)} or more'),
            'max_queue': (self.max_queue >= 1, '1 or more'),
            'timeout_s': (self.timeout_s > 0, 'above 0 seconds'),
            'cleanup_timeout_s': (self.cleanup_timeout_s > 0, 'above 0 seconds'),
            'cleanup_grace_s': (self.cleanup_grace_s >= 0, '0 seconds or more'),
            'first_delay_s': (self.first_delay_s > 0, 'above 0 seconds'),
            'max_delay_s': (self.max_delay_s >= self.first_delay_s, 'at least first_delay_s'),
        }
        for name, (fits, rule) in rules.items():
            if not fits:
                value = getattr(self, name)
                raise ConfigurationError(f'Executor setting {name} must be {rule}, not {value!r}.')


class _Task:
    """An operation on its way to the backend, and what its attempts taught."""

    __slots__ = (
        'args', 'attempt', 'call', 'context', 'expiry', 'in_flight', 'last_error', 'looking',
        'lost', 'operation', 'oslo_context', 'work',
    )  # fmt: skip

    def __init__(self, operation: Operation[Any], call: Call, args: tuple[Any, ...]) -> None:
        self.operation = operation
        self.call = call
        self.args = args
        # What runs instead of a call, where it is none.
        self.work: Callable[[], Any] | None = None
        self.context = contextvars.copy_context()
        self.oslo_context = _oslo_context()
        self.expiry: Appointment | None = None
        self.attempt = 0
        self.in_flight = False
        # A build whose answer was lost; and whether it is looked for now.
        self.lost = False
        self.looking = False
        self.last_error: AmphoraComputeError | None = None

    @property
    def traffic(self) -> Traffic:
        return Traffic.READ if self.looking else self.call.traffic


class ExecutorDriver(DriverWrapper):
    """Gives each call a thread when there is one, and an Operation at once.

    As a plain driver its methods block until the operation is done.
    """

    def __init__(
        self,
        inner: AmphoraComputeDriver,
        *,
        scheduler: Scheduler,
        settings: ExecutorSettings | None = None,
        listener: Listener | None = None,
        pool: Any = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(inner)
        self.settings = settings or ExecutorSettings()
        self.scheduler = scheduler
        listener = listener or Listener()
        self._tell_queue = None if type(listener) is Listener else listener.queue_changed
        self._rng = rng or random.Random()  # noqa: S311  # spreads retries, guards no secret
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._admission: Admission[_Task] = Admission(
            lanes=self.settings.max_workers, max_waiting=self.settings.max_queue
        )
        self._pool = pool or futurist.ThreadPoolExecutor(max_workers=self.settings.max_workers)
        self._lanes = 0
        self._alive: set[_Task] = set()
        self._discards: dict[str, Discard] = {}
        self._closed = False

    # ---- to be called --------------------------------------------------------

    def submit(
        self,
        call: Call,
        *args: Any,
        timeout_s: float | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> Operation[Any]:
        """Have a call made; return at once.

        :raises OperationRejected: the queue is full, or this is closed.
        :raises CircuitOpenError: the circuit of such calls is open.
        :raises UnsupportedOperation: the driver lacks the ability.
        """
        refused = self.inner.refusal(call)
        if isinstance(refused, CircuitOpenError | UnsupportedOperation):
            raise refused
        return self._admit(call, args, timeout_s, priority)

    def run(
        self, function: Callable[[], Any], *, timeout_s: float | None = None
    ) -> Operation[Any]:
        """Run a function on a thread of the pool, as reads run."""
        return self._admit(Call.CHECK, (), timeout_s, Priority.NORMAL, work=function)

    def perform(self, call: Call, *args: Any) -> Any:
        """Have a call made, and wait for it: the face of a plain driver."""
        return self.submit(call, *args).result()

    def discard_build(self, build_key: str, amphora_id: str | None) -> Operation[None]:
        """See to it that nothing of a build is left, however long it takes.

        Goes on in the background for ``cleanup_timeout_s``; what is left then
        is logged with its key and found by the orphan sweep.
        """
        with self._lock:
            running = self._discards.get(build_key)
            if running is not None:
                return running.operation
            discard = Discard(self, build_key, amphora_id)
            self._discards[build_key] = discard
        discard.operation.add_done_callback(lambda _: self._discards.pop(build_key, None))
        discard.start()
        return discard.operation

    def recover(self, saved: Mapping[str, Any]) -> Operation[Any]:
        """Take up an operation that another process saved."""
        operation: Operation[Any] = Operation.from_dict(saved, clock=self.clock)
        call = {call.label: call for call in Call}.get(operation.kind)
        operation.note('recovered')
        if call is Call.BUILD and operation.build_key is not None:
            found = self.submit(Call.FIND_BUILD, operation.build_key)
            found.add_done_callback(functools.partial(_recovered, operation))
        elif call is not None and call.repeatable and operation.subject:
            again = self.submit(call, operation.subject)
            again.add_done_callback(lambda done: _copy(done, operation))
        else:
            operation.fail(
                AmphoraComputeError(
                    f'Cannot tell whether {operation.kind} of {operation.subject} took effect '
                    f'before the restart: look at its status.',
                    backend=self.name,
                    operation=operation.kind,
                )
            )
        return operation

    def close(self, wait_s: float = 10.0) -> None:
        """Stop: what waits is cancelled, what runs gets ``wait_s``; safe to repeat."""
        with self._lock:
            first, self._closed = not self._closed, True
            waiting = set(self._alive)
        for task in waiting:
            if not task.in_flight:
                task.operation.fail(self._closing(task))
        deadline = Deadline.after(wait_s)
        with self._idle:
            while self._alive or self._discards:
                # Real time: a closing process does not live by a test's clock.
                if not self._idle.wait(max(0.0, deadline.remaining_s())):
                    break
            left = set(self._alive)
        for task in left:
            task.operation.fail(self._closing(task))
        for discard in list(self._discards.values()):
            discard.give_up('kiln was closed')
        if first:
            # Lanes take what waits themselves, so futurist's own queue, which
            # its shutdown would lose, is empty.
            self._pool.shutdown(wait=False)
            self.inner.close()

    # ---- for discards: never rejected, never refused at the door ---------------

    def submit_anyway(self, call: Call, *args: Any) -> Operation[Any]:
        """Have a call made though the queue is full or this is closing."""
        return self._admit(call, args, None, Priority.HIGH, anyway=True)

    # ---- admission -------------------------------------------------------------

    def _admit(
        self,
        call: Call,
        args: tuple[Any, ...],
        timeout_s: float | None,
        priority: Priority,
        *,
        work: Callable[[], Any] | None = None,
        anyway: bool = False,
    ) -> Operation[Any]:
        seconds = self.settings.timeout_s if timeout_s is None else timeout_s
        operation: Operation[Any] = Operation(
            call.label,
            backend=self.name,
            deadline=Deadline.after(seconds, self.clock),
            clock=self.clock,
            priority=priority,
        )
        _describe(operation, args)
        task = _Task(operation, call, args)
        task.work = work
        with self._lock:
            if not anyway and (self._closed or self._admission.full):
                raise self._rejection(call)
            self._alive.add(task)
        task.expiry = self.scheduler.call_later(seconds, functools.partial(self._expire, task))
        self._queue(task)
        return operation

    def _queue(self, task: _Task) -> None:
        with self._lock:
            if task.operation.done():
                start = False
                self._forget(task)
            else:
                traffic = task.traffic
                self._admission.put(traffic, task.operation.priority, task)
                start = self._lanes < self.settings.max_workers and self._admission.may_start(
                    traffic, self.clock.monotonic()
                )
                self._lanes += start
        self._changed()
        if start:
            self._pool.submit(self._lane)

    def _rejection(self, call: Call) -> OperationRejected:
        why = 'kiln is closed' if self._closed else f'{self._admission.waiting} operations wait'
        return OperationRejected(
            f'Cannot {call.label} on {self.name!r} now: {why}.',
            backend=self.name,
            operation=call.label,
            retryable=not self._closed,
        )

    # ---- on a lane ---------------------------------------------------------------

    def _lane(self) -> None:
        while True:
            with self._lock:
                taken = self._admission.take(self.clock.monotonic())
                if taken is None:
                    self._lanes -= 1
                    self._idle.notify_all()
                    return
            traffic, task = taken
            self._changed()
            try:
                self._attempt(task)
            # A defect of ours must not cost the pool its thread (g4), nor the
            # caller his answer.
            except BaseException as exc:
                LOG.exception('Operation %s failed within kiln', task.operation.id)
                self._end(task, error=exc)
            finally:
                with self._lock:
                    self._admission.give_back(traffic)
                    self._idle.notify_all()

    def _attempt(self, task: _Task) -> None:
        operation = task.operation
        if operation.done():
            self._end(task)
            return
        call = Call.FIND_BUILD if task.looking else task.call
        if task.work is None and (refused := self.inner.refusal(call)) is not None:
            if isinstance(refused, RateLimited):
                self._hold(task, refused.retry_after or 0.0)
                return
        operation.state = OperationState.RUNNING
        task.attempt += 1
        task.in_flight = True
        try:
            result = task.context.run(self._call, task, call)
        except AmphoraComputeError as exc:
            task.in_flight = False
            self._failed(task, exc)
        # Probes and defects: SystemExit in a task would end the lane (g4).
        except BaseException as exc:
            task.in_flight = False
            self._end(task, error=exc)
        else:
            task.in_flight = False
            self._succeeded(task, result)

    def _call(self, task: _Task, call: Call) -> Any:
        if task.oslo_context is not None:
            task.oslo_context.update_store()
        with deadline_scope(task.operation.deadline):
            if task.work is not None:
                return task.work()
            if task.looking:
                return self.inner.perform(call, task.operation.build_key)
            return self.inner.perform(call, *task.args)

    def _hold(self, task: _Task, seconds: float) -> None:
        """Put a task back in its place: the backend's rate allows none now."""
        with self._lock:
            self._admission.hold(task.traffic, self.clock.monotonic() + seconds)
        self._queue(task)
        self.scheduler.call_later(seconds, self._start_lane)

    def _start_lane(self) -> None:
        with self._lock:
            start = self._admission.waiting > 0 and self._lanes < self.settings.max_workers
            self._lanes += start
        if start:
            self._pool.submit(self._lane)

    # ---- outcomes ------------------------------------------------------------------

    def _succeeded(self, task: _Task, result: Any) -> None:
        operation = task.operation
        if task.looking:
            task.looking = False
            if result is None:
                operation.note('not there', 'the lost request made nothing; it is sent again')
                self._again(task, 0.0)
                return
            operation.note('adopted', result.id)
            result = result.id
        if task.call is Call.BUILD:
            operation.amphora_id = result
        self._end(task, result=result)

    def _failed(self, task: _Task, error: AmphoraComputeError) -> None:
        task.last_error = error
        operation = task.operation
        call = Call.FIND_BUILD if task.looking else task.call
        if operation.done():
            # Too late for the caller; but what it may have made must go.
            task.lost = task.lost or must_look_first(call, error)
            self._end(task)
        elif must_look_first(call, error):
            task.lost = task.looking = True
            operation.note('lost', str(error))
            self._again(task, 0.0)
        elif may_repeat(call, error):
            self._again(task, self._pause_s(task, error))
        else:
            self._end(task, error=error)

    def _pause_s(self, task: _Task, error: AmphoraComputeError) -> float:
        settings = self.settings
        pause_s = backoff_s(
            task.attempt, first_s=settings.first_delay_s, max_s=settings.max_delay_s, rng=self._rng
        )
        return max(pause_s, error.retry_after or 0.0)

    def _again(self, task: _Task, pause_s: float) -> None:
        deadline = task.operation.deadline
        if deadline is not None and pause_s >= deadline.remaining_s():
            self._end(task, error=task.last_error)
            return
        task.operation.state = OperationState.WAITING
        if pause_s > 0:
            task.operation.note('waits', f'{pause_s:.2f} s after: {task.last_error}')
            self.scheduler.call_later(pause_s, functools.partial(self._queue, task))
        else:
            self._queue(task)

    def _end(self, task: _Task, *, result: Any = None, error: BaseException | None = None) -> None:
        """Give the outcome, unless the caller has one; nothing he does not know of stays."""
        operation = task.operation
        if error is not None:
            told = operation.fail(self._verdict(task, error))
        else:
            told = operation.resolve(result) if not operation.done() else False
        with self._lock:
            self._forget(task)
        made = task.call is Call.BUILD and result is not None
        if task.call is Call.BUILD and ((made and not told) or (task.lost and not made)):
            self.discard_build(task.args[0].build_key, result)

    def _verdict(self, task: _Task, error: BaseException) -> BaseException:
        """Return what the caller is told of an error."""
        if not task.lost or not isinstance(error, AmphoraComputeError):
            return error
        if isinstance(error, BuildOutcomeUnknown):
            return error
        unknown = BuildOutcomeUnknown(
            f'Cannot tell whether {operation_subject(task)} was built: {error}',
            build_key=task.operation.build_key,
            backend=self.name,
            operation='build',
        )
        unknown.__cause__ = error
        return unknown

    def _forget(self, task: _Task) -> None:
        self._alive.discard(task)
        if task.expiry is not None:
            task.expiry.cancel()
        self._idle.notify_all()

    # ---- deadlines -------------------------------------------------------------------

    def _expire(self, task: _Task) -> None:
        """Tell the caller in time, whatever the backend does."""
        operation = task.operation
        if operation.done():
            return
        operation.fail(self._verdict(task, self._overdue(task)))
        with self._lock:
            if task.in_flight:
                # Its lane is not free before the backend lets it go; what it
                # then brings is dealt with there.
                return
            self._forget(task)
        if task.lost:
            self.discard_build(task.args[0].build_key, None)

    def _overdue(self, task: _Task) -> AmphoraComputeError:
        operation = task.operation
        facts: dict[str, Any] = {
            'backend': self.name,
            'operation': operation.kind,
            'amphora_id': operation.amphora_id,
            'build_key': operation.build_key,
        }
        what = f'Cannot {operation.kind} {operation.subject}'.rstrip()
        if not task.in_flight:
            if task.last_error is not None:
                return task.last_error
            return OperationTimeout(
                f'{what}: no thread was free for it before its deadline.',
                outcome=Outcome.NOT_APPLIED,
                **facts,
            )
        text = f'{what}: {self.name!r} gave no answer before the deadline.'
        if task.call is Call.BUILD:
            return BuildOutcomeUnknown(text, **facts)
        if task.call is Call.DELETE:
            return DeleteTimeout(text, outcome=Outcome.UNKNOWN, **facts)
        return ServiceTimeout(text, **facts)

    def _closing(self, task: _Task) -> OperationCancelled:
        operation = task.operation
        return OperationCancelled(
            f'Cannot {operation.kind} {operation.subject}: kiln was closed.',
            outcome=Outcome.UNKNOWN if task.in_flight or task.lost else Outcome.NOT_APPLIED,
            backend=self.name,
            operation=operation.kind,
            build_key=operation.build_key,
        )

    def _changed(self) -> None:
        if self._tell_queue is not None:
            self._tell_queue(self.name, self._admission.waiting, self._admission.running)


def operation_subject(task: _Task) -> str:
    """Return what an error calls the subject of a task."""
    return task.operation.subject or task.operation.kind


def _describe(operation: Operation[Any], args: tuple[Any, ...]) -> None:
    subject = args[0] if args else None
    if isinstance(subject, BuildRequest):
        operation.subject = subject.name
        operation.build_key = subject.build_key
    elif isinstance(subject, str):
        operation.subject = subject
        operation.amphora_id = subject if operation.kind in _ON_AMPHORA else None


_ON_AMPHORA = frozenset(
    call.label
    for call in (
        Call.DELETE, Call.GET, Call.STATUS, Call.SUSPEND, Call.RESUME, Call.REBOOT, Call.REBUILD,
        Call.ATTACH_PORT, Call.DETACH_PORT, Call.ATTACH_NETWORK, Call.DETACH_NETWORK,
        Call.CONSOLE_LOG,
    )
)  # fmt: skip


def _oslo_context() -> Any:
    # A controller that has request contexts has imported the module; nobody
    # else needs to pay for it.
    module = sys.modules.get('oslo_context.context')
    return None if module is None else module.get_current()


def _copy(source: Operation[Any], target: Operation[Any]) -> None:
    error = source.exception()
    if error is None:
        target.resolve(source.result())
    else:
        target.fail(error)


def _recovered(operation: Operation[Any], found: Operation[Any]) -> None:
    error = found.exception()
    if error is not None:
        operation.fail(error)
    elif (amphora := found.result()) is not None:
        operation.amphora_id = amphora.id
        operation.resolve(amphora.id)
    else:
        operation.fail(
            AmphoraBuildError(
                f'Cannot find what {operation.subject} built before the restart: nothing has '
                f'its key. Build again with build_key={operation.build_key!r}.',
                outcome=Outcome.NOT_APPLIED,
                build_key=operation.build_key,
                backend=operation.backend,
            )
        )
