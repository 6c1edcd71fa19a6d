"""Worker threads: each runs one task after another, up to a maximum number."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import logging
import operator
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

from kiln.clock import Clock, Deadline, deadline_scope
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Traffic
from kiln.fairness.turns import current_party
from kiln.foreign.waiting import Wait, noted_in
from kiln.wrappers.executor.attempts import CallPlan
from kiln.wrappers.executor.queue import Place, TrafficQueue
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.scheduler import Appointment, Scheduler

LOG = logging.getLogger(__name__)

#: Called with an operation and the answer of its call, if the answer is not its result.
Accepted = Callable[[Errand[Any], Any], None]
#: Held during the import of futurist, and by a thread that forks: the child of a fork
#: during an import would wait for the end of the import for ever.
IMPORTING = threading.Lock()
#: A call ends that much before its operation: seconds, and a share of what is left.
_EARLY_S = 0.3
_EARLY_SHARE = 0.05


class Task:
    """An operation with its plan, on its way through queue, threads and backend."""

    __slots__ = (
        '_release', 'accepted', 'context', 'deadline', 'ended', 'expiry', 'in_flight',
        'operation', 'oslo_context', 'party', 'place', 'plan', 'queued', 'wait',
    )  # fmt: skip

    def __init__(
        self,
        plan: CallPlan,
        release: Callable[[Task], object],
        *,
        context: contextvars.Context | None = None,
        accepted: Accepted | None = None,
    ) -> None:
        assert plan.operation.deadline is not None
        self._release = release
        self.plan = plan
        self.accepted = accepted
        self.operation = plan.operation
        self.deadline = plan.operation.deadline
        # Its calls run in the context of the caller that submitted it, or in this context.
        self.context = contextvars.copy_context() if context is None else context
        self.oslo_context = _current_oslo_context()
        self.party = self.context.run(current_party)
        self.expiry: Appointment | None = None
        # Its place in the queue, if it was taken from there too early.
        self.place: Place | None = None
        # Guarded by the workers' lock: True while it waits in the queue.
        self.queued = False
        self.wait = Wait()
        # Guarded by the executor's lock: true while the backend has it, and once its
        # operation has an outcome or continues without the executor.
        self.in_flight = False
        self.ended = False

    def __call__(self, _: Errand[Any]) -> None:
        """Release the task, as the callback of its operation."""
        self._release(self)

    def expire(self) -> None:
        """Fail at the deadline, whatever the backend does."""
        if not self.ended:
            self.operation.fail(self.plan.overdue(in_flight=self.in_flight))

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Make its next call in the context of the caller that submitted it."""
        return self.context.run(self._send, driver)

    def _send(self, driver: AmphoraComputeDriver) -> Any:
        before = _current_oslo_context()
        _store_oslo_context(self.oslo_context)
        try:
            with deadline_scope(self._for_the_call()), noted_in(self.wait):
                return self.plan.send(driver)
        finally:
            # If the pool has no threads, this thread is the caller's own.
            _store_oslo_context(before)

    def _for_the_call(self) -> Deadline:
        # A little earlier than its own, or its error, which names what is silent, would
        # come too late to be told.
        early_s = min(_EARLY_S, _EARLY_SHARE * self.deadline.remaining_s())
        return dataclasses.replace(self.deadline, at=self.deadline.at - max(0.0, early_s))


