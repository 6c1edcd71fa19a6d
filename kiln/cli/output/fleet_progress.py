"""Progress of commands on several amphorae: live on a terminal, else line by line."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from kiln.cli.output.visible_stream import drawn_on

if TYPE_CHECKING:
    from kiln.cli.app import KilnApp

_COLOURS = {
    'queued': 'bright_black',
    'building': 'yellow',
    'active': 'green',
    'suspended': 'blue',
    'failed': 'red',
    'gone': 'bright_black',
}
#: A larger fleet is shown only by its counts.
_MAX_SQUARES = 400


class Tally:
    """Counts amphorae by state; shows nothing. Thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._states: dict[str, str] = {}
        self._ended: set[str] = set()

    def set(self, key: str, state: str) -> None:
        """Set the state of an amphora, unless it has ended."""
        with self._lock:
            if key not in self._ended:
                self._states[key] = state

    def end(self, key: str, state: str) -> None:
        """Set the final state of an amphora; later calls for it have no effect."""
        with self._lock:
            if key in self._ended:
                return
            self._states[key] = state
            self._ended.add(key)
            done = len(self._ended)
        self.ended(key, state, done)

    def ended(self, key: str, state: str, done: int) -> None:
        """Show that another amphora has ended."""

    def snapshot(self) -> tuple[int, list[str]]:
        """Return the number that have ended, and the states of all."""
        with self._lock:
            return len(self._ended), list(self._states.values())


class LineTally(Tally):
    """Writes a line for each amphora that ends."""

    def __init__(self, total: int, stream: TextIO) -> None:
        super().__init__(total)
        self._stream = stream

    def ended(self, key: str, state: str, done: int) -> None:
        self._stream.write(f'{key}: {state} ({done} of {self.total})\n')


class LiveTally(Tally):
    """Draws a square for each amphora, coloured by its state."""

    def __init__(self, total: int, title: str = '') -> None:
        super().__init__(total)
        self._title = title
        self._began = time.monotonic()

    def __rich__(self) -> Any:
        from rich.text import Text

        done, states = self.snapshot()
        counts = collections.Counter(states)
        text = Text(f'{self._title}{done}/{self.total}  ', style='bold')
        for state, count in counts.items():
            text.append(f'{count} {state}  ', style=_COLOURS.get(state, 'cyan'))
        text.append(f'{time.monotonic() - self._began:.1f} s', style='bright_black')
        if self.total <= _MAX_SQUARES:
            text.append('\n')
            for state in states:
                text.append('■ ', style=_COLOURS.get(state, 'cyan'))
        return text


def tally(app: KilnApp, total: int, formatter: str) -> contextlib.AbstractContextManager[Tally]:
    """Show the progress of a command on stderr, unless the output is for programs."""
    if total < 2 or formatter != 'table' or not app.options.verbose_level:
        return contextlib.nullcontext(Tally(total))
    if not app.stderr.isatty():
        return contextlib.nullcontext(LineTally(total, app.stderr))
    return live(total, app.stderr)


@contextlib.contextmanager
def live(total: int, stream: TextIO, title: str = '') -> Iterator[LiveTally]:
    """Draw on a terminal."""
    from rich.console import Console
    from rich.live import Live

    drawn = LiveTally(total, title)
    console = Console(file=drawn_on(stream))
    with Live(drawn, console=console, refresh_per_second=12, redirect_stdout=False):
        yield drawn
