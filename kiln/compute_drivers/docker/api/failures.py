"""Errors for requests that an engine did not answer."""

from __future__ import annotations

import errno

from kiln.compute_drivers.authoring.connection_failures import (
    IN_TIME,
    causes_of,
    one_line,
    reason,
    was_sent,
)
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import AmphoraComputeError


def unanswered(asked: Asked, exc: BaseException, *, at: str = '') -> AmphoraComputeError:
    """Return the error for a request; with ``at`` it is the first, and nothing was sent."""
    causes = tuple(causes_of(exc))
    slow = any(isinstance(cause, (*IN_TIME, TimeoutError)) for cause in causes)
    last = causes[-1]
    why = reason(causes, slow=slow) or one_line(last) or type(last).__name__
    if any(isinstance(cause, OSError) and cause.errno == errno.EACCES for cause in causes):
        why += ' (kiln needs access to the socket, which is as good as root)'
    sent = not at and was_sent(causes)
    return asked.unanswered('the engine', why + at, sent=sent, slow=slow)
