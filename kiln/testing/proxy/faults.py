"""The faults: small values, each with one method.

A fault gets a *visit*, one request of a client. A visit forwards the request to the
server at most once, so faults can be nested: ``LoseAnswer(Answer(504))`` is a load
balancer whose timeout ended while the server did the work.
"""

from __future__ import annotations

import dataclasses
import html
import http.client
import json
from collections.abc import Mapping

from kiln.testing.proxy.exchanges import Fault, Visit


@dataclasses.dataclass(frozen=True)
class Serve(Fault):
    """No fault: the answer of the server, unchanged."""

    async def play(self, visit: Visit) -> None:
        answer = await visit.forward()
        visit.send(answer.raw, answer.status)
        if not answer.lasting:
            visit.close()


@dataclasses.dataclass(frozen=True)
class Delay(Fault):
    """A wait before the request is forwarded, after the answer has come, or both."""

    before: float = 0.0
    after: float = 0.0
    #: The fault to continue with.
    then: Fault = Serve()

    async def play(self, visit: Visit) -> None:
        """Wait and continue; nothing is forwarded if the client leaves during ``before``."""
        if self.before and not await visit.pause(self.before):
            return
        if self.after:
            await visit.forward()
            await visit.pause(self.after)
        await self.then.play(visit)


@dataclasses.dataclass(frozen=True)
class Hang(Fault):
    """No answer until the client gives up; nothing is forwarded."""

    async def play(self, visit: Visit) -> None:
        await visit.hang()
        visit.close()


@dataclasses.dataclass(frozen=True)
class Reset(Fault):
    """A reset of the connection; nothing is forwarded."""

    async def play(self, visit: Visit) -> None:
        visit.reset()


@dataclasses.dataclass(frozen=True)
class Close(Fault):
    """An orderly close of the connection without an answer; nothing is forwarded."""

    async def play(self, visit: Visit) -> None:
        visit.close()


@dataclasses.dataclass(frozen=True)
class LoseAnswer(Fault):
    """The server does its work, and the client gets another fault, or nothing."""

    instead: Fault = Hang()

    async def play(self, visit: Visit) -> None:
        await visit.forward()
        await self.instead.play(visit)


@dataclasses.dataclass(frozen=True)
class Truncate(Fault):
    """A close of the connection within the body of the answer."""

    #: The share of the body that arrives.
    keep: float = 0.5

    async def play(self, visit: Visit) -> None:
        """Send the beginning and close; an answer without a body is cut in its first line."""
        answer = await visit.forward()
        size = len(answer.raw) - answer.body_at
        end = answer.body_at + min(int(size * self.keep), size - 1) if size else len('HTTP/1.')
        visit.send(answer.raw[:end], answer.status)
        visit.close()


@dataclasses.dataclass(frozen=True)
class Trickle(Fault):
    """An answer whose body is sent slowly, a few bytes at a time."""

    size: int = 1
    every: float = 0.1

    async def play(self, visit: Visit) -> None:
        answer = await visit.forward()
        visit.send(answer.raw[: answer.body_at], answer.status)
        for at in range(answer.body_at, len(answer.raw), self.size):
            if not await visit.pause(self.every):
                return
            visit.send(answer.raw[at : at + self.size])
        if not answer.lasting:
            visit.close()


@dataclasses.dataclass(frozen=True)
class Refuse(Fault):
    """A reset of all connections; for some seconds new ones are refused."""

    seconds: float = 1.0
    #: Accept and close connections, as a load balancer without a backend does.
    accept: bool = False

    async def play(self, visit: Visit) -> None:
        visit.refuse(self.seconds, accept=self.accept)


@dataclasses.dataclass(frozen=True)
class Answer(Fault):
    """An answer of the proxy itself; nothing is forwarded."""

    status: int = 503
    body: str = ''
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    retry_after: int | str | None = None
    content_type: str = 'application/json'

    async def play(self, visit: Visit) -> None:
        visit.send(self.raw(visit.request.method), self.status)

    def raw(self, method: str) -> bytes:
        """Return the bytes of the answer to a request of this method."""
        body = self.body.encode()
        lines = [f'HTTP/1.1 {self.status} {_reason(self.status)}']
        if self.status not in (204, 304):
            lines.append(f'Content-Length: {len(body)}')
        if body:
            lines.append(f'Content-Type: {self.content_type}')
        if self.retry_after is not None:
            lines.append(f'Retry-After: {self.retry_after}')
        lines += [f'{name}: {value}' for name, value in self.headers.items()]
        head = '\r\n'.join([*lines, '', '']).encode('latin-1')
        return head if method == 'HEAD' or self.status in (204, 304) else head + body


def nova_error(
    status: int = 503, message: str = '', *, retry_after: int | str | None = None
) -> Answer:
    """Return an error in the format of Nova."""
    name = {
        400: 'badRequest',
        401: 'unauthorized',
        403: 'forbidden',
        404: 'itemNotFound',
        409: 'conflictingRequest',
        413: 'overLimit',
        429: 'overLimit',
        503: 'serviceUnavailable',
    }.get(status, 'computeFault')
    said: dict[str, object] = {'code': status, 'message': message or _reason(status)}
    if retry_after is not None:
        said['retryAfter'] = str(retry_after)
    return Answer(status, json.dumps({name: said}), retry_after=retry_after)


def html_page(status: int = 502, text: str = '') -> Answer:
    """Return the error page of a load balancer."""
    title = html.escape(text or f'{status} {_reason(status)}')
    page = f'<html><head><title>{title}</title></head>\n<body><h1>{title}</h1></body></html>\n'
    return Answer(status, page, content_type='text/html')


def token_expired() -> Answer:
    """Return the answer of a service to a token that is no longer valid."""
    message = 'The request you have made requires authentication.'
    error = {'code': 401, 'title': 'Unauthorized', 'message': message}
    challenge = {'WWW-Authenticate': 'Keystone uri="http://127.0.0.1/identity"'}
    return Answer(401, json.dumps({'error': error}), challenge)


def _reason(status: int) -> str:
    return http.client.responses.get(status, 'Unknown')
