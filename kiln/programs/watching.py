"""Watches of runs: a function is called as soon as a run has printed something, or has ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from kiln.programs.detached import Run

# From <sys/inotify.h>, the same on every architecture of Linux.
_MODIFY, _MOVED_TO, _IGNORED = 0x2, 0x80, 0x8000
_HEAD = struct.Struct('iIII')
_MOST_BYTES = 65536
#: What is watched in the folder of a run; other files of it change as well.
_WATCHED = frozenset({b'out', b'result.json'})

_LIBC = ctypes.CDLL(None, use_errno=True)


class RunWatcher:
    """Watches any number of runs with one thread, which begins with the first.

    A watch saves time and nothing else: where the system refuses one, a run is polled in its
    turn. Can be used by several threads at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernel: int | None = None
        self._watched: dict[int, Callable[[], None]] = {}

    def once(self, run: Run, size: int, call: Callable[[], None]) -> None:
        """Call a function once, on another thread; it takes the place of a former one.

        :param size: the bytes of the output that the caller knows.
        """
        with contextlib.suppress(OSError):
            number = self._watch(run.folder, call)
            # It can have gone on before the watch was there.
            if run.result is not None or run.output_size() != size:
                self._end(number)

    def _watch(self, folder: Path, call: Callable[[], None]) -> int:
        with self._lock:
            if self._kernel is None:
                self._kernel = _checked(_LIBC.inotify_init1(os.O_CLOEXEC))
                threading.Thread(
                    target=self._listen, args=(self._kernel,), name='kiln-runs', daemon=True
                ).start()
            # The kernel gives a folder that is watched already the same number.
            mask = _MODIFY | _MOVED_TO
            number = _checked(_LIBC.inotify_add_watch(self._kernel, os.fsencode(folder), mask))
            self._watched[number] = call
            return number

    def _end(self, number: int) -> None:
        with self._lock:
            call = self._watched.pop(number, None)
            if call is not None:
                _LIBC.inotify_rm_watch(self._kernel, number)
        if call is not None:
            call()

    def _listen(self, kernel: int) -> None:
        while True:
            for number, mask, name in _events(os.read(kernel, _MOST_BYTES)):
                # The folder is gone, or its watch was ended.
                if mask & _IGNORED:
                    with self._lock:
                        self._watched.pop(number, None)
                elif name in _WATCHED:
                    self._end(number)


def _events(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, the kind and the name of the file of each event."""
    at = 0
    while at < len(content):
        number, mask, _, length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        yield number, mask, content[at : at + length].rstrip(b'\0')
        at += length


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), 'inotify')
    return result
