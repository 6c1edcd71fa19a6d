"""Exchanges over sockets: one deadline and one limit of bytes for all of their reads.

The time-out of a socket counts from one byte to the next, so that a peer which sends a byte
now and then can hold a thread for ever. A :class:`TimedSocket` heeds the exchange that its
thread is in, whichever library reads from it.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import io
import math
import select
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Self

from kiln.foreign.answers import Flood
from kiln.foreign.waiting import LOOK_AFTER_S, is_to_look, look_why


@dataclasses.dataclass(slots=True)
class _Exchange:
    ends_at: float
    most: float
    outer: Self | None
    taken: int = 0

    def take(self, count: int) -> None:
        self.taken += count
        if self.taken > self.most:
            raise Flood(int(self.most))
        if self.outer is not None:
            self.outer.take(count)


_current: contextvars.ContextVar[_Exchange | None] = contextvars.ContextVar(
    'kiln_exchange', default=None
)


@contextlib.contextmanager
def exchange(limit_s: float, most: float = math.inf) -> Iterator[None]:
    """Bound all that timed sockets send and receive inside the block.

    After the deadline they raise ``TimeoutError``, after that many bytes :class:`Flood`.
    Within another exchange, the limits of both apply.
    """
    outer = _current.get()
    # The system's clock, because sockets are real.
    ends_at = time.monotonic() + limit_s
    if outer is not None:
        ends_at = min(ends_at, outer.ends_at)
    reset = _current.set(_Exchange(ends_at, most, outer))
    try:
        yield
    finally:
        _current.reset(reset)


def left_s(own_s: float | None = None) -> float | None:
    """Return the time-out of the next step: its own, or what the exchange leaves of it.

    :raises TimeoutError: the time of the exchange is over.
    """
    current = _current.get()
    if current is None or current.ends_at == math.inf:
        return own_s
    left = current.ends_at - time.monotonic()
    if left <= 0:
        raise TimeoutError('timed out')
    return left if own_s is None else min(own_s, left)


def connect(host: str, port: int) -> TimedSocket:
    """Return a connection to the first address of a host that accepts one.

    :raises OSError: none does, or the time of the exchange is over.
    """
    failure: OSError = OSError(f'{host} has no address')
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        plain = socket.socket(family, kind, protocol)
        try:
            # All addresses share the time.
            plain.settimeout(left_s())
            plain.connect(address)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as exc:
            plain.close()
            failure = exc
        else:
            return TimedSocket(plain)
    raise failure


def secured(sock: TimedSocket, context: ssl.SSLContext, name: str) -> TimedSocket:
    """Return a connection with TLS over a plain one, which is closed if that fails."""
    try:
        # The time-out of a handshake is that of all its messages.
        sock.limit()
        return TimedSocket(context.wrap_socket(sock.plain, server_hostname=name))
    # No other code has the socket so far.
    except BaseException:
        sock.close()
        raise


def timed_redis(kind: type[Any]) -> type[Any]:
    """Return a class of connections to Redis whose reads end with the exchange of their thread."""

    class Timed(kind):  # type: ignore[misc]  # the base is an argument
        def _connect(self) -> Any:
            return TimedSocket(super()._connect())

    return Timed


class TimedSocket:
    """A connected socket whose reads and writes end with the exchange of their thread."""

    def __init__(self, sock: Any) -> None:
        self.plain = sock
        self._own_s = sock.gettimeout()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.plain.close()

    def settimeout(self, own_s: float | None) -> None:
        """Set the time-out of single reads and writes."""
        self._own_s = own_s
        self.plain.settimeout(own_s)

    def recv(self, most: int) -> bytes:
        """Return the bytes that come next."""
        self.limit()
        content: bytes = self.plain.recv(most)
        _took(len(content))
        return content

    def recv_into(self, buffer: Any, *more: int) -> int:
        """Read the bytes that come next into a buffer; return their number."""
        self.limit()
        count = int(self.plain.recv_into(buffer, *more))
        _took(count)
        return count

    def sendall(self, content: Any) -> None:
        """Send all bytes."""
        left = memoryview(content).cast('B')
        while left:
            self.limit()
            left = left[self.plain.send(left) :]

    def makefile(self, mode: str = 'r', *_: Any, **__: Any) -> io.BufferedReader:
        """Return the file from which http.client reads an answer."""
        assert mode == 'rb', mode
        return io.BufferedReader(_TimedFile(self))

    def look_if_late(self) -> None:
        """Wait for the first bytes of an answer; look why, if they are late."""
        pending = getattr(self.plain, 'pending', None)
        if not is_to_look() or (pending is not None and pending()):
            return
        poll = select.poll()
        poll.register(self.plain.fileno(), select.POLLIN)
        limit_s = left_s(self._own_s)
        late_s = LOOK_AFTER_S if limit_s is None else min(LOOK_AFTER_S, limit_s)
        if not poll.poll(1000 * late_s):
            look_why()

    def limit(self) -> None:
        """Set the time-out of the next step on the socket.

        :raises TimeoutError: the time of the exchange is over.
        """
        self.plain.settimeout(left_s(self._own_s))


class _TimedFile(io.RawIOBase):
    def __init__(self, sock: TimedSocket) -> None:
        self._sock = sock
        # The socket stays open until this file is closed, as http.client expects.
        self._file = sock.plain.makefile('rb', buffering=0)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._file.fileno())

    def readinto(self, buffer: Any) -> int | None:
        self._sock.look_if_late()
        self._sock.limit()
        count: int | None = self._file.readinto(buffer)
        _took(count or 0)
        return count

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _took(count: int) -> None:
    current = _current.get()
    if current is not None:
        current.take(count)
