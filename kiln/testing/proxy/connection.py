"""The two ends of one way through the proxy, and the visits of a client on it."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable
from typing import Protocol

from kiln.testing.proxy.exchanges import Exchange, Log, Request
from kiln.testing.proxy.faults import Serve
from kiln.testing.proxy.http1 import FramingError, Message, Parser
from kiln.testing.proxy.script import Script

LOG = logging.getLogger(__name__)

_SERVE = Serve()
_RESET_ON_CLOSE = struct.pack('ii', 1, 0)


class NoAnswer(Exception):
    """The server could not be reached, or closed without an answer."""


class House(Protocol):
    """What all connections of a proxy share."""

    script: Script
    log: Log
    upstream: tuple[str, int]
    released: asyncio.Event
    on_end: Callable[[Exchange], None] | None

    def refuse(self, seconds: float, *, accept: bool) -> None:
        """Let nobody in for a time."""
        ...


class Peer(asyncio.Protocol):
    """One end: messages come from it, bytes go to it."""

    def __init__(
        self, *, answers: bool = False, opened: Callable[[Peer], None] | None = None
    ) -> None:
        self.parser = Parser(answers=answers)
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._opened = opened
        self._news: asyncio.Future[None] | None = None
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
        self._wake()

    def eof_received(self) -> None:
        """Note that what has come is all; the transport then closes itself."""
        self.parser.end()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits for the end, or for a message that will not come."""
        if not self.gone.done():
            self.gone.set_result(None)
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def receive(self) -> Message | None:
        """Return the next message, or None if the connection ended before."""
        while (message := self.parser.take()) is None and not self.gone.done():
            if self.parser.wants_continue():
                self.send(b'HTTP/1.1 100 Continue\r\n\r\n')
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return message

    @property
    def open(self) -> bool:
        """Whether bytes can still be sent."""
        return not self._transport.is_closing()

    def send(self, data: bytes) -> None:
        """Send bytes, if there is still somebody."""
        if self.open:
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


class Connection:
    """A client, its own connection to the server, and one request after the other.

    The pairing keeps the proxy out of sight: a request is sent to the server once
    and never again, and no answer can go to somebody else.
    """

    def __init__(self, house: House, client: Peer) -> None:
        self.house = house
        self.client = client
        self._server: Peer | None = None

    async def serve(self) -> None:
        """Serve the client until one of the ends has gone."""
        try:
            while (message := await self.client.receive()) is not None:
                await self._visit(Request(message))
                if not (message.lasting and self.client.open):
                    break
        except FramingError as exc:
            LOG.warning('A client speaks no HTTP/1.1: %s', exc)
            self.client.send(b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
        finally:
            self.client.close()
            ends = [self.client.gone]
            if self._server is not None:
                self._server.abort()
                ends.append(self._server.gone)
            await asyncio.wait(ends)

    async def _visit(self, request: Request) -> None:
        exchange = self.house.log.open(request)
        try:
            exchange.fault = self.house.script.choose(request)
            fault = exchange.fault or _SERVE
            await fault.play(ClientVisit(self, request, exchange))
        except NoAnswer as exc:
            LOG.warning('No answer to %s %s: %s', request.method, request.target, exc)
            self.client.reset()
        except Exception:  # a script's own mistake must not look like a hang
            LOG.exception('The script fails at %s %s', request.method, request.target)
            self.client.reset()
        finally:
            exchange.ended = time.monotonic()
            if self.house.on_end is not None:
                self.house.on_end(exchange)

    async def ask(self, request: Request) -> Message:
        """Send a request to the server, once, and return the answer."""
        server = self._server
        try:
            if server is None or not server.open:
                _, server = await asyncio.get_running_loop().create_connection(
                    lambda: Peer(answers=True), *self.house.upstream
                )
                self._server = server
            server.parser.answers_head = request.method == 'HEAD'
            server.send(request.message.raw)
            answer = await server.receive()
        except (OSError, FramingError) as exc:
            raise NoAnswer(str(exc)) from exc
        if answer is None:
            raise NoAnswer('The server closed the connection.')
        if not answer.lasting:
            server.close()
        return answer


class ClientVisit:
    """One request and its fault; see :class:`kiln.testing.proxy.faults.Visit`."""

    __slots__ = ('_answer', '_connection', '_exchange', 'request')

    def __init__(self, connection: Connection, request: Request, exchange: Exchange) -> None:
        self.request = request
        self._connection = connection
        self._exchange = exchange
        self._answer: Message | None = None

    async def forward(self) -> Message:
        """Ask the server, the first time; return its answer."""
        if self._answer is None:
            self._answer = await self._connection.ask(self.request)
            self._exchange.server_status = int(self._answer.first[1])
            self._exchange.request_id = self._answer.headers.get('x-openstack-request-id')
        return self._answer

    def send(self, data: bytes, status: int | None = None) -> None:
        """Send bytes to the client; nobody is told what to a client that has left."""
        client = self._connection.client
        if client.open:
            client.send(data)
            self._exchange.status = status or self._exchange.status

    def close(self) -> None:
        """Close the connection to the client, after what was sent."""
        self._connection.client.close()

    def reset(self) -> None:
        """Reset the connection to the client at once."""
        self._connection.client.reset()

    async def pause(self, seconds: float) -> bool:
        """Wait; return False, at once, when the client has gone."""
        await asyncio.wait([self._connection.client.gone], timeout=seconds)
        return self._connection.client.open

    async def hang(self) -> None:
        """Wait until the client gives up, or the proxy is released or closed."""
        released = asyncio.ensure_future(self._connection.house.released.wait())
        try:
            await asyncio.wait(
                [self._connection.client.gone, released], return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            released.cancel()

    def refuse(self, seconds: float, *, accept: bool) -> None:
        """Drop all clients of the proxy, and let none in for a time."""
        self._connection.house.refuse(seconds, accept=accept)
