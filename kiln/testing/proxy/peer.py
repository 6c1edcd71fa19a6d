"""One end of a way through the proxy: messages come from it, bytes go to it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from kiln.testing.proxy.http1 import Message, Parser

_RESET_ON_CLOSE = struct.pack('ii', 1, 0)


class Peer(asyncio.Protocol):
    """A client, or the server.

    Whoever sends no more is taken as gone. To a client that has given up a
    server looks no different, and clients that only halve their connection are rare.
    """

    def __init__(
        self, *, answers: bool = False, opened: Callable[[Peer], None] | None = None
    ) -> None:
        self.parser = Parser(answers=answers)
        #: Done once the connection is no more.
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opened = opened
        self._news = asyncio.Event()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes, and wake who waits for a message."""
        self.parser.feed(data)
        self._news.set()

    def eof_received(self) -> None:
        """Note that what has come is all; the transport then closes itself."""
        self.parser.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits for the end, or for a message that will not come."""
        self.gone.set_result(None)
        self._news.set()

    async def receive(self) -> Message | None:
        """Return the next message, or None if the connection ended before."""
        while (message := self.parser.take()) is None and not self.gone.done():
            if self.parser.wants_continue():
                self.send(b'HTTP/1.1 100 Continue\r\n\r\n')
            self._news.clear()
            await self._news.wait()
        return message

    @property
    def open(self) -> bool:
        """Whether bytes can still be sent."""
        return not self._transport.is_closing()

    def send(self, data: bytes) -> None:
        """Send bytes; if nobody is there any more, nothing happens."""
        self._transport.write(data)

    def close(self) -> None:
        """Close, once everything is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is not sent yet."""
        self._transport.abort()

    def reset(self) -> None:
        """Close at once; the other end sees a reset."""
        if not self.gone.done():
            sock = self._transport.get_extra_info('socket')
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.abort()
