"""What went through the proxy: requests as the script sees them, and the log of exchanges."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kiln.testing.proxy.http1 import Message

if TYPE_CHECKING:
    from kiln.testing.proxy.faults import Fault

# "/compute/v2.1/6f70656e737461636b20342065766572/servers": how a cloud mounts
# its services, which version and whose project are all nothing to a script.
_PREFIX = re.compile(
    r'(?:/[^/]+)?/v\d+(?:\.\d+)?(?:/[0-9a-f]{32}|/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?(?=/|$)'
)


def resource_path(target: str) -> str:
    """Return the path of a target without query, version and project."""
    path = target.partition('?')[0]
    prefix = _PREFIX.match(path)
    return (path[prefix.end() :] or '/') if prefix else path


class Request:
    """One request, as the rules look at it."""

    __slots__ = ('message', 'method', 'path', 'target')

    def __init__(self, message: Message) -> None:
        self.message = message
        self.method, self.target = message.first[:2]
        #: Without query, version and project: ``/servers/detail``.
        self.path = resource_path(self.target)

    @property
    def query(self) -> str:
        """What follows the question mark."""
        return self.target.partition('?')[2]

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, their names in lower case."""
        return self.message.headers

    @property
    def body(self) -> bytes:
        """The whole body."""
        return self.message.body


@dataclasses.dataclass(slots=True)
class Exchange:
    """One request and what became of it; filled in while it goes on."""

    method: str
    target: str
    path: str
    request_bytes: int
    #: Monotonic seconds when the whole request had arrived, and when all was over.
    started: float
    ended: float | None = None
    fault: Fault | None = None
    #: What the client was answered; None where it got no answer.
    status: int | None = None
    #: What the server answered; None where it was not asked, or did not.
    server_status: int | None = None
    #: The id that the server gave the request, and the one the client sent along.
    request_id: str | None = None
    global_request_id: str | None = None

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    def __str__(self) -> str:
        fault = type(self.fault).__name__ if self.fault else 'no fault'
        return (
            f'{self.method} {self.target}: {self.server_status or "no answer"} from the server, '
            f'{self.status or "no answer"} to the client, {self.seconds:.3f} s, {fault}'
        )


class Log:
    """The exchanges in order of their requests; read by any thread."""

    def __init__(self, on_end: Callable[[Exchange], None] | None) -> None:
        self._on_end = on_end
        self._exchanges: list[Exchange] = []
        self._changed = threading.Condition()

    def open(self, request: Request) -> Exchange:
        """Begin the exchange of a request that has arrived."""
        message = request.message
        exchange = Exchange(
            request.method,
            request.target,
            request.path,
            len(message.raw) - message.body_at,
            time.monotonic(),
            global_request_id=message.headers.get('x-openstack-request-id'),
        )
        with self._changed:
            self._exchanges.append(exchange)
            self._changed.notify_all()
        return exchange

    def end(self, exchange: Exchange) -> None:
        """End an exchange."""
        with self._changed:
            exchange.ended = time.monotonic()
            self._changed.notify_all()
        if self._on_end is not None:
            self._on_end(exchange)

    def all(self) -> list[Exchange]:
        """Return the exchanges so far."""
        return self._exchanges.copy()

    def clear(self) -> None:
        """Forget them."""
        with self._changed:
            self._exchanges.clear()

    def count(self, method: str | None, path: str | None) -> int:
        """Return how many requests had this method and this path."""
        fits = pattern(path)
        return sum(
            (method is None or method == exchange.method) and fits(exchange.path)
            for exchange in self._exchanges.copy()
        )

    def wait_for(self, count: int, method: str | None, path: str | None, seconds: float) -> bool:
        """Wait until so many such requests have arrived; False where time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count(method, path) >= count, seconds)

    def settle(self, seconds: float) -> bool:
        """Wait until all have ended; False where time ran out."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(exchange.ended for exchange in self._exchanges), seconds
            )


def pattern(path: str | None) -> Callable[[str], bool]:
    """Return what tells whether a whole path is as a regular expression says.

    :raises ValueError: it is no regular expression.
    """
    if path is None:
        return lambda _: True
    try:
        fullmatch = re.compile(path).fullmatch
    except re.error as exc:
        raise ValueError(f'{path!r} is no path: {exc}') from exc
    return lambda given: fullmatch(given) is not None
