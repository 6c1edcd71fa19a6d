"""One end of a connection through the proxy: a client, or the server."""

from __future__ import annotations

import asyncio
import socket
import struct

from kiln.testing.proxy.http1 import LONGEST_HEAD

_RESET_ON_CLOSE = struct.pack('ii', 1, 0)


class Peer(asyncio.Protocol):
    """A client or the server; considered gone once it stops sending.

    To a client that has given up, a server looks no different, and clients that
    only close their sending half are rare.
    """

    def __init__(self) -> None:
        self.stream = asyncio.StreamReader(limit=LONGEST_HEAD)
        #: Done when the connection has ended.
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.stream.feed_data(data)

    def eof_received(self) -> None:
        # The transport then closes itself.
        self.stream.feed_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self.stream.feed_eof()
        else:
            self.stream.set_exception(exc)
        self.gone.set_result(None)

    @property
    def open(self) -> bool:
        """True while bytes can be sent."""
        return not self.transport.is_closing()

    def reset(self) -> None:
        """Close at once; the other end sees a reset."""
        if not self.gone.done():
            sock = self.transport.get_extra_info('socket')
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()
