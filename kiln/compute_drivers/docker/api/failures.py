"""Causes of requests that an engine did not answer."""

from __future__ import annotations

import errno
import ssl
import traceback
from collections.abc import Iterator

import requests
import urllib3.exceptions

_IN_TIME = (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
_HINTS = {
    errno.EACCES: ' (kiln needs access to the socket, which is as good as root)',
}
_NO_URL = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)


def was_sent(exc: BaseException) -> bool:
    """Return True if the engine might have received the request.

    Time-outs, resets and TLS failures read the same before and after a request is
    sent; only the place where they were raised shows the difference.
    """
    for cause in _causes(exc):
        if isinstance(cause, _NO_URL):
            return False
        frames = traceback.walk_tb(cause.__traceback__)
        if any(frame.f_code.co_name == 'connect' for frame, _ in frames):
            return False
    return True


def took_too_long(exc: BaseException) -> bool:
    """Return True if the time ran out."""
    return any(isinstance(cause, _IN_TIME) for cause in _causes(exc))


def why(exc: BaseException) -> str:
    """Return the reason of the failure in a few words."""
    causes = tuple(_causes(exc))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return f'TLS failed ({cause.reason or cause})'
        if (
            isinstance(cause, OSError)
            and cause.strerror
            and not isinstance(cause, requests.exceptions.RequestException)
        ):
            return cause.strerror.lower() + _HINTS.get(cause.errno or 0, '')
    if took_too_long(exc):
        return 'it took too long'
    return ' '.join(str(causes[-1]).split()).rstrip('.') or type(causes[-1]).__name__


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
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
