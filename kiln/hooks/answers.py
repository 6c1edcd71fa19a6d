"""What a hook answers, whichever way it was called; pure."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from collections.abc import Mapping

from kiln.exceptions import redact

#: The longest message that people are shown.
LONGEST_MESSAGE = 500
#: Of whatever a hook writes, so many bytes are looked at.
MAX_ANSWER = 64 * 1024

# Letters of any language stay; what moves a cursor, or turns the direction of
# the text around it, does not.
_CONTROL = re.compile(r'[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+')
# Of a colour in a terminal, what follows the escape would be left.
_ESCAPES = re.compile(r'\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])')


class Reply(enum.StrEnum):
    """What became of one call."""

    OK = 'ok'
    #: Not yet: no failure, and it is called again.
    LATER = 'later'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a hook said; its message is made fit to be shown."""

    reply: Reply
    message: str = ''
    #: Seconds until it wants to be called again.
    after_s: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, 'message', clean(self.message))

    @classmethod
    def ok(cls, message: str = '') -> Answer:
        """Return that it is done."""
        return cls(Reply.OK, message)

    @classmethod
    def later(cls, message: str = '', after_s: float | None = None) -> Answer:
        """Return that it is not done yet, and is to be asked again."""
        return cls(Reply.LATER, message, after_s)

    @classmethod
    def failed(cls, message: str) -> Answer:
        """Return that it cannot be done."""
        return cls(Reply.FAILED, message)


class NoAnswer(ValueError):
    """What was written is no answer; the text says why."""


def parse(content: bytes) -> Answer:
    """Return the answer of a JSON document with status, message, retryAfterSeconds.

    :raises NoAnswer: it is none.
    """
    try:
        said = json.loads(content)
    # Deep enough, JSON overflows the stack of its parser.
    except (ValueError, RecursionError) as exc:
        raise NoAnswer('it is no JSON') from exc
    if not isinstance(said, Mapping):
        raise NoAnswer('it is no JSON object')
    message, after_s = said.get('message') or '', said.get('retryAfterSeconds') or 0
    if not isinstance(message, str):
        raise NoAnswer('its message is no text')
    if isinstance(after_s, bool) or not isinstance(after_s, int | float) or not 0 <= after_s < 1e9:
        raise NoAnswer('its retryAfterSeconds is no number of seconds')
    match said.get('status'):
        case 'Success' if after_s:
            return Answer.later(message, float(after_s))
        case 'Success':
            return Answer.ok(message)
        case 'Failure':
            return Answer.failed(message or 'it says no more than that it failed')
    raise NoAnswer('its status is neither Success nor Failure')


def retry_after(text: str | None) -> float | None:
    """Return the seconds of a header Retry-After; None where it says none."""
    try:
        seconds = float(text or '')
    except ValueError:
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None


def clean(text: str) -> str:
    """Return a text in one line of bounded length, with no control character and no secret."""
    # Bounded first: what a hook writes may be long, and patterns take their time.
    plain = _ESCAPES.sub('', text[: 8 * LONGEST_MESSAGE])
    line = ' '.join(redact(_CONTROL.sub(' ', plain)).split())
    # Half of a character cannot be written anywhere.
    line = line.encode(errors='replace').decode()
    return line if len(line) <= LONGEST_MESSAGE else f'{line[: LONGEST_MESSAGE - 3]}...'


def last_lines(content: bytes, count: int = 3) -> str:
    """Return the last lines of what a program wrote that are not empty."""
    lines = content.decode(errors='replace').splitlines()
    # Cleaned one by one: what is kept is the end, and a message keeps its beginning.
    kept = [line for line in map(clean, lines) if line][-count:]
    return ' / '.join(kept)
