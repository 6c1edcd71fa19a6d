"""Mapping of connection and Keystone failures to kiln's exceptions.

keystoneauth reports every connection problem as a failure to connect. The
underlying exception shows whether the request was sent, and that decides
whether it can be repeated.
"""

from __future__ import annotations

import http.client
import math
from typing import Any

import requests
from keystoneauth1 import exceptions as ksa

from kiln.clock import current_deadline
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    Outcome,
    PermissionDenied,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.foreign.connection_failures import (
    IN_TIME,
    causes_of,
    one_line,
    reason,
    was_sent,
)
from kiln.openstack.replies import SERVICES, Reply


def time_left(
    asked: Asked, service: str, connect_s: float, answer_s: float
) -> tuple[float, float]:
    """Return the seconds that a request may take to connect, and to be answered.

    :raises ServiceTimeout: the deadline of the call has passed; nothing was sent.
    """
    deadline = current_deadline()
    left_s = math.inf if deadline is None else deadline.remaining_s()
    if left_s <= 0:
        raise asked.error(
            ServiceTimeout,
            f'no time was left for a request to {SERVICES[service]}.',
            outcome=Outcome.NOT_APPLIED,
        )
    return min(connect_s, left_s), min(answer_s, left_s)


def no_entry(asked: Asked, exc: ksa.ClientException) -> AmphoraComputeError:
    """Return the error for a token that could not be obtained; nothing was sent."""
    if isinstance(exc, ksa.HttpError):
        return _turned_away(asked, exc)
    if isinstance(exc, ksa.DiscoveryFailure):
        for cause in causes_of(exc):
            if isinstance(cause, ksa.ConnectionError):
                return unanswered(asked, 'identity', cause, sent=False)
        return asked.error(
            ServiceUnavailable, f'no Keystone answers at auth_url: {one_line(exc)}.'
        )
    if isinstance(exc, ksa.ConnectionError):
        return unanswered(asked, 'identity', exc, sent=False)
    if isinstance(exc, ksa.CatalogException):
        return asked.error(
            ServiceUnavailable, f'the catalogue is not usable: {one_line(exc)}.', retryable=False
        )
    return asked.error(AuthenticationFailed, f'Keystone gave no token ({one_line(exc)}).')


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


def unanswered(
    asked: Asked, service: str, exc: ksa.ClientException, *, sent: bool | None = None
) -> AmphoraComputeError:
    """Return the error for a request without a response; ``sent=None`` means: find out."""
    if not isinstance(exc, ksa.ConnectionError):
        # The token was refused, and no new token could be obtained.
        return no_entry(asked, exc)
    causes = tuple(causes_of(exc))
    slow = any(isinstance(cause, IN_TIME) for cause in causes)
    plain = [cause for cause in causes if isinstance(cause, http.client.HTTPException)]
    return asked.unanswered(
        SERVICES.get(service, service),
        reason(causes, slow=slow) or one_line([*plain, exc][0]),
        sent=was_sent(causes) if sent is None else sent,
        slow=slow,
    )
