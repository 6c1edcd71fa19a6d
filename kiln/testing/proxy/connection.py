"""A client's way through the proxy, and its visits on it: one for each request."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kiln.testing.proxy.exchanges import Exchange, Request
from kiln.testing.proxy.faults import Serve
from kiln.testing.proxy.http1 import FramingError, Message
from kiln.testing.proxy.peer import Peer
from kiln.testing.proxy.urls import renamed

if TYPE_CHECKING:
    from kiln.testing.proxy.house import House

LOG = logging.getLogger(__name__)

_SERVE = Serve()


class NoAnswer(Exception):
    """The server could not be reached, or closed without an answer."""


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
            await fault.play(Visit(self, request, exchange))
        except NoAnswer as exc:
            LOG.warning('No answer to %s %s: %s', request.method, request.target, exc)
            self.client.reset()
        except Exception:  # a script's own mistake must not look like a hang
            LOG.exception('The script fails at %s %s', request.method, request.target)
            self.client.reset()
        finally:
            self.house.log.end(exchange)

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
        return renamed(answer, self.house.script.urls)


class Visit:
    """One request of a client, and what a fault can do about it."""

    def __init__(self, connection: Connection, request: Request, exchange: Exchange) -> None:
        self.request = request
        self._connection = connection
        self._client = connection.client
        self._exchange = exchange
        self._answer: Message | None = None

    async def forward(self) -> Message:
        """Ask the server, the first time; return its answer."""
        if self._answer is None:
            self._answer = await self._connection.ask(self.request)
            self._exchange.server_status = self._answer.status
            self._exchange.request_id = self._answer.headers.get('x-openstack-request-id')
        return self._answer

    def send(self, data: bytes, status: int | None = None) -> None:
        """Send bytes to the client; the status, if any, is what they mean to it."""
        if self._client.open:
            self._exchange.status = status or self._exchange.status
            self._client.send(data)

    def close(self) -> None:
        """Close the connection to the client, after what was sent."""
        self._client.close()

    def reset(self) -> None:
        """Reset the connection to the client at once."""
        self._client.reset()

    async def pause(self, seconds: float) -> bool:
        """Wait; return False, at once, when the client has gone."""
        await asyncio.wait([self._client.gone], timeout=seconds)
        return self._client.open

    async def hang(self) -> None:
        """Wait until the client gives up, or the proxy is released or closed."""
        await asyncio.wait(
            [self._client.gone, self._connection.house.released],
            return_when=asyncio.FIRST_COMPLETED,
        )

    def refuse(self, seconds: float, *, accept: bool) -> None:
        """Drop all clients of the proxy, and let none in for a time."""
        self._connection.house.refuse(seconds, accept=accept)
