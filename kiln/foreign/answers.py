"""Answers of others: a bounded number of bytes, and JSON of a bounded depth; no network."""

from __future__ import annotations

import errno
import itertools
import json
import re
from typing import Any, Protocol

#: The most bytes of an ordinary answer, and the deepest JSON.
MOST_BYTES = 16 * 1024 * 1024
DEEPEST = 100

_STEPS = {ord('['): 1, ord('{'): 1, ord(']'): -1, ord('}'): -1}
_NO_BRACKETS = bytes(set(range(256)) - _STEPS.keys())
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class Flood(OSError):
    """An answer has more bytes than are read; an OSError, as its connection is of no more use."""

    def __init__(self, most: int) -> None:
        super().__init__(errno.EMSGSIZE, f'the answer has more than {most} bytes')


class NotJson(ValueError):
    """An answer is not JSON, or is nested too deeply."""


class Stream(Protocol):
    """Anything with bytes to read."""

    def read(self, most: int, /) -> bytes: ...


def read_at_most(stream: Stream, most: int = MOST_BYTES) -> bytes:
    """Return all bytes of a stream.

    :raises Flood: there are more than that.
    """
    content = stream.read(most + 1)
    if len(content) > most:
        raise Flood(most)
    return content


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON document; ``RecursionError`` never leaves this function.

    :raises NotJson: it is not JSON, or its depth is beyond the limit.
    """
    raw = content.encode('utf-8', 'surrogatepass') if isinstance(content, str) else content
    if too_deep(raw):
        raise NotJson(f'it is JSON nested more than {DEEPEST} deep')
    try:
        return json.loads(content)
    # Bytes that are not UTF-8, and numbers of too many digits, are ValueErrors as well.
    except (ValueError, RecursionError) as exc:
        raise NotJson('it is not JSON') from exc


def too_deep(content: bytes) -> bool:
    """Return True if JSON is nested more deeply than the limit."""
    # Brackets in strings count as well at first, which costs little and errs on this side.
    return _depth(content) > DEEPEST and _depth(_STRING.sub(b'', content)) > DEEPEST


def _depth(content: bytes) -> int:
    brackets = content.translate(None, _NO_BRACKETS)
    if len(brackets) <= DEEPEST:
        return len(brackets)
    return max(itertools.accumulate(map(_STEPS.__getitem__, brackets)))


def words(error: BaseException) -> str:
    """Return the text of an error of a connection, without its number."""
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__
