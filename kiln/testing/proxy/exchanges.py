"""Exchanges: a request, what a fault can do with it, and the record of it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

from kiln.testing.proxy.connection import Peer
from kiln.testing.proxy.http1 import Message
from kiln.testing.proxy.server import Server

# Clouds mount their services differently, so rules ignore mount point, version and
# project: "/compute/v2.1/6f70656e737461636b20342065766572/servers" is "/servers".
_PREFIX = re.compile(
    r'(?:/[^/]+)?/v\d+(?:\.\d+)?(?:/[0-9a-f]{32}|/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?(?=/|$)'
)


def resource_path(target: str) -> str:
    """Return the path of a target without query, version and project."""
    path = target.partition('?')[0]
    prefix = _PREFIX.match(path)
    return (path[prefix.end() :] or '/') if prefix else path


def matcher(method: str | None, path: str | None) -> Callable[[Request | Exchange], bool]:
    """Return a check of method and whole path, where None fits any.

    :raises ValueError: the path is not a regular expression.
    """
    try:
        pattern = re.compile('(?s:.*)' if path is None else path)
    except re.error as exc:
        raise ValueError(f'{path!r} is not a regular expression for a path: {exc}') from exc
    return lambda one: method in (None, one.method) and pattern.fullmatch(one.path) is not None


class Request:
    """A request of a client, as rules and faults see it."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.method, self.target = message.first[:2]
        #: Without query, version and project: ``/servers/detail``.
        self.path = resource_path(self.target)
        #: Without the question mark.
        self.query = self.target.partition('?')[2]
        #: Their names are in lower case.
        self.headers = message.headers

    @property
    def body(self) -> bytes:
        """The whole body."""
        return self.message.body


class Exchange:
    """The record of a request and its answers; filled in while the exchange goes on."""

    def __init__(self, request: Request) -> None:
        """Begin the record of a request that has arrived."""
        message = request.message
        self.method, self.target, self.path = request.method, request.target, request.path
        self.request_bytes = len(message.raw) - message.body_at
        #: Monotonic seconds when the whole request had arrived, and when the exchange was over.
        self.started = time.monotonic()
        self.ended: float | None = None
        self.fault: Fault | None = None
        #: The status that the client got; None if it got no answer.
        self.status: int | None = None
        #: The status from the server; None if it got no request or gave no answer.
        self.server_status: int | None = None
        #: The id that the server gave the request, and the one that the client sent.
        self.request_id: str | None = None
        self.global_request_id = message.headers.get('x-openstack-request-id')

    @property
    def seconds(self) -> float:
        """The duration so far."""
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    def __str__(self) -> str:
        fault = type(self.fault).__name__ if self.fault else 'no fault'
        return (
            f'{self.method} {self.target}: {self.server_status or "no answer"} from the server, '
            f'{self.status or "no answer"} to the client, {self.seconds:.3f} s, {fault}'
        )

    __repr__ = __str__


class Fault:
    """A fault that is applied to an exchange."""

    async def play(self, visit: Visit) -> None:
        """Apply the fault; when this returns, the exchange is over."""
        raise NotImplementedError


class Visit:
    """A request of a client, and what a fault can do with it."""

    def __init__(
        self,
        request: Request,
        exchange: Exchange,
        client: Peer,
        server: Server,
        fetch: Callable[[Request], Awaitable[Message]],
    ) -> None:
        #: Can be replaced before it is forwarded.
        self.request = request
        self._exchange = exchange
        self._client = client
        self._server = server
        self._fetch = fetch
        self._answer: Message | None = None

    async def forward(self) -> Message:
        """Send the request to the server, the first time; return its answer."""
        if self._answer is None:
            self._answer = await self._fetch(self.request)
            self._exchange.server_status = self._answer.status
            self._exchange.request_id = self._answer.headers.get('x-openstack-request-id')
        return self._answer

    def send(self, data: bytes, status: int | None = None) -> None:
        """Send bytes to the client; ``status`` is recorded as what it received."""
        if self._client.open:
            self._exchange.status = status or self._exchange.status
            self._client.transport.write(data)

    def close(self) -> None:
        """Close the connection to the client, after what was sent."""
        self._client.transport.close()

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
            [self._client.gone, self._server.released], return_when=asyncio.FIRST_COMPLETED
        )

    def refuse(self, seconds: float, *, accept: bool) -> None:
        """Drop all clients of the proxy, and let none in for some seconds."""
        self._server.refuse(seconds, accept=accept)
