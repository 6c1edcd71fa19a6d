"""Runs the calls of a backend on a few threads, so that no caller ever waits.

The only home of futurist. Its pool gives the threads; who may wait and who
goes next is kiln's own (admission.py), since futurist's queue knows neither
bounds per kind nor priorities. A thread, once started, serves as a *lane*: it
takes one call after the other until none may go. Nothing sleeps in a lane:
what has to wait for its next attempt waits with the scheduler.
"""

from __future__ import annotations

import functools
import logging
import operator
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import futurist

from kiln.clock import Deadline
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    AmphoraComputeError,
    CircuitOpenError,
    OperationRejected,
    Outcome,
    RateLimited,
    UnsupportedOperation,
)
from kiln.listeners import Listener
from kiln.wrappers.admission import Admission
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.discard import Discard
from kiln.wrappers.executor_settings import ExecutorSettings
from kiln.wrappers.operation import Operation, OperationState, Priority
from kiln.wrappers.retry import backoff_s, may_repeat, must_look_first
from kiln.wrappers.scheduler import Scheduler
from kiln.wrappers.task import Task

LOG = logging.getLogger(__name__)


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
        self._admission: Admission[Task] = Admission(
            lanes=self.settings.max_workers,
            max_waiting=self.settings.max_queue,
            wanted=operator.attrgetter('queued'),
        )
        self._pool = pool or futurist.ThreadPoolExecutor(max_workers=self.settings.max_workers)
        self._lanes = 0
        self._alive: set[Task] = set()
        self._discards: dict[str, Discard] = {}
        # No more is taken from callers; then: no thread is left for anybody.
        self._closed = self._stopped = False

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
        discard.operation.add_done_callback(lambda _: self._discarded(build_key))
        discard.start()
        return discard.operation

    def _discarded(self, build_key: str) -> None:
        with self._lock:
            self._discards.pop(build_key, None)
            self._idle.notify_all()

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
                task.operation.fail(task.closed())
        deadline = Deadline.after(wait_s)
        with self._idle:
            while self._alive or self._discards:
                # Real time: a closing process does not live by a test's clock.
                if not self._idle.wait(max(0.0, deadline.remaining_s())):
                    break
            left = set(self._alive)
        for task in left:
            task.operation.fail(task.closed())
        for discard in list(self._discards.values()):
            discard.give_up('kiln was closed')
        with self._lock:
            self._stopped = True
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
        task = Task(operation, call, args, work)
        with self._lock:
            if not anyway and (self._closed or self._admission.full):
                raise self._rejection(call)
            self._alive.add(task)
        operation.add_done_callback(functools.partial(self._settled, task))
        task.expiry = self.scheduler.call_later(seconds, functools.partial(self._expire, task))
        discard = self._discards.get(operation.build_key) if operation.build_key else None
        if discard is not None and call is Call.BUILD:
            # What is being removed must be gone before it is built anew, or
            # the removal would take the new one.
            operation.state = OperationState.WAITING
            discard.operation.add_done_callback(lambda _: self._queue(task))
        else:
            self._queue(task)
        return operation

    def _queue(self, task: Task) -> None:
        if self._stopped:
            task.operation.fail(task.closed())
        with self._lock:
            task.on_lane = False
            settled = task.operation.done()
            if not settled:
                task.queued = True
                self._admission.put(task.traffic, task.operation.priority, task)
        if settled:
            self._dismiss(task)
        else:
            self._start_lane()
            self._changed()

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
                    return
                traffic, task = taken
                task.queued, task.on_lane = False, True
            self._start_lane()
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

    def _attempt(self, task: Task) -> None:
        operation = task.operation
        if operation.done():
            self._dismiss(task)
            return
        refused = None if task.work else self.inner.refusal(task.next_call)
        if isinstance(refused, RateLimited):
            self._hold(task, refused.retry_after or 0.0)
            return
        operation.state = OperationState.RUNNING
        task.attempt += 1
        task.in_flight = True
        try:
            result = task.attempt_on(self.inner)
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

    def _hold(self, task: Task, seconds: float) -> None:
        """Put a task back in its place: the backend's rate allows none now."""
        with self._lock:
            self._admission.hold(task.traffic, self.clock.monotonic() + seconds)
        self._queue(task)
        self.scheduler.call_later(seconds, self._start_lane)

    def _start_lane(self) -> None:
        """Start one more thread if there is work for it; it starts the next."""
        with self._lock:
            start = self._lanes < self.settings.max_workers and self._admission.ready(
                self.clock.monotonic()
            )
            self._lanes += start
        if start:
            self._pool.submit(self._lane)

    # ---- outcomes ------------------------------------------------------------------

    def _succeeded(self, task: Task, result: Any) -> None:
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

    def _failed(self, task: Task, error: AmphoraComputeError) -> None:
        task.last_error = error
        operation = task.operation
        call = task.next_call
        if operation.done():
            # Too late for the caller; but what it may have made must go.
            task.lost = task.lost or must_look_first(call, error)
            self._dismiss(task)
        elif must_look_first(call, error):
            task.lost = task.looking = True
            operation.note('lost', str(error))
            self._again(task, 0.0)
        elif may_repeat(call, error):
            self._again(task, self._pause_s(task, error))
        else:
            self._end(task, error=error)

    def _pause_s(self, task: Task, error: AmphoraComputeError) -> float:
        settings = self.settings
        pause_s = backoff_s(
            task.attempt, first_s=settings.first_delay_s, max_s=settings.max_delay_s, rng=self._rng
        )
        return max(pause_s, error.retry_after or 0.0)

    def _again(self, task: Task, pause_s: float) -> None:
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

    def _end(self, task: Task, *, result: Any = None, error: BaseException | None = None) -> None:
        """Give the outcome on the lane that brought it, unless the caller has one."""
        operation = task.operation
        failed = error is not None and operation.fail(task.verdict(error))
        told = failed or (error is None and operation.resolve(result))
        self._dismiss(task, unclaimed=None if told else result)

    def _settled(self, task: Task, _: Operation[Any]) -> None:
        """Let go of a task whose operation has its outcome, whoever gave it."""
        with self._lock:
            if task.queued:
                task.queued = False
                self._admission.withdraw()
            busy = task.on_lane
        # On a lane the task is dealt with there, once the backend lets it go.
        if not busy:
            self._dismiss(task)

    def _dismiss(self, task: Task, *, unclaimed: str | None = None) -> None:
        """Forget a task, but not what it may have built for nobody."""
        with self._lock:
            if task not in self._alive:
                return
            self._alive.discard(task)
            if task.expiry is not None:
                task.expiry.cancel()
        if task.call is Call.BUILD:
            failed = task.operation.exception() is not None
            if unclaimed is not None or (task.lost and failed):
                self.discard_build(task.args[0].build_key, unclaimed)
        with self._lock:
            self._idle.notify_all()

    # ---- deadlines -------------------------------------------------------------------

    def _expire(self, task: Task) -> None:
        """Tell the caller in time, whatever the backend does."""
        if not task.operation.done():
            task.operation.fail(task.verdict(task.overdue()))

    def _changed(self) -> None:
        if self._tell_queue is not None:
            self._tell_queue(self.name, self._admission.waiting, self._admission.running)


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
