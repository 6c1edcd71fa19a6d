"""Answers of others: a bounded number of bytes, and JSON of a bounded depth; no network."""

from __future__ import annotations

import errno
import itertools
import json
import math
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


def parse_json(content: bytes | str, *, deepest: int = DEEPEST) -> Any:
    """Return the value of a JSON document; ``RecursionError`` never leaves this function.

    :raises NotJson: it is not JSON, such as a number without an end, or is nested too deeply.
    """
    raw = content.encode('utf-8', 'surrogatepass') if isinstance(content, str) else content
    if too_deep(raw, deepest):
        raise NotJson(f'it is JSON nested more than {deepest} deep')
    try:
        return json.loads(content, parse_constant=_finite, parse_float=_finite)
    # Bytes that are not UTF-8, and numbers of too many digits, are ValueErrors as well.
    except (ValueError, RecursionError) as exc:
        raise NotJson('it is not JSON') from exc


def too_deep(content: bytes, deepest: int = DEEPEST) -> bool:
    """Return True if JSON is nested more deeply than the limit."""
    # Brackets in strings count as well at first, which costs little and errs on this side.
    return (
        _depth(content, deepest) > deepest and _depth(_STRING.sub(b'', content), deepest) > deepest
    )


def _finite(text: str) -> float:
    """Return a number; NaN and infinite ones are no JSON, and nothing of kiln stores them."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f'{text[:20]} is not a finite number')
    return number


def _depth(content: bytes, enough: int) -> int:
    brackets = content.translate(None, _NO_BRACKETS)
    if len(brackets) <= enough:
        return len(brackets)
    return max(itertools.accumulate(map(_STEPS.__getitem__, brackets)))


def words(error: BaseException) -> str:
    """Return the text of an error of a connection, without its number."""
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__
