"""Calls on several threads at once, and forced switches within a driver's own code.

Threads that lack a lock meet by chance only. Here one thread stops at a chosen line, and the
other runs meanwhile, until it is done or waits for the first.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import Any, Generic, TypeVar

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.hooks import ComputeHooks
from kiln.telemetry.frames import current_frames

T = TypeVar('T')

#: Lines at which a call is stopped.
_MOST_LINES = 12
#: Real seconds after which a backend behind a network has shown enough, and the least lines.
_ENOUGH_S, _FEWEST_LINES = 1.0, 3
#: Real seconds between two polls of a thread, and polls in a row that find it waiting.
_STEP_S = 0.0005
_TASKS = '/proc/self/task'
_POLLS = 3 if os.path.isdir(_TASKS) else 40
#: Modules in which a thread waits for its backend, and not for the other thread.
_WAITING_FOR_BACKENDS = frozenset({'http', 'selectors', 'socket', 'ssl', 'subprocess', 'urllib3'})
_LONGEST_WAIT_S = 10.0
#: The kit itself, which can be beside the driver.
_KIT = __name__.rpartition('.')[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended(Generic[T]):
    """Result of a call, or its error."""

    result: T | None = None
    error: Exception | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meeting(Generic[T]):
    """Ends of two calls, the second made while the first was stopped at a line."""

    place: str
    first: Ended[T]
    second: Ended[T]
    #: True if the second call was seen to wait for a backend.
    is_remote: bool


def at_once(*actions: Callable[[], T]) -> list[T]:
    """Run all actions at the same time, each on its own thread; return their results."""
    barrier = threading.Barrier(len(actions))
    futures = [Future[T]() for _ in actions]

    def act(action: Callable[[], T], future: Future[T]) -> None:
        barrier.wait()
        try:
            future.set_result(action())
        # A wrong driver can raise anything.
        except BaseException as exc:
            future.set_exception(exc)

    for one in zip(actions, futures, strict=True):
        # Not of a pool: a process waits at its end for the threads of pools, and one can hang.
        threading.Thread(target=act, args=one, name='kit-at-once', daemon=True).start()
    return [future.result() for future in futures]


def meetings(
    prepare: Callable[[], tuple[Callable[[], T], Callable[[], T]]],
    driver: AmphoraComputeDriver,
    *,
    most: int = _MOST_LINES,
) -> Iterator[Meeting[T]]:
    """Let two calls meet again and again, each time at another line of the first.

    ``prepare`` returns the two calls of the next meeting. The lines are spread evenly.
    """
    packages = packages_of(driver)
    alone = _Stopped(prepare()[0], packages, at=None)
    alone.go_on()
    started = time.monotonic()
    for number, line in enumerate(_spread(alone.lines, most), start=1):
        meeting = _meet(*prepare(), packages, line)
        yield meeting
        # A driver in this process is tried at each line, however busy the machine.
        seconds = time.monotonic() - started
        if meeting.is_remote and number >= _FEWEST_LINES and seconds > _ENOUGH_S:
            return


def packages_of(driver: AmphoraComputeDriver) -> tuple[str, ...]:
    """Return the packages, or modules without a package, that have the code of a driver."""
    contract = {*AmphoraComputeDriver.__mro__, *ComputeHooks.__mro__}
    own = [one.__module__ for one in type(driver).__mro__ if one not in contract]
    return tuple(dict.fromkeys(name.rpartition('.')[0] or name for name in own))


def _meet(
    first: Callable[[], T], second: Callable[[], T], packages: Sequence[str], line: int
) -> Meeting[T]:
    stopped = _Stopped(first, packages, at=line)
    other = _Running(second)
    other.thread.start()
    is_remote = _wait_for(other.thread)
    stopped.go_on()
    other.thread.join()
    return Meeting(
        place=stopped.place, first=stopped.ended, second=other.ended, is_remote=is_remote
    )


class _Running(Generic[T]):
    """A call on a thread of its own."""

    ended: Ended[T]

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.ended = Ended(result=self._call())
        # A wrong driver can raise anything.
        except Exception as exc:
            self.ended = Ended(error=exc)


class _Stopped(_Running[T]):
    """A call on a thread that stops before a line, counted from 0; None never stops it."""

    def __init__(self, call: Callable[[], T], packages: Sequence[str], *, at: int | None) -> None:
        super().__init__(call)
        self.lines, self.place = 0, 'its end'
        self._at = at
        self._within = tuple(packages), tuple(f'{one}.' for one in packages)
        self._is_there, self._goes_on = threading.Event(), threading.Event()
        self.thread.start()
        self._is_there.wait()

    def go_on(self) -> None:
        """Let the call continue, and wait until it has ended."""
        self._goes_on.set()
        self.thread.join()

    def _run(self) -> None:
        sys.settrace(self._on_call)
        try:
            super()._run()
        finally:
            sys.settrace(None)
            self._is_there.set()

    def _on_call(self, frame: FrameType, event: str, _: Any) -> Any:
        module = str(frame.f_globals.get('__name__'))
        is_own = module in self._within[0] or module.startswith(self._within[1])
        return self._on_line if is_own and not module.startswith(_KIT) else None

    def _on_line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == 'line':
            if self.lines == self._at:
                name = os.path.basename(frame.f_code.co_filename)
                self.place = f'{name}, line {frame.f_lineno}'
                self._is_there.set()
                self._goes_on.wait()
            self.lines += 1
        return self._on_line


def _spread(count: int, most: int) -> list[int]:
    """Return the lines to stop at; the first few of them are spread, too."""
    most = min(count, most)
    lines = [round(one * (count - 1) / max(1, most - 1)) for one in range(most)]
    return [*lines[::4], *lines[2::4], *lines[1::2]]


def _wait_for(thread: threading.Thread) -> bool:
    """Wait until a thread is done, or waits for another; return True if a backend was slow."""
    polls, is_remote = 0, False
    give_up = time.monotonic() + _LONGEST_WAIT_S
    while thread.is_alive() and polls < _POLLS and time.monotonic() < give_up:
        thread.join(_STEP_S)
        waits_for_backend = _is_waiting_for_backend(thread)
        is_remote = is_remote or waits_for_backend
        polls = polls + 1 if not waits_for_backend and _is_asleep(thread) else 0
    return is_remote


def _is_waiting_for_backend(thread: threading.Thread) -> bool:
    frame = current_frames().get(thread.ident or 0)
    module = '' if frame is None else str(frame.f_globals.get('__name__'))
    return module.partition('.')[0] in _WAITING_FOR_BACKENDS


def _is_asleep(thread: threading.Thread) -> bool:
    """Return True if a thread sleeps, as far as can be seen."""
    try:
        with open(f'{_TASKS}/{thread.native_id}/stat', encoding='ascii') as stat:
            # The state follows the name of the thread, which can have spaces.
            return stat.read().rpartition(')')[2].split()[0] == 'S'
    except OSError:
        # Not Linux, or the thread has just ended.
        return True
