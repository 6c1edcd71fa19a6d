"""Build progress, parsed from the output of mmdebstrap; no I/O."""

from __future__ import annotations

import dataclasses
import enum
import re


class Stage(enum.StrEnum):
    """Stages of a build, in order."""

    #: Another process builds the same image.
    WAITING = 'waiting'
    ASKING = 'asking'
    DOWNLOADING = 'downloading'
    UNPACKING = 'unpacking'
    INSTALLING = 'installing'
    FINISHING = 'finishing'
    PACKING = 'packing'
    #: A backend imports the image.
    IMPORTING = 'importing'


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a build."""

    stage: Stage
    #: Completed steps of the stage, and their total; 0 if unknown.
    done: int = 0
    total: int = 0
    #: The current package, to show to users.
    subject: str = ''


_STAGES = (
    ('running apt-get update', Stage.ASKING),
    ('downloading packages', Stage.DOWNLOADING),
    ('extracting archives', Stage.UNPACKING),
    ('installing essential packages', Stage.INSTALLING),
    ('installing remaining packages', Stage.INSTALLING),
    ('running --customize-hook', Stage.FINISHING),
    ('running --extract-hook', Stage.FINISHING),
    ('creating tarball', Stage.PACKING),
)
_NEW = re.compile(r'\d+ upgraded, (\d+) newly installed')
_GET = re.compile(r'Get:\d+ \S+ \S+ \S+ (\S+)')
_SET_UP = re.compile(r'Setting up ([^\s:]+)')
_UNPACK = re.compile(r'Unpacking ([^\s:]+)')


class Course:
    """Parses the output of one build, line by line."""

    def __init__(self) -> None:
        self._now = Progress(Stage.ASKING)
        self._total = 0

    def read(self, line: str) -> Progress | None:
        """Return the progress if a line changes it, else None."""
        before = self._now
        if line.startswith('I: '):
            self._begin(line[3:])
        elif found := _NEW.match(line):
            # Each package is downloaded, unpacked and set up.
            factor = 1 if before.stage is Stage.DOWNLOADING else 2
            self._total = factor * int(found[1])
            self._now = dataclasses.replace(before, done=0, total=self._total)
        elif before.stage is Stage.DOWNLOADING and (found := _GET.match(line)):
            self._step(found[1])
        elif before.stage is Stage.INSTALLING:
            if found := _GET.match(line):
                self._now = dataclasses.replace(before, subject=f'fetching {found[1]}')
            elif found := _UNPACK.match(line) or _SET_UP.match(line):
                self._step(found[1])
        return None if self._now == before else self._now

    def _begin(self, text: str) -> None:
        for words, stage in _STAGES:
            if text.startswith(words):
                if stage is not self._now.stage or stage is Stage.INSTALLING:
                    self._now = Progress(stage)
                return

    def _step(self, subject: str) -> None:
        # Packages can trigger more steps than were announced.
        done = self._now.done + 1
        total = self._now.total and max(self._now.total, done)
        self._now = dataclasses.replace(self._now, done=done, total=total, subject=subject)
