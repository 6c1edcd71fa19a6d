"""Causes of an unanswered HTTP request, from the exceptions of requests and urllib3; pure."""

from __future__ import annotations

import ssl
import traceback
from collections.abc import Iterator, Sequence

import requests
import urllib3.exceptions

#: Exceptions for time that ran out.
IN_TIME = (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)
_NO_URL = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)


def causes_of(exc: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and everything behind it, the outermost first."""
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        # urllib3 stores the reason of a failed attempt in an attribute, and requests
        # stores the wrapped exception as its first argument.
        for inner in (getattr(exc, 'reason', None), *exc.args[:1]):
            if isinstance(inner, BaseException) and id(inner) not in seen:
                yield inner
        exc = exc.__cause__ or exc.__context__


def was_sent(causes: Sequence[BaseException]) -> bool:
    """Return True if the service might have received the request.

    Time-outs, resets and TLS failures read the same before and after a request is sent;
    only the place where they were raised shows the difference.
    """
    return not any(isinstance(cause, _NO_URL) or _while_connecting(cause) for cause in causes)


def _while_connecting(cause: BaseException) -> bool:
    frames = traceback.walk_tb(cause.__traceback__)
    return any(frame.f_code.co_name == 'connect' for frame, _ in frames)


def reason(causes: Sequence[BaseException], *, slow: bool) -> str | None:
    """Return the reason in a few words; None if only the exception's own text has it."""
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return f'TLS failed ({cause.reason or cause})'
        is_system_error = not isinstance(cause, requests.exceptions.RequestException)
        if isinstance(cause, OSError) and cause.strerror and is_system_error:
            return cause.strerror.lower()
    return 'it took too long' if slow else None


def one_line(exc: BaseException) -> str:
    """Return the text of an exception as one line without its full stop."""
    return ' '.join(str(exc).split()).rstrip('.')