class Workers:
    """Runs the tasks of a queue on the threads of a pool.

    A thread is taken from the pool only for a task, and is returned when no other task
    can run. So no task ever waits in the pool's own queue, which supports neither
    priorities nor shutdown.
    """

    def __init__(
        self,
        name: str,
        settings: ExecutorSettings,
        *,
        pool: Any,
        clock: Clock,
        scheduler: Scheduler,
        work: Callable[[Task], None],
        changed: Callable[[], None],
    ) -> None:
        self._name = name
        self._settings = settings
        # If no pool is given, one is opened for the first task: a backend that is opened
        # but not used needs no threads.
        self._pool = self._given_pool = pool
        self._clock = clock
        self._scheduler = scheduler
        self._work = work
        # Called, without a lock held, after a new task or the release of a thread.
        self._changed = changed
        self._lock = threading.Lock()
        self._queue = self._empty_queue()
        self._threads: set[int] = set()

    @property
    def running(self) -> int:
        """Number of threads that have a task, including hanging threads."""
        return self._queue.running

    @property
    def here(self) -> bool:
        """True if the current thread is one of the workers."""
        return threading.get_ident() in self._threads

    def submit(self, task: Task, after_s: float = 0.0) -> None:
        """Run a task, after a pause, as soon as a thread is available."""
        if after_s > 0:
            self._scheduler.call_later(after_s, functools.partial(self.submit, task))
            return
        with self._lock:
            if task.ended:
                return
            task.place = self._queue.put(
                task.plan.call.traffic, task.operation.priority, task, task.place,
                party=task.party,
            )  # fmt: skip
            task.queued = True
            taken = self._take()
        if taken is not None:
            self._start(*taken)
        self._changed()

    def withdraw(self, task: Task) -> None:
        """Remove a task that has ended from the queue, if it is there."""
        with self._lock:
            if task.queued:
                task.queued = False
                self._queue.withdraw()

    def hold(self, task: Task, pause_s: float) -> None:
        """Return a task to its place, and let no task of its kind run for a while."""
        with self._lock:
            self._queue.hold(task.plan.call.traffic, self._clock.monotonic() + pause_s)
        self.submit(task)
        self._scheduler.call_later(pause_s, self._resume)

    def close(self) -> None:
        """End the pool; its idle threads at once, not at their next check.

        A hanging thread ends when its call returns. A pool that was passed in is not closed.
        """
        with self._lock:
            if self._pool is None or self._given_pool is not None:
                return
        gate = threading.Event()
        # Each idle thread takes one of these, and stops while it waits; otherwise the
        # threads of futurist would notice only after up to a second.
        with contextlib.suppress(RuntimeError):
            for _ in range(self._settings.max_workers - self.running):
                self._pool.submit(gate.wait)
        self._pool.shutdown(wait=False)
        gate.set()

    def disown(self) -> None:
        """Forget the threads and the queue in the child of a fork: they are the parent's."""
        self._lock = threading.Lock()
        self._pool = None
        self._queue = self._empty_queue()

    def _empty_queue(self) -> TrafficQueue[Task]:
        return TrafficQueue(
            threads=self._settings.max_workers,
            shares=self._settings.shares,
            wanted=operator.attrgetter('queued'),
        )

    def _take(self) -> tuple[Traffic, Task] | None:
        taken = self._queue.take(self._clock.monotonic())
        if taken is not None:
            taken[1].queued = False
        return taken

    def _start(self, traffic: Traffic, task: Task) -> None:
        try:
            if self._pool is None:
                with self._lock:
                    self._pool = self._pool or open_threads(self._name, self._settings.max_workers)
            self._pool.submit(self._run, traffic, task)
        except RuntimeError as exc:
            with self._lock:
                self._queue.give_back(traffic)
            if _is_ending(exc):
                task.operation.fail(task.plan.no_thread_error())
                return
            # The task gets another chance within its deadline.
            LOG.exception('Cannot start a thread for backend %s', self._name)
            self.submit(task, self._settings.first_delay_s)

    def _resume(self) -> None:
        while True:
            with self._lock:
                taken = self._take()
            if taken is None:
                return
            self._start(*taken)

    def _run(self, traffic: Traffic, task: Task) -> None:
        thread = threading.get_ident()
        # A pool without threads runs a task within a task.
        nested = thread in self._threads
        self._threads.add(thread)
        taken: tuple[Traffic, Task] | None = (traffic, task)
        while taken is not None:
            traffic, task = taken
            try:
                self._work(task)
            # A defect of kiln must neither end the thread of the pool, as SystemExit
            # would, nor leave the caller without a result.
            except BaseException as exc:
                LOG.exception('Operation %s failed within kiln', task.operation.id)
                task.operation.fail(task.plan.unexpected(exc))
            with self._lock:
                self._queue.give_back(traffic)
                taken = self._take()
            self._changed()
        if not nested:
            self._threads.discard(thread)


def _is_ending(error: RuntimeError) -> bool:
    """Return True if no thread can be started because the interpreter is ending."""
    # Non-daemon threads continue after the main thread. From then on Python permanently
    # refuses them the import of a pool, and later any new thread. Before Python 3.13 its
    # errors have no class of their own.
    return not threading.main_thread().is_alive() and 'shutdown' in str(error)


def open_threads(name: str, size: int) -> Any:
    """Return a futurist pool whose threads have names and do not delay the exit.

    futurist always joins its threads when the interpreter exits, so a hanging call would
    hang the exit too. It registers each thread for the join when it creates the thread, so
    this pool creates its threads itself, unregistered (decision 35).
    """
    # Only calls to a backend pay for the import of futurist, 10 to 15 ms that opening a
    # backend does not need. The import fails once the main thread has ended.
    with IMPORTING:
        import futurist
        from futurist import _thread

    class WorkQueue(queue.SimpleQueue[Any]):
        def task_done(self) -> None:
            """Nobody waits for the queue to be empty."""

    class WorkerThreads(futurist.ThreadPoolExecutor):
        def __init__(self, max_workers: int) -> None:
            super().__init__(max_workers)
            # futurist's queue is Python code: a signal handler that raises in the middle of
            # a put, as for Ctrl-C, would leave its lock held, and each thread would hang.
            self._work_queue = cast('queue.Queue[Any]', WorkQueue())

        def _add_thread(self) -> None:
            worker = _thread.ThreadWorker(self, self._work_queue)
            worker.name = f'{name}-lane-{len(self._workers) + 1}'
            self._workers.append(worker)
            worker.start()

    return WorkerThreads(max_workers=size)


def _current_oslo_context() -> Any:
    # A controller that has request contexts has imported the module; others do not need
    # to pay for it.
    module = sys.modules.get('oslo_context.context')
    return None if module is None else module.get_current()


def _store_oslo_context(context: Any) -> None:
    if context is not None:
        context.update_store()
    elif _current_oslo_context() is not None:
        # It cannot be unset, so an empty context replaces a foreign one.
        sys.modules['oslo_context.context'].RequestContext(overwrite=True)
