"""Cuts a stream of bytes into HTTP/1.1 messages; reads no socket and keeps each byte."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping

#: Past this a head is not one, and whoever sends it would fill the memory.
LONGEST_HEAD = 256 * 1024

_BODILESS = frozenset({'204', '304'})
_CHUNK_LINE = re.compile(rb'([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?')


class FramingError(ValueError):
    """The bytes are no HTTP/1.1 message."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """One request or answer: what it says, and the very bytes that say it."""

    #: The words of the first line: method, target, version; or version, status, reason.
    first: tuple[str, ...]
    #: Names are in lower case; a header sent twice has its values joined.
    headers: Mapping[str, str]
    raw: bytes
    #: Where in ``raw`` the body begins.
    body_at: int
    #: The body ended because the connection did.
    until_closed: bool = False

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
        """Whether the connection goes on after this message."""
        tokens = self.headers.get('connection', '').lower()
        if self.until_closed or 'close' in tokens:
            return False
        return 'HTTP/1.0' not in self.first or 'keep-alive' in tokens


class Parser:
    """Is fed bytes as they come, and gives the whole messages among them."""

    def __init__(self, *, answers: bool = False) -> None:
        #: The next message answers a HEAD, so its length is that of no body.
        self.answers_head = False
        self._answers = answers
        self._buffer = bytearray()
        self._ended = False
        self._begin()

    def _begin(self) -> None:
        self._first: tuple[str, ...] = ()
        self._headers: dict[str, str] = {}
        self._body_at = 0
        # How far the buffer is understood: in a head, where to look on for its
        # end; in a chunked body, where the next chunk begins.
        self._known = 0
        self._find_end: Callable[[], int | None] = self._fixed_end
        self._fixed = 0
        self._continue = False

    def feed(self, data: bytes) -> None:
        """Take in the next bytes."""
        self._buffer += data

    def end(self) -> None:
        """Take in that no more bytes come."""
        self._ended = True

    def wants_continue(self) -> bool:
        """Say once, for each message, that its sender keeps the body until told to go on."""
        wants, self._continue = self._continue, False
        return wants

    def take(self) -> Message | None:
        """Return the next whole message, or None if there is none yet.

        :raises FramingError: the bytes can never become a message.
        """
        while self._body_at or self._read_head():
            end = self._find_end()
            if end is None or end > len(self._buffer):
                return None
            message = Message(
                self._first,
                self._headers,
                bytes(self._buffer[:end]),
                self._body_at,
                self._find_end == self._closed_end,
            )
            del self._buffer[:end]
            self._begin()
            # "100 Continue" and its like come before the answer and are none.
            if not (self._answers and message.first[1].startswith('1')):
                return message
        return None

    def _read_head(self) -> bool:
        end = self._buffer.find(b'\r\n\r\n', self._known)
        if end < 0:
            # The four bytes may have come in part, so the last three count again.
            self._known = max(0, len(self._buffer) - 3)
            if self._known > LONGEST_HEAD:
                raise FramingError(f'A head has no end within {LONGEST_HEAD} bytes.')
            return False
        first, *lines = self._buffer[:end].decode('latin-1').split('\r\n')
        self._first = tuple(first.split(' ', 2))
        if not self._is_first_line():
            raise FramingError(f'{first[:80]!r} is not the first line of a message.')
        headers = self._headers
        for line in lines:
            name, _, value = line.partition(':')
            name, value = name.lower(), value.strip()
            headers[name] = f'{headers[name]}, {value}' if name in headers else value
        self._body_at = self._known = end + 4
        self._measure()
        return True

    def _is_first_line(self) -> bool:
        if not self._answers:
            return len(self._first) == 3 and self._first[2].startswith('HTTP/1.')
        status = self._first[1:2]
        return self._first[0].startswith('HTTP/1.') and bool(status) and status[0].isdecimal()

    def _measure(self) -> None:
        """Choose how the end of the body is found, by the rules of RFC 9112, 6.3."""
        headers, length = self._headers, self._headers.get('content-length')
        self._continue = headers.get('expect', '').lower() == '100-continue'
        self._fixed = self._body_at
        if self._answers and self._has_no_body():
            return
        if _is_chunked(headers):
            self._find_end = self._chunked_end
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise FramingError(f'{length!r} is no length of a body.')
            self._fixed += int(length)
        elif self._answers:
            self._find_end = self._closed_end

    def _has_no_body(self) -> bool:
        status = self._first[1]
        return self.answers_head or status in _BODILESS or status.startswith('1')

    def _fixed_end(self) -> int | None:
        return self._fixed

    def _closed_end(self) -> int | None:
        return len(self._buffer) if self._ended else None

    def _chunked_end(self) -> int | None:
        buffer = self._buffer
        while (line_end := buffer.find(b'\r\n', self._known)) >= 0:
            size = _chunk_size(buffer[self._known : line_end])
            if size == 0:
                # Trailers may follow, and an empty line ends them.
                end = buffer.find(b'\r\n\r\n', line_end)
                return None if end < 0 else end + 4
            after = line_end + 2 + size + 2
            if after > len(buffer):
                return None
            self._known = after
        return None


def _is_chunked(headers: Mapping[str, str]) -> bool:
    return 'chunked' in headers.get('transfer-encoding', '').lower()


def _chunk_size(line: bytes | bytearray) -> int:
    found = _CHUNK_LINE.fullmatch(line)
    if found is None:
        raise FramingError(f'{bytes(line[:80])!r} is no size of a chunk.')
    return int(found[1], 16)


def _chunks(body: bytes) -> Iterator[bytes]:
    at = 0
    while size := _chunk_size(body[at : (line_end := body.index(b'\r\n', at))]):
        at = line_end + 2 + size + 2
        yield body[line_end + 2 : at - 2]
