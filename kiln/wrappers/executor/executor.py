"""Executor: runs the calls of a backend on a few threads, so that no caller waits.

A futurist pool provides the threads (workers.py), and kiln itself chooses the next task
(queue.py). The *plan* of an operation decides what it sends, and whether it repeats
(attempts.py, build_attempts.py). Nothing sleeps on a worker: a task that waits for its next
attempt is held by the scheduler, and a task that waits for an earlier operation of its
build key is held in the queue of that key.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import logging
import random
import threading
from typing import Any

from kiln.clock import Deadline, current_deadline
from kiln.compute_drivers import validation
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    KilnError,
    OperationRejected,
    RateLimited,
)
from kiln.models import Amphora
from kiln.telemetry.events import Listener, guarded
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.executor.attempts import Again, Backoff, CallPlan, Done, Failed, Step
from kiln.wrappers.executor.build_attempts import BuildPlan, DiscardPlan, TwinPlan
from kiln.wrappers.executor.queue import PerKeyQueue
from kiln.wrappers.executor.resume import describe, restored_plan, unknown
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.executor.workers import Accepted, Task, Workers
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.caller_threads import CallerThreads
from kiln.wrappers.operations.errand import SILENT_S, Errand, no_answer_so_far
from kiln.wrappers.operations.operation import OperationState, Priority
from kiln.wrappers.operations.scheduler import Scheduler

LOG = logging.getLogger(__name__)

#: Seconds after which a full queue might have room.
FULL_S = 1.0


class ExecutorDriver(DriverWrapper):
    """Runs each call on the next free thread, and returns an Operation at once.

    As a plain driver its methods block until the operation is done. Close it before its
    scheduler, which times its retries and deadlines.
    """

    def __init__(
        self,
        inner: AmphoraComputeDriver,
        *,
        scheduler: Scheduler,
        settings: ExecutorSettings | None = None,
        listener: Listener | None = None,
        callers: CallerThreads | None = None,
        pool: Any = None,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(inner)
        self.settings: ExecutorSettings = settings or ExecutorSettings()
        self._scheduler = scheduler
        self._listener = guarded(listener)
        self._callers = callers
        self._backoff = Backoff(
            first_s=self.settings.first_delay_s,
            max_s=self.settings.max_delay_s,
            rng=rng or random.Random(),  # noqa: S311  # spreads retries, guards no secret
        )
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._turns: PerKeyQueue[Task] = PerKeyQueue()
        self._tasks: set[Task] = set()
        #: By party, the number of its tasks.
        self._counts: collections.Counter[str] = collections.Counter()
        self._discards: dict[str, Errand[Amphora | None]] = {}
        self._workers = Workers(
            self.name,
            self.settings,
            pool=pool,
            clock=self.clock,
            scheduler=scheduler,
            work=self._attempt,
            changed=self._changed,
        )
        # First no more calls are accepted; then no more threads are available.
        self._closed = self._stopped = False
        #: True if builds in flight are left under their keys on closing.
        self.keeps_builds = False

    @property
    def closed(self) -> bool:
        """True if it accepts no more calls."""
        return self._closed

    @property
    def idle(self) -> bool:
        """True if nothing is in progress, including background work."""
        return not self._tasks and not self._workers.running

    # ---- public calls ----------------------------------------------------------

    def submit(
        self,
        call: Call,
        *args: Any,
        timeout_s: float | None = None,
        priority: Priority = Priority.NORMAL,
        discards: bool = True,
        once: bool = False,
        build_key: BuildKey | None = None,
        operation: Errand[Any] | None = None,
        accepted: Accepted | None = None,
    ) -> Errand[Any]:
        """Send a call as soon as a thread is free; return its operation at once.

        The operation ends by its :meth:`deadline`, whatever the backend does. Without
        ``discards`` what a failed build might have made is left for its caller to find.
        With ``once`` the first error of a call is not followed by another attempt.
        ``build_key`` is the key of the request, if a larger operation has it too.

        If the answer is not the result of an ``operation``, ``accepted`` is called with
        both on the worker, and the executor no longer works on the operation.

        :raises OperationRejected: the queue is full, or this is closed.
        :raises CircuitOpenError: the circuit of such calls is open.
        :raises UnsupportedOperation: the driver lacks the ability.
        """
        validation.check_member('priority', priority, Priority)
        refused = self.inner.refusal(call)
        if refused is not None and not isinstance(refused, RateLimited):
            raise refused
        if operation is None:
            operation = Errand(
                call.label,
                backend=self.name,
                deadline=self.deadline(timeout_s),
                clock=self.clock,
                build_key=build_key,
                priority=priority,
                callers=self._callers,
            )
        describe(operation, args)
        plan: CallPlan
        if call is Call.BUILD:
            plan = BuildPlan(operation, args[0], self._backoff, discards=discards)
        else:
            # A check reports what is wrong now.
            asks_once = once or call is Call.CHECK
            plan = CallPlan(operation, call, args, self._backoff, once=asks_once)
        return self._admit(plan, accepted)

    def perform(self, call: Call, *args: Any) -> Any:
        if self._workers.here:
            # A worker that waits for another worker might wait for ever.
            return self.inner.perform(call, *args)
        operation = self.submit(call, *args)
        try:
            return operation.result()
        except BaseException:
            # An interrupted caller cannot cancel it later.
            operation.cancel()
            raise

    def discard_build(self, build_key: BuildKey, amphora_id: str | None) -> Errand[Amphora | None]:
        """Remove everything that a build might have left, however long it takes.

        Continues in the background for ``cleanup_timeout_s``; what is left then is logged
        with its key and found by the orphan sweep. A build of that key that is in progress
        ends first, and a later build runs after it.

        A machine that has run is not removed, and is the result, unless the key is private
        when the delete is sent.
        """
        running = self._discards.get(build_key.text)
        return running or self._discard(build_key, amphora_id)

    def recover(self, operation: Errand[Any], accepted: Accepted | None = None) -> Errand[Any]:
        """Resume an operation of another process, and return it.

        A build is looked up, never sent; a call that is safe to repeat is sent again; any
        other call fails with an unknown outcome. ``accepted`` is that of :meth:`submit`.

        :raises OperationRejected: the queue is full, or this is closed.
        """
        if operation.deadline is None:
            operation.deadline = Deadline.after(self.settings.timeout_s, self.clock)
        plan = restored_plan(operation, self._backoff, self.owner)
        if plan is None:
            operation.fail(unknown(operation))
            return operation
        if isinstance(plan, BuildPlan):
            operation.then(functools.partial(self._was_cancelled, plan))
        operation.enter(OperationState.WAITING)
        return self._admit(plan, accepted)

    def close(self, wait_s: float = 10.0, *, inner: bool = True) -> None:
        """Stop: cancel waiting operations, wait ``wait_s`` for running ones; safe to repeat.

        Builds leave nothing behind, unless :attr:`keeps_builds` is set before. Without
        ``inner`` the wrapped driver stays open.
        """
        with self._lock:
            first, self._closed = not self._closed, True
            waiting = [
                task
                for task in self._tasks
                if not task.in_flight and not task.plan.outlives_closing
            ]
        for task in waiting:
            self._call_off(task)
        # Real time: a closing process does not follow the clock of a test.
        deadline = Deadline.after(wait_s)
        with self._lock:
            while (self._tasks or self._workers.running) and not deadline.passed:
                self._idle.wait(max(0.0, deadline.remaining_s()))
            self._stopped = True
            left = list(self._tasks)
        for task in left:
            self._call_off(task)
        if first:
            self._workers.close()
            if inner:
                self.inner.close()

    def disown(self) -> list[Errand[Any]]:
        """Forget all work in the child of a fork, and return it; it is the parent's."""
        self._closed = self._stopped = True
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        tasks, self._tasks = self._tasks, set()
        self._counts.clear()
        self._turns, self._discards = PerKeyQueue(), {}
        self._workers.disown()
        return [task.operation for task in tasks]

    # ---- admission -------------------------------------------------------------

    def deadline(self, timeout_s: float | None) -> Deadline:
        """Return the earlier of ``timeout_s`` from now and the end of the enclosing scope."""
        outer = current_deadline()
        if timeout_s is None and outer is not None:
            return outer
        own = Deadline.after(
            self.settings.timeout_s if timeout_s is None else timeout_s, self.clock
        )
        return outer if outer is not None and outer.at < own.at else own

    def _admit(self, plan: CallPlan, accepted: Accepted | None) -> Errand[Any]:
        task = Task(plan, self._release, accepted=accepted)
        with self._lock:
            if self._closed:
                raise self._rejection(plan, 'kiln is closed')
            if self._full_for(task.party):
                raise self._rejection(plan, f'{self.settings.max_queue} operations wait')
            self._take_in(task)
            my_turn = plan.key is None or self._turns.join(plan.key, task)
        self._watch_over(task)
        if my_turn:
            self._workers.submit(task)
        else:
            plan.in_line = True
            plan.operation.note('waits', 'for an earlier build of its key to end')
        return plan.operation

    def _full_for(self, party: str) -> bool:
        """Return True if the queue is full, and not because of what other parties have there."""
        if len(self._tasks) - self._workers.running < self.settings.max_queue:
            return False
        return self._counts[party] >= self.settings.max_queue // max(1, len(self._counts))

    def _take_in(self, task: Task) -> None:
        self._tasks.add(task)
        self._counts[task.party] += 1

    def _watch_over(self, task: Task) -> None:
        """End a task at its deadline, and release it at its end."""
        task.expiry = self._scheduler.call_later(task.deadline.remaining_s(), task.expire)
        task.operation.then(task)

    def _rejection(self, plan: CallPlan, why: str) -> OperationRejected:
        return OperationRejected(
            f'{plan.about} on {self.name!r} now: {why}.',
            advice=Advice.GIVE_UP if self._closed else Advice.WAIT,
            retry_after=None if self._closed else FULL_S,
            **plan.facts,
        )

    # ---- on a worker -------------------------------------------------------------

    def _attempt(self, task: Task) -> None:
        plan, operation = task.plan, task.operation
        refused = self.inner.refusal(plan.call)
        if isinstance(refused, RateLimited):
            pause_s = refused.retry_after or self.settings.first_delay_s
            if pause_s < task.deadline.remaining_s():
                self._workers.hold(task, pause_s)
                return
        if task.deadline.passed:
            operation.fail(plan.overdue(in_flight=False))
            return
        # An operation that was cancelled in the queue is never sent, because its caller has
        # been notified so.
        if not operation.enter(OperationState.RUNNING):
            return
        with self._lock:
            if task.ended:
                return
            task.in_flight = True
            task.place = None
        silence = self._scheduler.call_later(SILENT_S, functools.partial(self._delayed, task))
        try:
            step = plan.answered(task.send(self.inner))
        except KilnError as exc:
            step = plan.failed(exc)
        # A defective driver can raise anything, SystemExit too.
        except BaseException as exc:
            step = plan.failed(plan.unexpected(exc))
        silence.cancel()
        with self._lock:
            task.in_flight = False
            ended = task.ended
        if ended:
            # Too late for the caller; but what it might have made must be removed.
            self._conclude(task)
        else:
            self._follow(task, step)

    def _follow(self, task: Task, step: Step) -> None:
        operation = task.operation
        match step:
            case Done(value):
                operation.hinder(None)
                if task.accepted is None:
                    operation.resolve(value)
                # If it was cancelled meanwhile, what it made is being removed.
                elif self._release(task):
                    task.accepted(operation, value)
            case Failed(error):
                operation.fail(error)
            case Again(pause_s, why):
                if self._closed and not task.plan.outlives_closing:
                    self._call_off(task)
                elif pause_s >= task.deadline.remaining_s():
                    operation.fail(task.plan.overdue(in_flight=False))
                elif operation.enter(OperationState.WAITING):
                    self._submit_later(task, pause_s, why)

    def _submit_later(self, task: Task, pause_s: float, why: str) -> None:
        if pause_s > 0:
            after = f' after: {why}' if why else ''
            task.operation.note('waits', f'{pause_s:.2f} s{after}')
        if why and (error := task.plan.last_error) is not None:
            self._delayed(task, error)
        self._workers.submit(task, pause_s)

    def _delayed(self, task: Task, error: BaseException | None = None) -> None:
        """Report an error before a repeat; without one, that the backend is silent."""
        if error is None:
            error = no_answer_so_far(self.name, task.plan.about, task.wait)
        task.operation.hinder(error)
        if self._listener is not None:
            self._listener.delayed(self.name, error)

    # ---- the end of a task ----------------------------------------------------------

    def _release(self, task: Task) -> bool:
        """Finish the work on a task; return False if it is finished already."""
        with self._lock:
            if task.ended:
                return False
            task.ended = True
            self._tasks.discard(task)
            self._counts[task.party] -= 1
            if not self._counts[task.party]:
                del self._counts[task.party]
            busy = task.in_flight
        self._workers.withdraw(task)
        if task.expiry is not None:
            task.expiry.cancel()
        if task.accepted is not None:
            # An operation can wait for hours, and must not hold its request that long.
            task.operation.forget(task)
        # A call in progress is handled when the backend returns.
        if not busy:
            self._conclude(task)
        self._changed()
        return True

    def _call_off(self, task: Task) -> None:
        if self.keeps_builds:
            task.plan.leave()
        else:
            task.plan.call_off()

    def _was_cancelled(self, plan: BuildPlan, operation: Errand[Any]) -> None:
        # A recovered build that was not found in time is left to the next recovery; but if
        # its caller cancels it, it is removed.
        plan.doubt = plan.doubt or (operation.cancelled() and not self._closed)

    def _conclude(self, task: Task) -> None:
        """Finish a task that no caller waits for and that is not at the backend."""
        plan, operation = task.plan, task.operation
        if plan.key is None:
            return
        failed = operation.done() and operation.exception() is not None
        if failed and plan.doubt and plan.discards:
            assert operation.key is not None
            self._discard(operation.key, operation.amphora_id, after=task)
            return
        if plan.resent:
            self._look_for_twin(plan.key)
        with self._lock:
            heir = self._turns.leave(plan.key, task)
        if heir is not None:
            heir.plan.in_line = False
            self._workers.submit(heir)

    def _cleanup(
        self,
        kind: str,
        subject: str,
        *,
        build_key: BuildKey | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> Errand[Any]:
        """Return an internal operation of the executor."""
        return Errand(
            kind,
            backend=self.name,
            subject=subject,
            deadline=Deadline.after(self.settings.cleanup_timeout_s, self.clock),
            clock=self.clock,
            build_key=build_key,
            priority=priority,
        )

    def _discard(
        self, build_key: BuildKey, amphora_id: str | None, *, after: Task | None = None
    ) -> Errand[Amphora | None]:
        """Remove a build in the queue of its key; directly ``after`` a failed task."""
        key = build_key.text
        operation = self._cleanup('discard', key, build_key=build_key, priority=Priority.HIGH)
        operation.amphora_id = amphora_id
        grace_s = self.settings.cleanup_grace_s
        plan = DiscardPlan(operation, grace_s=grace_s, backoff=self._backoff)
        # Not in the context of the caller, whose own deadline might have passed.
        task = Task(plan, self._release, context=contextvars.Context())
        with self._lock:
            self._discards[key] = operation
            self._take_in(task)
            if after is None:
                my_turn = self._turns.join(key, task)
            else:
                my_turn = self._turns.hand_over(key, after, task)
        operation.then(self._discarded)
        self._watch_over(task)
        if self._stopped:
            plan.call_off()
        elif my_turn:
            self._workers.submit(task)
        return operation

    def _discarded(self, operation: Errand[Amphora | None]) -> None:
        if self._discards.get(operation.subject) is operation:
            del self._discards[operation.subject]
        if (error := operation.exception()) is not None:
            LOG.error('%s', error)

    def _look_for_twin(self, build_key: str) -> None:
        grace_s = self.settings.cleanup_grace_s
        plan = TwinPlan(
            self._cleanup('find_build', build_key), grace_s=grace_s, backoff=self._backoff
        )
        task = Task(plan, self._release, context=contextvars.Context())
        with self._lock:
            if self._closed:
                return
            self._take_in(task)
        self._watch_over(task)
        self._submit_later(task, grace_s, 'it was sent twice')

    def _changed(self) -> None:
        if self._listener is not None:
            running = self._workers.running
            waiting = max(0, len(self._tasks) - running)
            self._listener.queue_changed(self.name, waiting, running)
        if self._closed:
            with self._lock:
                self._idle.notify_all()
