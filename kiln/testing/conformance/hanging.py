"""Watch on a behaviour that hangs in a call: it ends with an error that names the call."""

from __future__ import annotations

import faulthandler
import inspect
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Self

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.testing.conformance.wording import Line, place_of

#: Polls of the thread within its limit; most behaviours end before the first.
_POLLS = 3
#: Nothing else of kiln uses it; a watch leaves it alone where somebody else does.
_SIGNAL = getattr(signal, 'SIGUSR1', None)
_KIT = str(Path(__file__).parent)
_CONTRACT = inspect.getfile(AmphoraComputeDriver)
#: What faulthandler writes: a title for each thread, and its lines from the innermost outwards.
_THREAD = re.compile(r'(?:Current thread|Thread) (0x[0-9a-f]+)')
_LINE = re.compile(r'  File "(.+)", line (\d+) in (.+)')


class Hangs(BaseException):
    """Raised in a behaviour that hangs; not an Exception, so that no driver handles it."""


class HangWatch:
    """Raises Hangs in the main thread once the kit has stood at one line for ``limit_s``.

    Each wait of the kit itself is shorter. Other threads, and systems without signals for a
    thread, are not watched.
    """

    def __init__(self, limit_s: Callable[[], float], driver: Callable[[], object]) -> None:
        self._limit_s, self._driver = limit_s, driver
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._stands_at: tuple[FrameType, int] | None = None
        self._since = 0.0

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and _SIGNAL is not None and signal.getsignal(_SIGNAL) is signal.SIG_DFL:
            signal.signal(_SIGNAL, self._look)
            args = (threading.get_ident(), int(_SIGNAL))
            self._thread = threading.Thread(
                target=self._wake, args=args, name='kit-watch', daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._thread is not None and _SIGNAL is not None:
            self._ended.set()
            self._thread.join()
            signal.signal(_SIGNAL, signal.SIG_DFL)
            self._stands_at = None

    def _wake(self, main: int, number: int) -> None:
        # The frames of a thread that runs can only be read there, without a crash of Python.
        while not self._ended.wait(self._limit_s() / _POLLS):
            signal.pthread_kill(main, number)

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Raise if the thread stands where it stood at the first poll of its limit."""
        stands_at, now, limit_s = _innermost_of_kit(frame), time.monotonic(), self._limit_s()
        if stands_at != self._stands_at:
            self._stands_at, self._since = stands_at, now
        elif now - self._since >= limit_s * (_POLLS - 1) / _POLLS:
            # Clean-up can hang, too: then it has as long again.
            self._since = now
            call, place = _in_progress(self._driver())
            where = f', at {place}' if place else ''
            raise Hangs(f'{call} had not returned after {limit_s:g} s{where}')


def where_it_is(thread: threading.Thread, driver: object) -> str:
    """Return the line of a driver at which a thread is now, or nothing if it is elsewhere."""
    return place_of(_stacks().get(thread.ident or 0, ()), driver)


def _innermost_of_kit(frame: FrameType | None) -> tuple[FrameType, int] | None:
    """Return the innermost frame of the kit in this thread, and the instruction there.

    A frame is compared by identity and kept, as the next one can have the same address.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith(_KIT):
            return frame, frame.f_lasti
        frame = frame.f_back
    return None


def _in_progress(driver: object) -> tuple[str, str]:
    """Return the call of the contract that is in progress, and the line of the driver.

    The thread of a behaviour can also wait for another thread that makes the call.
    """
    stacks = _stacks()
    own = stacks.pop(threading.get_ident(), ())
    for stack in (own, *stacks.values()):
        calls = [one.function for one in stack if _is_call(one)]
        if calls:
            return f'{calls[-1]}()', place_of(stack, driver)
    return 'a call', place_of(own, driver)


def _is_call(line: Line) -> bool:
    return line.file == _CONTRACT and not line.function.startswith('_')


def _stacks() -> dict[int, Sequence[Line]]:
    """Return the lines at which each thread is, by its number, from the innermost outwards."""
    with tempfile.TemporaryFile('w+', encoding='utf-8') as written:
        faulthandler.dump_traceback(written, all_threads=True)
        written.seek(0)
        return _parsed(written.read())


def _parsed(text: str) -> dict[int, Sequence[Line]]:
    stacks: dict[int, list[Line]] = {}
    lines: list[Line] = []
    for row in text.splitlines():
        if title := _THREAD.match(row):
            lines = stacks.setdefault(int(title[1], 16), [])
        elif (found := _LINE.match(row)) and found[1] != __file__:
            lines.append(Line(file=found[1], number=int(found[2]), function=found[3]))
    return {number: tuple(lines) for number, lines in stacks.items()}
