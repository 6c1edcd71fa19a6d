"""Mapping of error responses of Ironic, Neutron and Glance to kiln's exceptions; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
    Verdict,
)
from kiln.openstack.replies import Reply

_QUOTA = re.compile(r'quota', re.IGNORECASE)
#: Words of Ironic about a node that another task holds; that ends by itself.
_LOCKED = re.compile(r'is locked by host', re.IGNORECASE)
# The statuses that a wrong address returns.
_ASTRAY = (300, 404)
# The statuses that mean the same for every request and every author.
_PLAIN: Mapping[int, type[AmphoraComputeError]] = {
    401: AuthenticationFailed,
    406: UnsupportedOperation,
    # The request did not arrive as a whole.
    408: ServiceUnavailable,
    429: RateLimited,
    501: UnsupportedOperation,
}


def refused(asked: Asked, reply: Reply, *, now: float) -> AmphoraComputeError:
    """Return the error for a response with a status of 300 or above."""
    kind, more = _meaning(asked, reply)
    said = reply.reason
    if said is None:
        address = ', or a wrong endpoint,' if reply.status in _ASTRAY else ''
        why = f'something in front of {reply.who}{address} answered {reply.status}'
    else:
        why = f'{reply.who} answered {reply.status}: {said.rstrip(".")}'
    more.setdefault('retry_after', reply.retry_after(now))
    return asked.error(
        kind, f'{why}.', http_status=reply.status, request_id=reply.request_id, **more
    )


def _meaning(asked: Asked, reply: Reply) -> tuple[type[AmphoraComputeError], dict[str, Any]]:
    status, said = reply.status, reply.reason or ''
    if plain := _PLAIN.get(status):
        return plain, {}
    match status:
        case 400 | 413:
            return _bad_request(asked), {}
        case 403:
            return (QuotaExceeded if _QUOTA.search(said) else PermissionDenied), {}
        case 404:
            return _not_found(asked, reply), {}
        case 409:
            return _conflict(asked, said)
    if status < 400:
        return ServiceUnavailable, {}
    if status < 500:
        return AmphoraComputeError, {'outcome': Outcome.NOT_APPLIED, 'circuit': Verdict.NEUTRAL}
    # The request might have taken effect before the response failed.
    if asked.making:
        return BuildOutcomeUnknown, {}
    return ServiceUnavailable, {'outcome': asked.left}


def _bad_request(asked: Asked) -> type[AmphoraComputeError]:
    if asked.building:
        return InvalidBuildRequest
    return DeleteFailed if asked.verb == 'delete' else InvalidRequest


def _not_found(asked: Asked, reply: Reply) -> type[AmphoraComputeError]:
    # The 404 of a proxy or a wrong endpoint is about nothing: it must never be read as "gone".
    if reply.reason is None:
        return ServiceUnavailable
    return InvalidBuildRequest if asked.building and not asked.looking else ResourceNotFoundError


def _conflict(asked: Asked, said: str) -> tuple[type[AmphoraComputeError], dict[str, Any]]:
    if _QUOTA.search(said):
        return QuotaExceeded, {}
    busy = _LOCKED.search(said) is not None
    if asked.building:
        return BuildConflict, {'retryable': busy}
    if asked.verb == 'delete':
        return DeleteFailed, {'retryable': busy}
    return InstanceStateConflict, {'retryable': busy}


def is_locked(error: AmphoraComputeError) -> bool:
    """Return True if Ironic refused a request because another task holds the node."""
    return error.http_status == 409 and _LOCKED.search(str(error)) is not None


def unreadable(asked: Asked, reply: Reply) -> AmphoraComputeError:
    """Return the error for a successful response that is not the service's own."""
    kind = BuildOutcomeUnknown if asked.making else ServiceUnavailable
    return asked.error(
        kind,
        f'something in front of {reply.who} answered {reply.status} without JSON.',
        outcome=asked.left,
        http_status=reply.status,
        request_id=reply.request_id,
    )
