"""What it means that a service, or Keystone before it, gave no answer at all.

keystoneauth calls any trouble of a connection one that could not be made; what
is underneath knows whether the request was sent, and that decides whether it
may be repeated.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import requests
import urllib3.exceptions
from keystoneauth1 import exceptions as ksa

from kiln.compute_drivers.nova import errors
from kiln.compute_drivers.nova.errors import Asked
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    PermissionDenied,
    ServiceUnavailable,
)


def no_entry(asked: Asked, exc: ksa.ClientException) -> AmphoraComputeError:
    """Return the error for a token that was not to be had; nothing was sent."""
    if isinstance(exc, ksa.HttpError):
        status = exc.http_status
        facts = {'http_status': status, 'request_id': exc.request_id}
        said = str(exc.message).rstrip('.')
        if status == 401:
            return asked.error(
                AuthenticationFailed, f'Keystone refuses the credentials: {said}.', **facts
            )
        if status == 403:
            return asked.error(PermissionDenied, f'Keystone answered 403: {said}.', **facts)
        return asked.error(
            ServiceUnavailable,
            f'Keystone answered {status}: {said}. Look at auth_url.',
            retryable=status >= 500,
            **facts,
        )
    if isinstance(exc, ksa.DiscoveryFailure):
        return asked.error(
            ServiceUnavailable, f'there is no Keystone at auth_url: {_one_line(exc)}.'
        )
    if isinstance(exc, ksa.ConnectionError):
        return unanswered(asked, 'identity', exc, sent=False)
    return asked.error(AuthenticationFailed, f'there is no token: {_one_line(exc)}.')


# Failures of a connection that never came to be.
_NOT_SENT = (
    requests.exceptions.ConnectTimeout,
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.ProxyError,
    ssl.SSLCertVerificationError,
    ConnectionRefusedError,
)
_IN_TIME = (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)


def unanswered(
    asked: Asked, service: str, exc: ksa.ClientException, *, sent: bool | None = None
) -> AmphoraComputeError:
    """Return the error for a request without an answer; what ``sent`` is None for is found out."""
    causes = tuple(_causes(exc))
    if sent is None:
        sent = not any(isinstance(cause, _NOT_SENT) for cause in causes)
    slow = any(isinstance(cause, _IN_TIME) for cause in causes)
    return errors.unanswered(asked, service, _why(exc, causes), sent=sent, slow=slow)


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
    return _one_line(exc)


def _one_line(exc: BaseException) -> str:
    return ' '.join(str(exc).split()).rstrip('.')
