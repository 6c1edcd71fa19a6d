"""Runs the calls of a backend on a few threads, so that no caller ever waits.

A pool of futurist gives the threads (lane_threads.py). They serve as *lanes*
(lanes.py), and who gets one next is kiln's own choice (admission.py). What an
operation sends, and whether again, is for its *plan* to say (plan.py,
safe_build.py). Nothing sleeps in a lane: what has to wait for its next
attempt, or for its turn, waits with the scheduler or in line (turns.py).
"""

from __future__ import annotations

import contextvars
import functools
import logging
import random
import threading
from collections.abc import Callable
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
from kiln.listeners import Listener, guarded
from kiln.models import Amphora, BuildRequest
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.build_key import BuildKey
from kiln.wrappers.caller_threads import CallerThreads
from kiln.wrappers.errand import Errand
from kiln.wrappers.executor_settings import ExecutorSettings
from kiln.wrappers.lanes import Lanes, open_threads
from kiln.wrappers.operation import OperationState, Priority
from kiln.wrappers.plan import CallPlan, FunctionPlan
from kiln.wrappers.recovery import describe, plan_again, unknown
from kiln.wrappers.retry import Again, Backoff, Done, Failed, Step
from kiln.wrappers.safe_build import BuildPlan, DiscardPlan, TwinPlan
from kiln.wrappers.scheduler import Scheduler
from kiln.wrappers.task import Task
from kiln.wrappers.turns import Turns

LOG = logging.getLogger(__name__)

#: Seconds after which a queue that was full may have room.
FULL_S = 1.0


