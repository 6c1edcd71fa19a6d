"""Crashes: an operation is begun, its processes are struck, and its end is compared."""

from __future__ import annotations

import dataclasses
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from kiln.testing.clusters.course import Course, Ending, opened
from kiln.testing.clusters.mortal import Fate
from kiln.testing.clusters.nursery import Nursery
from kiln.testing.clusters.operations import Row

UNDISTURBED = Fate()
_EXPECTED = (0, -signal.SIGKILL, -signal.SIGSTOP)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """How an operation ended."""

    ending: Ending
    #: How many of its processes were struck, and did not end by themselves before.
    struck: int


class Trials:
    """Has operations done under trouble, in folders below one of its own."""

    def __init__(self, course: Course, nursery: Nursery) -> None:
        self._course = course
        self._nursery = nursery
        self._folder = course.site.folder
        self._stages: dict[tuple[str, ...], tuple[Path, Ending]] = {}
        self._made = 0

    def undisturbed(self, rows: Sequence[Row]) -> Ending:
        """Return how the last of some operations ends where nothing goes wrong."""
        return self._stage(rows)[1]

    def disturbed(self, rows: Sequence[Row], *fates: Fate) -> Trial:
        """Have some operations done, the last of them by processes of these fates."""
        *before, row = rows
        folder = self._copy(self._stage(before)[0] if before else None)
        try:
            return self.go_on(folder, row, fates)
        finally:
            shutil.rmtree(folder)

    def new(self) -> Path:
        """Return a new folder, for a cluster that is to be."""
        return self._copy(None)

    def go_on(self, folder: Path, row: Row, fates: Iterable[Fate] = ()) -> Trial:
        """Have an operation done to what there is in a folder."""
        course = dataclasses.replace(self._course, site=self._course.site.at(folder))
        with opened(course.site) as store:
            before = course.nodes(store)
            operation = course.ask(store, row)
        struck = self._live(course, fates)
        with opened(course.site) as store:
            return Trial(ending=course.ending(store, operation, before), struck=struck)

    def _live(self, course: Course, fates: Iterable[Fate]) -> int:
        struck, asleep = 0, []
        for fate in (*fates, UNDISTURBED):
            pid, status = self._nursery.live(course.site, fate)
            self._expect(status, fate)
            struck += status != 0
            if status == -signal.SIGSTOP:
                asleep.append(pid)
        # They believe that nothing has happened, and go on where they were.
        for pid in asleep:
            self._expect(self._nursery.wake(pid), UNDISTURBED)
        return struck

    def _expect(self, status: int, fate: Fate) -> None:
        if status not in _EXPECTED:
            raise AssertionError(
                f'A process ({fate}) ended with {status}: it could not finish, or failed. '
                f'Its last words are on stderr.'
            )

    def _stage(self, rows: Sequence[Row]) -> tuple[Path, Ending]:
        key = tuple(row.title for row in rows)
        if key not in self._stages:
            *before, row = rows
            folder = self._copy(self._stage(before)[0] if before else None)
            self._stages[key] = folder, self.go_on(folder, row).ending
        return self._stages[key]

    def _copy(self, folder: Path | None) -> Path:
        self._made += 1
        copy = self._folder / str(self._made)
        if folder is None:
            copy.mkdir()
        else:
            shutil.copytree(folder, copy)
        return copy
