"""Runs of an operator's command: no shell, a time-out, and its output kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kiln.compute_drivers.appliance.claims.state_machine import Ended
from kiln.exceptions import redact
from kiln.foreign.text import plain

_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
#: How much of the end of an output is kept, and how much of that is reported.
_KEPT_BYTES = 64 * 1024
_TOLD_BYTES = 400
#: The exit statuses of a process that was killed, or whose child was.
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_ENDED_BY_HAND = 'kiln ended it'


class Command:
    """One run of a command, in its own process group."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        timeout_s: float,
        output: Path,
        folder: Path,
        lock_fd: int | None = None,
    ) -> None:
        self._argv = argv
        self._environment = environment
        self._timeout_s = timeout_s
        self._output = output
        self.folder = folder
        self._passed = () if lock_fd is None else (lock_fd,)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def run(self) -> Ended:
        """Run the command; return when it has ended, or was killed at its time-out.

        Processes that it leaves in its process group are killed with it.
        """
        started = time.monotonic()
        try:
            self._start()
        except OSError as exc:
            return Ended(False, f'it cannot be run: {exc.strerror}')
        if self._process is None:
            return Ended(False, _ENDED_BY_HAND)
        # Not reaped so far, so the number of its group cannot be reused.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            _kill_group(self._process)
            status = self._process.wait()
        return self._ended(status, time.monotonic() - started)

    def cancel(self) -> None:
        """End the run from another thread; safe to repeat, and before the run begins."""
        with self._lock:
            self._cancelled = True
            if self._process is not None and self._process.returncode is None:
                _kill_group(self._process)

    def output(self) -> str:
        """Return the end of the output."""
        return self._tail()[0].decode('utf-8', 'replace')

    def _start(self) -> None:
        fd = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with self._lock, os.fdopen(fd, 'wb') as output:
            if self._cancelled:
                return
            # A separate process keeps the time, so that the time-out holds even if kiln
            # is killed.
            self._process = subprocess.Popen(  # noqa: S603  # the operator says what is run
                ['timeout', '-s', 'KILL', f'{self._timeout_s:f}', *self._argv],  # noqa: S607  # in our own PATH
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**_inherited(), **self._environment},
                start_new_session=True,
                pass_fds=self._passed,
            )

    def _ended(self, status: int, took_s: float) -> Ended:
        words = _last_words(self._shortened())
        if self._cancelled:
            return Ended(False, _ENDED_BY_HAND)
        if status == 0:
            return Ended(True, words)
        how = f'signal {-status}' if status < 0 else f'status {status}'
        ended = f'it ended with {how}'
        if status in _KILLED and took_s >= self._timeout_s:
            ended = f'it had not ended within {self._timeout_s:g} s, and was killed'
        return Ended(False, f'{ended}: {words}' if words else ended)

    def _shortened(self) -> bytes:
        tail, is_all = self._tail()
        if not is_all:
            self._output.write_bytes(tail)
        return tail

    def _tail(self) -> tuple[bytes, bool]:
        """Return the end of the output, and True if that is all of it."""
        try:
            with self._output.open('rb') as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _KEPT_BYTES))
                return file.read(_KEPT_BYTES), size <= _KEPT_BYTES
        except OSError:
            return b'', True


def _inherited() -> dict[str, str]:
    # ssh and similar programs read their known hosts from HOME.
    return {'PATH': _PATH, 'LANG': 'C.UTF-8', 'HOME': os.environ.get('HOME', '/')}


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_words(written: bytes) -> str:
    text = written[-_TOLD_BYTES:].decode('utf-8', 'replace')
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return redact(plain('; '.join(lines)))