class ExecutorDriver(DriverWrapper):
    """Gives each call a thread when there is one, and an Operation at once.

    As a plain driver its methods block until the operation is done. Close it
    before its scheduler, which gives it the time of retries and deadlines.
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
        self.settings = settings or ExecutorSettings()
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
        self._turns: Turns[Task] = Turns()
        self._tasks: set[Task] = set()
        self._discards: dict[str, Errand[Amphora | None]] = {}
        self._own_pool = pool is None
        self._lanes = Lanes(
            self.name,
            functools.partial(open_threads, self.name, self.settings.max_workers)
            if pool is None
            else lambda: pool,
            self.settings,
            clock=self.clock,
            scheduler=scheduler,
            work=self._attempt,
            changed=self._changed,
        )
        # No more is taken from callers; then: no thread is left for anybody.
        self._closed = self._stopped = False
        #: Whether builds that have not ended are left under their keys at the end.
        self.keeps_builds = False

    @property
    def closed(self) -> bool:
        """Whether it takes no more work."""
        return self._closed

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, in the background neither."""
        return not self._tasks and not self._lanes.running

    # ---- to be called --------------------------------------------------------

    def submit(
        self,
        call: Call,
        *args: Any,
        timeout_s: float | None = None,
        priority: Priority = Priority.NORMAL,
        discards: bool = True,
        build_key: BuildKey | None = None,
    ) -> Errand[Any]:
        """Have a call made; return at once.

        The operation ends by its deadline, whatever the backend does:
        ``timeout_s`` from now, or that of the scope it is called in. Without
        ``discards`` what a build may have made in vain is left for its caller to find.
        ``build_key`` is that of the request, where a larger operation has it too.

        :raises OperationRejected: the queue is full, or this is closed.
        :raises CircuitOpenError: the circuit of such calls is open.
        :raises UnsupportedOperation: the driver lacks the ability.
        """
        validation.check_member('priority', priority, Priority)
        refused = self.inner.refusal(call)
        if refused is not None and not isinstance(refused, RateLimited):
            raise refused
        deadline = self._deadline(timeout_s)
        operation: Errand[Any] = Errand(
            call.label,
            backend=self.name,
            deadline=deadline,
            clock=self.clock,
            build_key=build_key,
            priority=priority,
            callers=self._callers,
        )
        describe(operation, args)
        plan: CallPlan
        if call is Call.BUILD:
            request: BuildRequest = args[0]
            plan = BuildPlan(
                operation, request.build_key, request, self._backoff, discards=discards
            )
        else:
            plan = CallPlan(operation, call, args, self._backoff)
        key = operation.key
        return self._admit(Task(self, operation, plan, deadline, key=key.text if key else None))

    def run(
        self,
        function: Callable[[], Any],
        *,
        timeout_s: float | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> Errand[Any]:
        """Run a function on a thread of the pool, as reads run; its errors pass as they are.

        :raises OperationRejected: the queue is full, or this is closed.
        """
        validation.check_member('priority', priority, Priority)
        deadline = self._deadline(timeout_s)
        operation: Errand[Any] = Errand(
            'run', backend=self.name, deadline=deadline, clock=self.clock, priority=priority
        )
        return self._admit(
            Task(self, operation, FunctionPlan(operation, function, self._backoff), deadline)
        )

    def perform(self, call: Call, *args: Any) -> Any:
        """Have a call made, and wait for it: the face of a plain driver."""
        if self._lanes.here:
            # A thread that waits for threads like itself may wait for ever.
            return self.inner.perform(call, *args)
        operation = self.submit(call, *args)
        try:
            return operation.result()
        except BaseException:
            # Whoever is interrupted has no way to ask for it any more.
            operation.cancel()
            raise

    def discard_build(self, build_key: BuildKey, amphora_id: str | None) -> Errand[Amphora | None]:
        """See to it that nothing of a build is left, however long it takes.

        Goes on in the background for ``cleanup_timeout_s``; what is left then
        is logged with its key and found by the orphan sweep. A build of that
        key that is under way ends first, one asked for later comes after.

        A machine that has run is not removed, and is the result, unless the key is
        private when the delete is sent.
        """
        running = self._discards.get(build_key.text)
        return running or self._discard(build_key, amphora_id)

    def take_up(self, operation: Errand[Any]) -> Errand[Any]:
        """Go on with an operation of another process, which is returned.

        A build is looked for, never sent; what may be repeated is sent again;
        of anything else the outcome is said to be unknown.

        :raises OperationRejected: the queue is full, or this is closed.
        """
        if operation.deadline is None:
            operation.deadline = Deadline.after(self.settings.timeout_s, self.clock)
        plan = plan_again(operation, self._backoff, self.owner)
        if plan is None:
            operation.fail(unknown(operation))
            return operation
        key = None
        if isinstance(plan, BuildPlan):
            key = operation.key.text if operation.key else None
            operation.then(functools.partial(self._called_off, plan))
        operation.enter(OperationState.WAITING)
        return self._admit(Task(self, operation, plan, operation.deadline, key=key))

    def close(self, wait_s: float = 10.0, *, inner: bool = True) -> None:
        """Stop: what waits is cancelled, what runs gets ``wait_s``; safe to repeat.

        Builds leave nothing behind, unless :attr:`keeps_builds` is set before. Without
        ``inner`` the wrapped driver stays open.
        """
        with self._lock:
            first, self._closed = not self._closed, True
            waiting = [task for task in self._tasks if not task.in_flight]
        for task in waiting:
            if not task.plan.outlives_closing:
                self._call_off(task)
        # Real time: a closing process does not live by a test's clock.
        deadline = Deadline.after(wait_s)
        with self._idle:
            while (self._tasks or self._lanes.running) and not deadline.passed:
                self._idle.wait(max(0.0, deadline.remaining_s()))
            self._stopped = True
            left = list(self._tasks)
        for task in left:
            self._call_off(task)
        if first:
            if self._own_pool:
                self._lanes.close()
            if inner:
                self.inner.close()

    def disown(self) -> list[Errand[Any]]:
        """Forget all work in the child of a fork, where it is the parent's; return it."""
        self._closed = self._stopped = True
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        tasks, self._tasks = self._tasks, set()
        self._turns, self._discards = Turns(), {}
        self._lanes.disown()
        return [task.operation for task in tasks]

    # ---- admission -------------------------------------------------------------

    def _deadline(self, timeout_s: float | None) -> Deadline:
        outer = current_deadline()
        if timeout_s is None and outer is not None:
            return outer
        own = Deadline.after(
            self.settings.timeout_s if timeout_s is None else timeout_s, self.clock
        )
        return outer if outer is not None and outer.at < own.at else own

    def _admit(self, task: Task) -> Errand[Any]:
        with self._lock:
            if self._closed:
                raise self._rejection(task, 'kiln is closed')
            if len(self._tasks) - self._lanes.running >= self.settings.max_queue:
                raise self._rejection(task, f'{self.settings.max_queue} operations wait')
            self._tasks.add(task)
            my_turn = task.key is None or self._turns.join(task.key, task)
        self._enlist(task)
        if my_turn:
            self._lanes.queue(task)
        else:
            task.plan.in_line = True
            task.operation.note('waits', 'for an earlier build of its key to end')
        return task.operation

    def _enlist(self, task: Task) -> None:
        task.expiry = self._scheduler.call_later(task.deadline.remaining_s(), task.expire)
        task.operation.then(task.settled)

    def _rejection(self, task: Task, why: str) -> OperationRejected:
        return OperationRejected(
            f'{task.plan.about} on {self.name!r} now: {why}.',
            advice=Advice.GIVE_UP if self._closed else Advice.WAIT,
            retry_after=None if self._closed else FULL_S,
            **task.plan.facts,
        )

    # ---- on a lane ---------------------------------------------------------------

    def _attempt(self, task: Task) -> None:
        plan, operation = task.plan, task.operation
        refused = plan.refusal(self.inner)
        if isinstance(refused, RateLimited) and self._hold(task, refused):
            return
        if task.deadline.passed:
            operation.fail(plan.overdue(in_flight=False))
            return
        # One that was cancelled in the queue is never sent: its caller has
        # been told so.
        if not operation.enter(OperationState.RUNNING):
            return
        with self._lock:
            if task.ended:
                return
            task.in_flight = True
            task.order = None
        try:
            step = plan.answered(task.send(self.inner))
        except KilnError as exc:
            step = plan.failed(exc)
        # Probes may raise anything; so may a driver's defects, SystemExit too.
        except BaseException as exc:
            step = plan.failed(plan.unforeseen(exc))
        with self._lock:
            task.in_flight = False
            ended = task.ended
        if ended:
            # Too late for the caller; but what it may have made must go.
            self._conclude(task)
        else:
            self._follow(task, step)

    def _hold(self, task: Task, refused: RateLimited) -> bool:
        """Put a task back in its place until the backend's rate allows more."""
        pause_s = refused.retry_after or self.settings.first_delay_s
        if pause_s >= task.deadline.remaining_s():
            return False
        self._lanes.hold(task, pause_s)
        return True

    def _follow(self, task: Task, step: Step) -> None:
        operation = task.operation
        match step:
            case Done(value):
                operation.resolve(value)
            case Failed(error):
                operation.fail(error)
            case Again(pause_s, why):
                if self._closed and not task.plan.outlives_closing:
                    self._call_off(task)
                elif pause_s >= task.deadline.remaining_s():
                    operation.fail(task.plan.overdue(in_flight=False))
                elif operation.enter(OperationState.WAITING):
                    self._later(task, pause_s, why)

    def _later(self, task: Task, pause_s: float, why: str) -> None:
        if pause_s <= 0:
            self._lanes.queue(task)
            return
        task.operation.note(
            'waits', f'{pause_s:.2f} s after: {why}' if why else f'{pause_s:.2f} s'
        )
        self._scheduler.call_later(pause_s, functools.partial(self._lanes.queue, task))

    # ---- the end of a task ----------------------------------------------------------

    def expire(self, task: Task) -> None:
        """Tell the caller in time, whatever the backend does."""
        if not task.ended:
            task.operation.fail(task.plan.overdue(in_flight=task.in_flight))

    def settled(self, task: Task) -> None:
        """Let go of a task whose operation has its outcome, whoever gave it."""
        with self._lock:
            task.ended = True
            self._tasks.discard(task)
            busy = task.in_flight
        self._lanes.withdraw(task)
        if task.expiry is not None:
            task.expiry.cancel()
        # What the backend has is dealt with when it lets it go.
        if not busy:
            self._conclude(task)
        self._changed()

    def _call_off(self, task: Task) -> None:
        if self.keeps_builds and isinstance(task.plan, BuildPlan):
            task.plan.leave()
        else:
            task.plan.call_off()

    def _called_off(self, plan: BuildPlan, operation: Errand[Any]) -> None:
        # Not found in time, a recovered build is left to whoever recovers it
        # next; but who cancels it wants nothing of it.
        plan.doubt = plan.doubt or (operation.cancelled() and not self._closed)

    def _conclude(self, task: Task) -> None:
        """Part with a task that is neither anybody's nor in the backend any more."""
        heir = None
        if task.key is not None:
            plan = task.plan
            if plan.doubt and plan.discards and task.operation.exception() is not None:
                build_key = task.operation.key
                assert build_key is not None
                self._discard(build_key, task.operation.amphora_id, after=task)
            else:
                if isinstance(task.plan, BuildPlan) and task.plan.resent:
                    self._look_for_twin(task.key)
                with self._lock:
                    heir = self._turns.leave(task.key, task)
        if heir is not None:
            heir.plan.in_line = False
            self._lanes.queue(heir)

    def _discard(
        self,
        build_key: BuildKey,
        amphora_id: str | None,
        *,
        after: Task | None = None,
    ) -> Errand[Amphora | None]:
        """Remove a build when its turn comes; ``after`` a failed one, before any other."""
        operation: Errand[Amphora | None] = Errand(
            'discard',
            backend=self.name,
            subject=build_key.text,
            deadline=Deadline.after(self.settings.cleanup_timeout_s, self.clock),
            clock=self.clock,
            build_key=build_key,
            priority=Priority.HIGH,
        )
        operation.amphora_id = amphora_id
        plan = DiscardPlan(
            operation,
            build_key,
            grace_s=self.settings.cleanup_grace_s,
            backoff=self._backoff,
        )
        assert operation.deadline is not None
        # Not in the context of the caller, whose own deadline may be over.
        key = build_key.text
        task = Task(
            self, operation, plan, operation.deadline, key=key, context=contextvars.Context()
        )
        with self._lock:
            self._discards[key] = operation
            self._tasks.add(task)
            if after is None:
                my_turn = self._turns.join(key, task)
            else:
                my_turn = self._turns.hand_over(key, after, task)
        operation.then(self._discarded)
        self._enlist(task)
        if self._stopped:
            plan.call_off()
        elif my_turn:
            self._lanes.queue(task)
        return operation

    def _look_for_twin(self, build_key: str) -> None:
        deadline = Deadline.after(self.settings.cleanup_timeout_s, self.clock)
        operation: Errand[None] = Errand(
            'find_build',
            backend=self.name,
            subject=build_key,
            deadline=deadline,
            clock=self.clock,
        )
        grace_s = self.settings.cleanup_grace_s
        plan = TwinPlan(operation, build_key, grace_s=grace_s, backoff=self._backoff)
        task = Task(self, operation, plan, deadline, context=contextvars.Context())
        with self._lock:
            if self._closed:
                return
            self._tasks.add(task)
        self._enlist(task)
        self._later(task, grace_s, 'it was sent twice')

    def _discarded(self, operation: Errand[Amphora | None]) -> None:
        if self._discards.get(operation.subject) is operation:
            del self._discards[operation.subject]
        if (error := operation.exception()) is not None:
            LOG.error('%s', error)

    def _changed(self) -> None:
        if self._listener is not None:
            running = self._lanes.running
            waiting = max(0, len(self._tasks) - running)
            self._listener.queue_changed(self.name, waiting, running)
        if self._closed:
            with self._lock:
                self._idle.notify_all()
