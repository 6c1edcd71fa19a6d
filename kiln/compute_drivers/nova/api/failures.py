"""Mapping of connection and Keystone failures to kiln's exceptions.

keystoneauth reports every connection problem as a failure to connect. The
underlying exception shows whether the request was sent, and that decides
whether it can be repeated.
"""

from __future__ import annotations

import http.client
import ssl
import traceback
from collections.abc import Iterator
from typing import Any

import requests
import urllib3.exceptions
from keystoneauth1 import exceptions as ksa

from kiln.compute_drivers.nova.api import errors
from kiln.compute_drivers.nova.api.errors import Asked, Reply
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    PermissionDenied,
    RateLimited,
    ServiceUnavailable,
)


def no_entry(asked: Asked, exc: ksa.ClientException) -> AmphoraComputeError:
    """Return the error for a token that could not be obtained; nothing was sent."""
    if isinstance(exc, ksa.HttpError):
        return _turned_away(asked, exc)
    if isinstance(exc, ksa.DiscoveryFailure):
        for cause in _causes(exc):
            if isinstance(cause, ksa.ConnectionError):
                return unanswered(asked, 'identity', cause, sent=False)
        return asked.error(
            ServiceUnavailable, f'no Keystone answers at auth_url: {_one_line(exc)}.'
        )
    if isinstance(exc, ksa.ConnectionError):
        return unanswered(asked, 'identity', exc, sent=False)
    if isinstance(exc, ksa.CatalogException):
        return asked.error(
            ServiceUnavailable, f'the catalogue is not usable: {_one_line(exc)}.', retryable=False
        )
    return asked.error(AuthenticationFailed, f'Keystone gave no token ({_one_line(exc)}).')


# All other errors of Keystone itself are about the credentials: an application
# credential that does not exist, for example, is a 404.
_TURNED_AWAY = {403: PermissionDenied, 413: RateLimited, 429: RateLimited}


def _turned_away(asked: Asked, exc: ksa.HttpError) -> AmphoraComputeError:
    status = exc.http_status
    reply = Reply(service='identity', status=status, headers={}, body=_json(exc.response))
    facts = {
        'http_status': status,
        'request_id': exc.request_id,
        'retry_after': getattr(exc, 'retry_after', 0) or None,
    }
    if status >= 500 or (reply.reason is None and status not in (401, *_TURNED_AWAY)):
        said = reply.reason or 'it does not look like Keystone. Check auth_url'
        return asked.error(
            ServiceUnavailable,
            f'Keystone answered {status}: {said.rstrip(".")}.',
            retryable=status >= 500,
            **facts,
        )
    said = (reply.reason or 'no reason given').rstrip('.')
    if kind := _TURNED_AWAY.get(status):
        return asked.error(kind, f'Keystone answered {status}: {said}.', **facts)
    return asked.error(
        AuthenticationFailed, f'Keystone refuses the credentials ({status}): {said}.', **facts
    )


def _json(response: requests.Response | None) -> Any:
    try:
        return None if response is None else response.json()
    except ValueError:
        return None


_NO_URL = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)
_IN_TIME = (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)


def unanswered(
    asked: Asked, service: str, exc: ksa.ClientException, *, sent: bool | None = None
) -> AmphoraComputeError:
    """Return the error for a request without a response; ``sent=None`` means: find out."""
    if not isinstance(exc, ksa.ConnectionError):
        # The token was refused, and no new token could be obtained.
        return no_entry(asked, exc)
    causes = tuple(_causes(exc))
    if sent is None:
        sent = not any(isinstance(cause, _NO_URL) or _while_connecting(cause) for cause in causes)
    slow = any(isinstance(cause, _IN_TIME) for cause in causes)
    return errors.unanswered(asked, service, _why(exc, causes), sent=sent, slow=slow)


def _while_connecting(cause: BaseException) -> bool:
    # Time-outs, resets and TLS failures read the same before and after a request
    # is sent; only the traceback distinguishes them.
    frames = traceback.walk_tb(cause.__traceback__)
    return any(frame.f_code.co_name == 'connect' for frame, _ in frames)


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        # urllib3 keeps the reason of a failed attempt as an attribute.
        reason = getattr(exc, 'reason', None)
        if isinstance(reason, BaseException):
            yield reason
        exc = exc.__cause__ or exc.__context__


def _why(exc: BaseException, causes: tuple[BaseException, ...]) -> str:
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return f'TLS failed ({cause.reason or cause})'
        if (
            isinstance(cause, OSError)
            and cause.strerror
            and not isinstance(cause, requests.exceptions.RequestException)
        ):
            return cause.strerror.lower()
    if any(isinstance(cause, _IN_TIME) for cause in causes):
        return 'it took too long'
    for cause in causes:
        if isinstance(cause, http.client.HTTPException):
            return _one_line(cause)
    return _one_line(exc)


def _one_line(exc: BaseException) -> str:
    return ' '.join(str(exc).split()).rstrip('.')
