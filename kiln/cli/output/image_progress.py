"""Progress of an image build: drawn on a terminal, else printed line by line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from kiln.cli.output.visible_stream import drawn_on
from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.images.building.builder import Report
from kiln.images.building.progress import Progress, Stage

if TYPE_CHECKING:
    from rich.text import Text

    from kiln.cli.app import KilnApp

_BAR = 30
#: Seconds between two lines of JSON about one stage.
_PACE_S = 1.0


@contextlib.contextmanager
def screen(app: KilnApp, name: str, formatter: str) -> Iterator[Report]:
    """Show the progress: as JSON lines on stdout, or as text on stderr."""
    if formatter == 'json':
        yield JsonLines(name, app.stdout)
    elif not app.options.verbose_level:
        yield lambda progress: None
    elif not app.stderr.isatty():
        yield Lines(name, app.stderr)
    else:
        from rich.console import Console
        from rich.live import Live

        drawn = Drawn(name)
        # The drawing is erased before the result is printed.
        with Live(
            drawn,
            console=Console(file=drawn_on(app.stderr)),
            refresh_per_second=10,
            redirect_stdout=False,
            transient=True,
        ):
            yield drawn.show


class Lines:
    """Prints a line for each stage, and another when its total is known."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._told: set[tuple[Stage, int]] = set()

    def __call__(self, progress: Progress) -> None:
        key = (progress.stage, progress.total)
        if key not in self._told and not progress.done:
            self._stream.write(f'{self._name}: {said(progress)}\n')
            self._stream.flush()
        self._told.add(key)


class JsonLines:
    """Prints a JSON object for each stage and for each second of it."""

    def __init__(self, name: str, stream: TextIO, clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = name
        self._stream = stream
        self._clock = clock
        self._began = clock.monotonic()
        self._next = 0.0
        self._stage: Stage | None = None

    def __call__(self, progress: Progress) -> None:
        now = self._clock.monotonic()
        if progress.stage is self._stage and now < self._next:
            return
        self._stage, self._next = progress.stage, now + _PACE_S
        value: dict[str, Any] = {
            'image': self._name,
            'stage': progress.stage.value,
            'done': progress.done,
            'total': progress.total,
            'subject': progress.subject,
            'elapsed_s': round(now - self._began, 1),
        }
        self._stream.write(f'{json.dumps(value)}\n')
        self._stream.flush()


class Drawn:
    """Draws a line with a bar."""

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = name
        self._clock = clock
        self._began = clock.monotonic()
        self._progress = Progress(Stage.ASKING)

    def show(self, progress: Progress) -> None:
        """Set the progress for the next drawing."""
        self._progress = progress

    def __rich__(self) -> Text:
        from rich.text import Text

        progress = self._progress
        text = Text(no_wrap=True, overflow='ellipsis')
        text.append(f'{self._name}  ', style='bold')
        text.append(f'{progress.stage.value:<12}', style='cyan')
        if progress.total:
            full = _BAR * progress.done // progress.total
            text.append('━' * full, style='green')
            text.append('━' * (_BAR - full), style='bright_black')
            text.append(f'  {progress.done}/{progress.total}')
        text.append(f'  {self._clock.monotonic() - self._began:.0f} s', style='bright_black')
        text.append(f'  {progress.subject}', style='bright_black')
        return text


def said(progress: Progress) -> str:
    """Return the progress in words."""
    words = {
        Stage.WAITING: 'waiting for another process that builds it',
        Stage.ASKING: 'reading the archives',
        Stage.IMPORTING: f'importing into {progress.subject}',
    }
    counted = f' ({progress.total} steps)' if progress.total else ''
    return words.get(progress.stage, f'{progress.stage.value}{counted}')
