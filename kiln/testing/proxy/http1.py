"""Reader of HTTP/1.1 messages; keeps every byte of a message as it was sent.

The proxy has no dependencies, so it does not use h11, which also takes six times
as long for a small exchange.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping

#: A longer head is an error; otherwise its sender could fill the memory. This is
#: also the limit that a stream must be created with.
LONGEST_HEAD = 256 * 1024

_BODILESS = frozenset({'204', '304'})
_CHUNK_LINE = re.compile(rb'([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?\r\n')


class FramingError(ValueError):
    """The bytes are not an HTTP/1.1 message."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer: its parsed head, and all of its bytes."""

    #: The parts of the first line: method, target, version; or version, status, reason.
    first: tuple[str, ...]
    #: Names are in lower case; a header sent twice has its values joined.
    headers: Mapping[str, str]
    raw: bytes
    #: Where in ``raw`` the body begins.
    body_at: int
    #: The body ended because the connection did.
    until_closed: bool = False

    def with_body(self, body: bytes, *, until_closed: bool = False) -> Message:
        """Return the message with a body, given as it is sent, after the head."""
        raw = self.raw[: self.body_at] + body
        return Message(self.first, self.headers, raw, self.body_at, until_closed)

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.first[1])

    @property
    def body(self) -> bytes:
        """The body, with its chunks joined."""
        body = self.raw[self.body_at :]
        return b''.join(_chunks(body)) if body and _is_chunked(self.headers) else body

    @property
    def lasting(self) -> bool:
        """True if the connection stays open after this message."""
        tokens = self.headers.get('connection', '').lower()
        if self.until_closed or 'close' in tokens:
            return False
        return 'HTTP/1.0' not in self.first or 'keep-alive' in tokens


def parse_head(raw: bytes) -> Message:
    """Return a message without a body from the bytes of its head."""
    first, *lines = raw[:-4].decode('latin-1').split('\r\n')
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(':')
        name, value = name.lower(), value.strip()
        headers[name] = f'{headers[name]}, {value}' if name in headers else value
    return Message(tuple(first.split(' ', 2)), headers, raw, len(raw))


async def read_request(stream: asyncio.StreamReader, send: Callable[[bytes], None]) -> Message:
    """Return the next request.

    ``send`` writes to the client, in case that it waits for permission to send the body.

    :raises FramingError: the bytes cannot become a request.
    :raises EOFError: the connection ended before the request did.
    """
    head = parse_head(await _read_until(stream, b'\r\n\r\n'))
    if len(head.first) != 3 or not head.first[2].startswith('HTTP/1.'):
        raise _not_a_first_line(head)
    if head.headers.get('expect', '').lower() == '100-continue':
        send(b'HTTP/1.1 100 Continue\r\n\r\n')
    body = await _read_body(stream, head.headers)
    return head.with_body(body) if body else head


async def read_answer(stream: asyncio.StreamReader, *, to_head: bool) -> Message:
    """Return the next answer, ``to_head`` if the request was a HEAD.

    :raises FramingError: the bytes cannot become an answer.
    :raises EOFError: the connection ended before the answer did.
    """
    while True:
        head = parse_head(await _read_until(stream, b'\r\n\r\n'))
        version, status = (*head.first, '')[:2]
        if not (version.startswith('HTTP/1.') and status.isdecimal()):
            raise _not_a_first_line(head)
        # "100 Continue" and the like come before the answer.
        if not status.startswith('1'):
            break
    if to_head or status in _BODILESS:
        return head
    body = await _read_body(stream, head.headers)
    if body is None:
        return head.with_body(await stream.read(), until_closed=True)
    return head.with_body(body)


def _not_a_first_line(head: Message) -> FramingError:
    return FramingError(f'{" ".join(head.first)[:80]!r} is not the first line of a message.')


async def _read_body(stream: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes | None:
    """Return the body as it was sent, or None if no header gives its end (RFC 9112, 6.3)."""
    if _is_chunked(headers):
        return await _read_chunks(stream)
    length = headers.get('content-length')
    if length is None:
        return None
    if not (length.isascii() and length.isdigit()):
        raise FramingError(f'{length!r} is not the length of a body.')
    return await stream.readexactly(int(length))


async def _read_chunks(stream: asyncio.StreamReader) -> bytes:
    parts = [await _read_until(stream, b'\r\n')]
    while size := _chunk_size(parts[-1]):
        parts.append(await stream.readexactly(size + 2))
        parts.append(await _read_until(stream, b'\r\n'))
    # Trailers can follow; an empty line ends them.
    while parts[-1] != b'\r\n':
        parts.append(await _read_until(stream, b'\r\n'))
    return b''.join(parts)


async def _read_until(stream: asyncio.StreamReader, end: bytes) -> bytes:
    try:
        return await stream.readuntil(end)
    except asyncio.LimitOverrunError as exc:
        raise FramingError(f'A head has no end within {LONGEST_HEAD} bytes.') from exc


def _is_chunked(headers: Mapping[str, str]) -> bool:
    return 'chunked' in headers.get('transfer-encoding', '').lower()


def _chunk_size(line: bytes) -> int:
    found = _CHUNK_LINE.fullmatch(line)
    if found is None:
        raise FramingError(f'{line.strip()[:80]!r} is not the size of a chunk.')
    return int(found[1], 16)


def _chunks(body: bytes) -> Iterator[bytes]:
    at = 0
    while size := _chunk_size(body[at : (line_end := body.index(b'\r\n', at) + 2)]):
        at = line_end + size + 2
        yield body[line_end : at - 2]
