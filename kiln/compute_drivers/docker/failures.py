"""What it means that an engine gave no answer at all."""

from __future__ import annotations

import errno
import ssl
import traceback
from collections.abc import Iterator

import requests
import urllib3.exceptions

_IN_TIME = (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
_HINTS = {
    errno.EACCES: ' (kiln needs the right to the socket, which is as good as root)',
}
_NO_URL = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)


def was_sent(exc: BaseException) -> bool:
    """Tell whether the engine may have the request.

    Time-outs, resets and TLS fail in the same words before a request is sent and
    after; only the place where it happened tells which it was.
    """
    for cause in _causes(exc):
        if isinstance(cause, _NO_URL):
            return False
        frames = traceback.walk_tb(cause.__traceback__)
        if any(frame.f_code.co_name == 'connect' for frame, _ in frames):
            return False
    return True


def took_too_long(exc: BaseException) -> bool:
    """Tell whether time ran out."""
    return any(isinstance(cause, _IN_TIME) for cause in _causes(exc))


def why(exc: BaseException) -> str:
    """Return in a few words what went wrong."""
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
        # urllib3 keeps the reason of a failed attempt as an attribute, and requests
        # what it wraps as its first argument.
        for inner in (getattr(exc, 'reason', None), *exc.args[:1]):
            if isinstance(inner, BaseException) and id(inner) not in seen:
                yield inner
        exc = exc.__cause__ or exc.__context__
