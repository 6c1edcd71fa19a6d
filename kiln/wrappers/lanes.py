"""Threads that take one task after the other, as many as may run at once."""

from __future__ import annotations

import contextlib
import functools
import logging
import operator
import threading
from collections.abc import Callable
from typing import Any

from kiln.clock import Clock
from kiln.compute_drivers.calls import Traffic
from kiln.wrappers.admission import Admission
from kiln.wrappers.executor_settings import ExecutorSettings
from kiln.wrappers.scheduler import Scheduler
from kiln.wrappers.task import Task

LOG = logging.getLogger(__name__)

#: Held during the import of futurist, and by who forks: the child of a fork in the
#: middle of an import would wait for its end for ever.
IMPORTING = threading.Lock()


class Lanes:
    """Works off a queue on the threads of a pool.

    A lane is given to the pool only when it has a task, and it returns its
    thread when there is none left that may go: so nothing ever waits in the
    pool's own queue, which knows neither priorities nor how to shut down.
    """

    def __init__(
        self,
        name: str,
        open_pool: Callable[[], Any],
        settings: ExecutorSettings,
        *,
        clock: Clock,
        scheduler: Scheduler,
        work: Callable[[Task], None],
        changed: Callable[[], None],
    ) -> None:
        self._name = name
        # Opened for the first task: who only opens a backend needs no threads.
        self._open_pool = open_pool
        self._pool: Any = None
        self._settings = settings
        self._clock = clock
        self._scheduler = scheduler
        self._work = work
        # Called, without a lock held, when a task came or a lane got free.
        self._changed = changed
        self._lock = threading.Lock()
        self._admission = self._nobody_waits()
        self._threads: set[int] = set()

    @property
    def running(self) -> int:
        """How many lanes have a task, hung ones included."""
        return self._admission.running

    @property
    def waiting(self) -> int:
        """How many tasks wait for a lane."""
        return self._admission.waiting

    @property
    def here(self) -> bool:
        """Whether the current thread is one of the lanes."""
        return threading.get_ident() in self._threads

    def queue(self, task: Task) -> None:
        """Have a task worked on as soon as it may be."""
        with self._lock:
            if task.ended:
                return
            task.order = self._admission.put(
                task.traffic, task.operation.priority, task, task.order
            )
            task.queued = True
            taken = self._take()
        if taken is not None:
            self._start(*taken)
        self._changed()

    def withdraw(self, task: Task) -> None:
        """Take a task that has ended out of the queue, if it is there."""
        with self._lock:
            if task.queued:
                task.queued = False
                self._admission.withdraw()

    def hold(self, task: Task, pause_s: float) -> None:
        """Put a task back in its place, and let none of its kind go for a while."""
        with self._lock:
            self._admission.hold(task.traffic, self._clock.monotonic() + pause_s)
        self.queue(task)
        self._scheduler.call_later(pause_s, self._resume)

    def close(self) -> None:
        """End the pool; its idle threads at once, not when they happen to look.

        A lane that hangs ends when the backend lets it go.
        """
        with self._lock:
            if self._pool is None:
                return
        gate = threading.Event()
        # Each idle thread takes one of these, and is told to stop while it
        # waits; otherwise futurist's would notice only after up to a second.
        with contextlib.suppress(RuntimeError):
            for _ in range(self._settings.max_workers - self.running):
                self._pool.submit(gate.wait)
        self._pool.shutdown(wait=False)
        gate.set()

    def disown(self) -> None:
        """Forget the threads and the queue in the child of a fork: they are the parent's."""
        self._lock = threading.Lock()
        self._pool = None
        self._admission = self._nobody_waits()

    def _nobody_waits(self) -> Admission[Task]:
        return Admission(
            lanes=self._settings.max_workers,
            shares=self._settings.shares,
            wanted=operator.attrgetter('queued'),
        )

    def _take(self) -> tuple[Traffic, Task] | None:
        taken = self._admission.take(self._clock.monotonic())
        if taken is not None:
            taken[1].queued = False
        return taken

    def _start(self, traffic: Traffic, task: Task) -> None:
        try:
            if self._pool is None:
                with self._lock:
                    self._pool = self._pool or self._open_pool()
            self._pool.submit(self._run, traffic, task)
        except RuntimeError as exc:
            with self._lock:
                self._admission.give_back(traffic)
            if _is_ending(exc):
                task.operation.fail(task.plan.threadless())
                return
            # The task gets a later chance within its deadline.
            LOG.exception('Cannot start a thread for backend %s', self._name)
            self._scheduler.call_later(
                self._settings.first_delay_s, functools.partial(self.queue, task)
            )

    def _resume(self) -> None:
        while True:
            with self._lock:
                taken = self._take()
            if taken is None:
                return
            self._start(*taken)

    def _run(self, traffic: Traffic, task: Task) -> None:
        thread = threading.get_ident()
        # A pool without threads runs a lane within a lane.
        nested = thread in self._threads
        self._threads.add(thread)
        taken: tuple[Traffic, Task] | None = (traffic, task)
        while taken is not None:
            traffic, task = taken
            try:
                self._work(task)
            # A defect of ours must cost neither the pool its thread, as
            # SystemExit would, nor the caller his answer.
            except BaseException as exc:
                LOG.exception('Operation %s failed within kiln', task.operation.id)
                task.operation.fail(task.plan.unforeseen(exc))
            with self._lock:
                self._admission.give_back(traffic)
                taken = self._take()
            self._changed()
        if not nested:
            self._threads.discard(thread)


def _is_ending(error: RuntimeError) -> bool:
    """Return True if no thread can be started because the interpreter is ending."""
    # Threads that are not daemons go on after the main one. What Python refuses them then
    # it refuses for good: the import of a pool, and later any new thread. Its errors have
    # no class of their own before Python 3.13.
    return not threading.main_thread().is_alive() and 'shutdown' in str(error)


def open_threads(name: str, size: int) -> Any:
    """Return a pool for the lanes of a backend."""
    # Only callers of a backend pay for the import of futurist, 10 to 15 ms that opening one
    # does not have. It fails once the main thread has ended.
    with IMPORTING:
        from kiln.wrappers.lane_threads import LaneThreads

    return LaneThreads(name, size)
