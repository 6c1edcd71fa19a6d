"""Connections through the proxy: a client, its own server connection, and their ends."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable

from kiln.testing.proxy.http1 import (
    LONGEST_HEAD,
    FramingError,
    Message,
    read_answer,
    read_request,
)

LOG = logging.getLogger(__name__)

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


class NoAnswer(Exception):
    """The server could not be reached, or closed without an answer."""


class Connection:
    """A client, its own connection to the server, and its requests in sequence.

    Because of the pairing nobody notices the proxy: a request is sent to the server
    once and never again, and no answer can go to another client.
    """

    def __init__(
        self,
        client: Peer,
        upstream: tuple[str, int],
        handle: Callable[[Connection, Message], Awaitable[None]],
        *,
        idle_s: float,
    ) -> None:
        """Keep the client, the address of the server, and the handler of each request.

        A connection to the server that has been idle for ``idle_s`` is not used again: the
        server can be about to close it, and then a request would be lost.
        """
        self.client = client
        self._upstream = upstream
        self._handle = handle
        self._idle_s = idle_s
        self._server: Peer | None = None
        self._used_at = 0.0

    async def serve(self) -> None:
        """Serve the client until one of the ends has gone."""
        try:
            lasting = True
            while lasting and self.client.open:
                message = await read_request(self.client.stream, self.client.transport.write)
                await self._handle(self, message)
                lasting = message.lasting
        except (EOFError, OSError):
            pass  # The client has left.
        except FramingError as exc:
            LOG.warning('A client does not send HTTP/1.1: %s', exc)
            self.client.transport.write(b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
        finally:
            self.client.transport.close()
            ends = [self.client.gone]
            if self._server is not None:
                self._server.transport.abort()
                ends.append(self._server.gone)
            await asyncio.wait(ends)

    async def fetch(self, request: Message) -> Message:
        """Send a request to the server, once, and return the answer.

        :raises NoAnswer: the server could not be reached, or gave no answer.
        """
        server, loop = self._server, asyncio.get_running_loop()
        if server is not None and loop.time() - self._used_at >= self._idle_s:
            server.transport.abort()
        try:
            if server is None or not server.open:
                _, server = await loop.create_connection(Peer, *self._upstream)
                self._server = server
            server.transport.write(request.raw)
            answer = await read_answer(server.stream, to_head=request.first[0] == 'HEAD')
        except EOFError as exc:
            raise NoAnswer('The server closed the connection.') from exc
        except (OSError, FramingError) as exc:
            raise NoAnswer(str(exc)) from exc
        self._used_at = loop.time()
        if not answer.lasting:
            server.transport.close()
        return answer
