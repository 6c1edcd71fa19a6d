"""Hook results, parsed from programs, webhooks and plugins; no I/O."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping

from kiln.foreign.answers import NotJson, parse_json
from kiln.programs.output import clean

#: Bytes read from the output of a hook.
MAX_ANSWER = 64 * 1024


class Reply(enum.StrEnum):
    """Result of one hook call."""

    OK = 'ok'
    #: Not done; not a failure. The hook is called again.
    LATER = 'later'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Reply of a hook, with a message that is safe to show."""

    reply: Reply
    message: str = ''
    #: Seconds until the next call, as requested by the hook.
    after_s: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, 'message', clean(self.message))

    @classmethod
    def ok(cls, message: str = '') -> Answer:
        """Return an answer for success."""
        return cls(Reply.OK, message)

    @classmethod
    def later(cls, message: str = '', after_s: float | None = None) -> Answer:
        """Return an answer for "not done, call again"."""
        return cls(Reply.LATER, message, after_s)

    @classmethod
    def failed(cls, message: str) -> Answer:
        """Return an answer for failure."""
        return cls(Reply.FAILED, message)


class NoAnswer(ValueError):
    """The output is not a valid answer; the text gives the reason."""


def parse(content: bytes) -> Answer:
    """Return the answer in a JSON object with status, message and retryAfterSeconds.

    :raises NoAnswer: the content is not such an object.
    """
    try:
        said = parse_json(content)
    except NotJson as exc:
        raise NoAnswer(str(exc)) from exc
    if not isinstance(said, Mapping):
        raise NoAnswer('it is not a JSON object')
    message, after_s = said.get('message') or '', said.get('retryAfterSeconds') or 0
    if not isinstance(message, str):
        raise NoAnswer('its message is not a text')
    if isinstance(after_s, bool) or not isinstance(after_s, int | float) or not 0 <= after_s < 1e9:
        raise NoAnswer('its retryAfterSeconds is not a number of seconds')
    match said.get('status'):
        case 'Success' if after_s:
            return Answer.later(message, float(after_s))
        case 'Success':
            return Answer.ok(message)
        case 'Failure':
            return Answer.failed(message or 'it reported a failure without a message')
    raise NoAnswer('its status is neither Success nor Failure')


def retry_after(text: str | None) -> float | None:
    """Return the seconds in a Retry-After header; None without a number of seconds."""
    try:
        seconds = float(text or '')
    except ValueError:
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None
