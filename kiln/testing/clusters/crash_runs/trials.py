"""Crash trials: operations whose processes crash, and their ends."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from kiln.db.store import Store
from kiln.testing.clusters.crash_runs.crashing_worker import CrashPoint, Moment, counted
from kiln.testing.clusters.crash_runs.fork_server import ForkLines
from kiln.testing.clusters.simulation.course import Course, Ending
from kiln.testing.clusters.simulation.operations import Row

UNDISTURBED = CrashPoint()
_EXPECTED = (0, -signal.SIGKILL, -signal.SIGSTOP)


class Trials:
    """Runs operations, with crashes, in subfolders of the folder of its site.

    Several threads can run disturbed operations whose undisturbed end is known.
    """

    def __init__(self, course: Course, lines: ForkLines) -> None:
        self._course = course
        self._lines = lines
        self._stages: dict[tuple[str, ...], tuple[Path, Ending]] = {}
        # Several threads can take the next one.
        self._numbers = itertools.count(1)

    def undisturbed(self, rows: Sequence[Row]) -> Ending:
        """Return the end of the last operation when nothing crashes."""
        return self._stage(rows)[1]

    def numbers(self, rows: Sequence[Row], moment: Moment, most: int | None = None) -> list[int]:
        """Return the numbers of a moment in the last operation when nothing crashes.

        :param most: How many of them, spread over the operation; None returns all.
        """
        folder, _ = self._stage(rows)
        return spread(counted(folder).get(moment, 0), most)

    def disturbed(self, rows: Sequence[Row], *points: CrashPoint) -> Ending:
        """Run some operations; the last one runs in processes with these crash points."""
        *before, row = rows
        folder = self.new(before)
        try:
            return self.go_on(folder, row, points)
        finally:
            shutil.rmtree(folder)

    def new(self, before: Sequence[Row] = ()) -> Path:
        """Return a new folder for a cluster, after some operations on it."""
        folder = self._course.site.folder / str(next(self._numbers))
        if before:
            shutil.copytree(self._stage(before)[0], folder)
        else:
            folder.mkdir()
        return folder

    def go_on(self, folder: Path, row: Row, points: Iterable[CrashPoint] = ()) -> Ending:
        """Run an operation on the cluster in a folder."""
        site = dataclasses.replace(self._course.site, folder=folder)
        course = dataclasses.replace(self._course, site=site)
        with course.site.open_store() as store:
            before = course.nodes(store)
            operation = course.ask(store, row)
            crashed = self._run(course, store, points)
            return course.ending(store, operation, before, crashed)

    def _run(self, course: Course, store: Store, points: Iterable[CrashPoint]) -> int:
        crashed, stopped = 0, []
        with self._lines.line() as line:
            # Until one comes to the end.
            for point in (*points, UNDISTURBED):
                pid, status = line.run(course.site, point)
                self._expect(status, point)
                crashed += status != 0
                if status == 0:
                    break
                if status == -signal.SIGKILL:
                    course.expire(store)
                else:
                    stopped.append(pid)
            # Stopped processes have not noticed the gap, and continue where they were.
            for pid in stopped:
                self._expect(line.wake(pid), UNDISTURBED)
        return crashed

    def _expect(self, status: int, point: CrashPoint) -> None:
        if status not in _EXPECTED:
            raise AssertionError(
                f'A process ({point}) ended with {status}: it failed or did not finish in time. '
                f'Its error is on stderr.'
            )

    def _stage(self, rows: Sequence[Row]) -> tuple[Path, Ending]:
        key = tuple(row.title for row in rows)
        if key not in self._stages:
            *before, row = rows
            folder = self.new(before)
            self._stages[key] = folder, self.go_on(folder, row)
        return self._stages[key]


def spread(count: int, most: int | None) -> list[int]:
    """Return numbers from 1 to a count: all, or at most so many, with 1 among them."""
    if most is None or most >= count:
        return list(range(1, count + 1))
    return [1 + index * count // most for index in range(most)]
