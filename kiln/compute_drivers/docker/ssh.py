"""Requests to an engine on another host, through ``ssh`` and docker's own ``dial-stdio``.

The SDK has two ways for this. One reads the pipes of the ssh program, on which no
time-out holds, and begins a program for each request; the other needs paramiko, which
knows little of what people write into the configuration of ssh. Here the program gets
one end of a pair of sockets, so that the other end is a socket like any other: its
time-outs hold, and it is kept for the next request.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import re
import shlex
import socket
import subprocess
import tempfile
import threading
import urllib.parse
from typing import IO, Any, cast

import requests.adapters
import urllib3.connection
import urllib3.connectionpool

#: Seconds that a program has to end by itself once nobody listens to it.
_END_S = 0.2
#: So many connections are opened at a time: sshd hangs up on further ones, by MaxStartups.
_AT_ONCE = 8
_LONGEST_SAID = 300

#: What ssh, or who it reached, says; and what it means and can be done about it.
_MEANINGS = tuple(
    (re.compile(words, re.IGNORECASE), meaning)
    for words, meaning in (
        (
            r'identification has changed',
            'its host key is another than the known one; if that is right, forget the old one '
            'with "ssh-keygen -R"',
        ),
        (
            r'host key verification failed',
            'its host key is not known; log in once by hand, or add it to known_hosts',
        ),
        (
            r'dial unix .*: permission denied|permission denied.* docker daemon socket',
            'that user may not talk to the engine there; add it to the group docker',
        ),
        (
            r'permission denied \(|too many authentication failures|no such identity',
            'ssh is not let in; it needs a key that is accepted there without a password',
        ),
        (
            r'docker: (command )?not found|no such file or directory.*docker$|unknown command',
            'there is no docker command there that knows "system dial-stdio"',
        ),
        (
            r'cannot connect to the docker daemon|dial unix ',
            'no engine listens there',
        ),
        (r'could not resolve hostname', 'its name is not known'),
    )
)


class SshError(OSError):
    """The far end cannot be reached; the text says why in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


class SshAdapter(requests.adapters.HTTPAdapter):
    """Carries requests to the engine that a command talks to.

    Each connection is one run of it, and is kept.
    """

    def __init__(self, command: tuple[str, ...], connections: int) -> None:
        self._dial = functools.partial(_Connection, command, threading.BoundedSemaphore(_AT_ONCE))
        super().__init__(pool_maxsize=connections)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Have the pools open connections through ssh."""
        super().init_poolmanager(*args, **kwargs)
        # Whatever makes one will do; the types ask for classes.
        self.poolmanager.pool_classes_by_scheme = {'http': cast('Any', self._pool)}

    def _pool(self, *args: Any, **kwargs: Any) -> urllib3.connectionpool.HTTPConnectionPool:
        pool = urllib3.connectionpool.HTTPConnectionPool(*args, **kwargs)
        pool.ConnectionCls = cast('Any', self._dial)
        return pool


def command(url: str, config: str | None = None) -> tuple[str, ...]:
    """Return what talks to the engine that ``ssh://USER@HOST:PORT/SOCKET`` names.

    It never asks anything: there is nobody to answer. What is not said here is as the
    configuration of ssh says: a file of one's own, or that of the user.

    :raises ValueError: the URL cannot be read.
    """
    parts = urllib.parse.urlsplit(url)
    file = ('-F', config) if config else ()
    where = ('-l', parts.username) if parts.username else ()
    port = ('-p', str(parts.port)) if parts.port else ()
    there = ['docker']
    if parts.path.strip('/'):
        there += ['--host', f'unix://{parts.path}']
    return (
        'ssh', *file, '-T', '-o', 'BatchMode=yes', '-o', 'LogLevel=ERROR', *where, *port, '--',
        parts.hostname or '', shlex.join([*there, 'system', 'dial-stdio']),
    )  # fmt: skip


def meaning(said: str) -> str:
    """Return in one line what the last words of ssh mean."""
    for words, means in _MEANINGS:
        if words.search(said):
            return means
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_SAID].rstrip('.') if lines else 'ssh ended without a word'


class _Connection(urllib3.connection.HTTPConnection):
    """One run of ssh, as a connection."""

    def __init__(
        self,
        command: tuple[str, ...],
        turn: threading.BoundedSemaphore,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._command, self._turn = command, turn
        self._program: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Open the connection; it is there once the engine itself has answered.

        :raises SshError: it cannot be opened.
        :raises TimeoutError: it took longer than a connection may take.
        """
        timeout_s = self.timeout if isinstance(self.timeout, int | float) else None
        if not self._turn.acquire(timeout=timeout_s):
            raise TimeoutError('too many others are connecting')
        try:
            self._open(timeout_s)
        except BaseException:
            self.close()
            raise
        finally:
            self._turn.release()

    def _open(self, timeout_s: float | None) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(timeout_s)
        with theirs, tempfile.TemporaryFile() as said:
            try:
                # Signals at a terminal are for kiln, which then ends this program.
                self._program = subprocess.Popen(  # noqa: S603
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=said,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise SshError('there is no ssh command here; install openssh-client') from None
            theirs.close()
            self._greet(said)

    def _greet(self, said: IO[bytes]) -> None:
        """Have the engine say that it is there, so that what fails later is the engine's."""
        assert self.sock is not None
        try:
            self.sock.sendall(b'GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n')
            with contextlib.closing(http.client.HTTPResponse(self.sock)) as answer:
                answer.begin()
                answer.read()
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as exc:
            self._end()
            said.seek(0)
            raise SshError(meaning(said.read().decode(errors='replace'))) from exc

    def close(self) -> None:
        """Hang up, and have the program end."""
        super().close()
        self._end()

    def _end(self) -> None:
        program, self._program = self._program, None
        if program is None:
            return
        try:
            # It has nothing to read any more, and goes; what it says last is worth hearing.
            program.wait(_END_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
