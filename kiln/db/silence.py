"""Silence of a database server: told while a transaction still waits for it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator


class ServerSilence:
    """Reports that a server is silent, and that it answers again; for any number of threads.

    Connections and statements wait in C code of the database's library, so another thread
    looks how long they have been waiting.
    """

    #: Seconds after which a server is silent, and seconds between two looks.
    silent_s, look_s = 3.0, 0.5

    def __init__(self, server: str, report: Callable[[str], None]) -> None:
        self._server = server
        self._report = report
        self._lock = threading.Lock()
        #: When each transaction under way began.
        self._since: dict[object, float] = {}
        self._silent = False
        self._watch: threading.Thread | None = None
        self._closed = threading.Event()

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note a transaction, which waits for nothing but the server."""
        mark = object()
        self._since[mark] = time.monotonic()
        if self._watch is None:
            self._begin()
        try:
            yield
        finally:
            del self._since[mark]
        # Only a transaction that succeeded proves that the server answers.
        if self._silent:
            self._end()

    def close(self) -> None:
        """End the watch; safe to repeat."""
        self._closed.set()

    def _begin(self) -> None:
        with self._lock:
            if self._watch is None and not self._closed.is_set():
                self._watch = threading.Thread(
                    target=self._run, name='kiln-store-silence', daemon=True
                )
                self._watch.start()

    def _run(self) -> None:
        while not self._closed.wait(self.look_s):
            # With the lock, so that a transaction that ends meanwhile sees what is told.
            with self._lock:
                oldest = min(tuple(self._since.values()), default=None)
                if oldest is None or time.monotonic() - oldest < self.silent_s:
                    continue
                first, self._silent = not self._silent, True
            if first:
                self._report(
                    f'The store at {self._server} has not answered for over {self.silent_s:g} s.'
                )

    def _end(self) -> None:
        with self._lock:
            over, self._silent = self._silent, False
        if over:
            self._report(f'The store at {self._server} answers again.')
