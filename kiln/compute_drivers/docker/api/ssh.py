"""Requests to an engine on another host over ssh and ``docker system dial-stdio``.

The SDK offers two ways. One reads the pipes of the ssh program, where time-outs have no
effect, and starts a program for each request; the other needs paramiko, which supports
only a part of the ssh configuration. Here the program gets one end of a socket pair, so
that the other end is an ordinary socket: its time-outs work, and it is reused.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import re
import shlex
import socket
import subprocess
import tempfile
import threading
import urllib.parse
from collections.abc import Mapping
from typing import IO, Any, cast

import urllib3.connection
import urllib3.connectionpool

from kiln.foreign.exchange import TimedSocket, left_s
from kiln.foreign.http_adapter import BoundedAdapter
from kiln.foreign.text import plain

#: Seconds that the ssh program has to end by itself once its connection is closed.
_END_S = 0.2
#: How many connections are opened at a time: sshd drops further ones, by MaxStartups.
_AT_ONCE = 8
_LONGEST_SAID = 300
#: Bytes that are read of what the remote end sends before the engine is used.
_LONGEST_PONG = 1024
_MOST_SAID = 64 * 1024
#: What ssh reads of the environment, and what its programs do. Options of kiln can be variables
#: too, so a program of ProxyCommand is given no others.
_KEPT = re.compile(r'(HOME|KRB5.+|LANG|LC_.+|LOGNAME|PATH|SSH_.+|TMPDIR|TZ|USER|XDG_RUNTIME_DIR)')

#: What ssh or the remote end prints, and what it means with what to do about it.
_MEANINGS = tuple(
    (re.compile(words, re.IGNORECASE), meaning)
    for words, meaning in (
        (
            r'identification has changed',
            'its host key is not the known one; if that is expected, remove the old one '
            'with "ssh-keygen -R"',
        ),
        (
            r'host key verification failed',
            'its host key is not known; log in once manually, or add it to known_hosts',
        ),
        (
            r'dial unix .*: permission denied|permission denied.* docker daemon socket',
            'that user has no access to the engine there; add it to the group docker',
        ),
        (
            r'permission denied \(|too many authentication failures|no such identity',
            'ssh was denied access; it needs a key that is accepted there without a password',
        ),
        (
            r'docker: (command )?not found|no such file or directory.*docker$|unknown command',
            'the docker command there is missing or lacks "system dial-stdio"',
        ),
        (
            r'cannot connect to the docker daemon|dial unix ',
            'no engine is listening there',
        ),
        (r'could not resolve hostname', 'its host name cannot be resolved'),
    )
)


class SshError(OSError):
    """The remote engine cannot be reached; the text gives the reason in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


class SshAdapter(BoundedAdapter):
    """Sends requests to an engine through runs of a command.

    Each connection is one run of the command, and is kept for later requests.
    """

    def __init__(self, command: tuple[str, ...], connections: int) -> None:
        self._dial = functools.partial(_Connection, command, threading.BoundedSemaphore(_AT_ONCE))
        super().__init__(pool_maxsize=connections)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools open their connections through ssh."""
        super().init_poolmanager(*args, **kwargs)
        # Any factory works; only the types require classes.
        self.poolmanager.pool_classes_by_scheme = {'http': cast('Any', self._pool)}

    def _pool(self, *args: Any, **kwargs: Any) -> urllib3.connectionpool.HTTPConnectionPool:
        pool = urllib3.connectionpool.HTTPConnectionPool(*args, **kwargs)
        pool.ConnectionCls = cast('Any', self._dial)
        return pool


def command(url: str, config: str | None = None) -> tuple[str, ...]:
    """Return the command that connects to the engine of ``ssh://USER@HOST:PORT/SOCKET``.

    The command never prompts, as nobody could answer. Everything else follows the ssh
    configuration: the given file, or that of the user.

    :raises ValueError: the URL cannot be read.
    """
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname:
        raise ValueError('it names no host')
    file = ('-F', config) if config else ()
    where = ('-l', parts.username) if parts.username else ()
    port = ('-p', str(parts.port)) if parts.port else ()
    there = ['docker']
    if parts.path.strip('/'):
        there += ['--host', f'unix://{parts.path}']
    dial = shlex.join([*there, 'system', 'dial-stdio'])
    quiet = ('-T', '-o', 'BatchMode=yes', '-o', 'LogLevel=ERROR')
    return ('ssh', *file, *quiet, *where, *port, '--', parts.hostname, dial)


def meaning(said: str) -> str:
    """Return in one line what the last output of ssh means."""
    for words, means in _MEANINGS:
        if words.search(said):
            return means
    lines = [line for line in map(plain, said.splitlines()) if line]
    return lines[-1][:_LONGEST_SAID].rstrip('.') if lines else 'ssh ended without a message'


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in ours.items() if _KEPT.fullmatch(name)}


class _Connection(urllib3.connection.HTTPConnection):
    """A connection made of one run of ssh."""

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
        """Open the connection; return once the engine itself has answered.

        :raises SshError: the connection cannot be opened.
        :raises TimeoutError: the connect time-out has passed.
        """
        timeout_s = left_s(self.timeout)
        if not self._turn.acquire(timeout=timeout_s):
            raise TimeoutError('too many other connections are being opened')
        try:
            self._open(timeout_s)
        except BaseException:
            self.close()
            raise
        finally:
            self._turn.release()

    def _open(self, timeout_s: float | None) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(timeout_s)
        self.sock = cast('socket.socket', TimedSocket(ours))
        with theirs, tempfile.TemporaryFile() as said:
            try:
                # Terminal signals are for kiln, which then ends this program.
                self._program = subprocess.Popen(  # noqa: S603  # no shell
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=said,
                    env=_environment(os.environ),
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise SshError('the ssh command was not found; install openssh-client') from None
            except OSError as exc:
                # Not as its cause: that would be taken for what the engine's socket answers.
                raise SshError(f'the ssh command cannot be run: {exc.strerror}') from None
            theirs.close()
            self._greet(said)

    def _greet(self, said: IO[bytes]) -> None:
        """Ping the engine once, so that later failures are the engine's own."""
        assert self.sock is not None
        try:
            self.sock.sendall(b'GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n')
            with contextlib.closing(http.client.HTTPResponse(self.sock)) as answer:
                answer.begin()
                answer.read(_LONGEST_PONG)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as exc:
            self._end()
            said.seek(0)
            raise SshError(meaning(said.read(_MOST_SAID).decode(errors='replace'))) from exc

    def close(self) -> None:
        """Close the connection and end the program."""
        super().close()
        self._end()

    def _end(self) -> None:
        program, self._program = self._program, None
        if program is None:
            return
        try:
            # Its input is closed, so it ends by itself; its last output is worth reading.
            program.wait(_END_S)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
