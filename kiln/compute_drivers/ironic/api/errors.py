"""Mapping of Ironic's error answers to kiln's exceptions; pure."""

from __future__ import annotations

import re
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    PermissionDenied,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
    Verdict,
)
from kiln.openstack.replies import Reply

#: Words of Ironic about a node that another request holds at the moment.
_LOCKED = re.compile(r'\bis locked by host\b', re.IGNORECASE)
#: Words about a state of a node that does not allow an action.
_STATE = re.compile(
    r'can ?not be performed on node|while (it is )?in state|in an invalid (provision )?state|'
    r'maintenance mode',
    re.IGNORECASE,
)
_KIND: dict[int, type[AmphoraComputeError]] = {
    401: AuthenticationFailed,
    403: PermissionDenied,
    406: UnsupportedOperation,
    408: ServiceUnavailable,
    413: RateLimited,
    429: RateLimited,
    501: UnsupportedOperation,
}


def is_locked(reply: Reply) -> bool:
    """Return True if another request holds the node: nothing was done, and that passes."""
    return reply.status == 409 and _LOCKED.search(reply.reason or '') is not None


def refused(asked: Asked, reply: Reply, *, now: float) -> AmphoraComputeError:
    """Return the error for an answer with a status of 300 or above."""
    kind, more = _meaning(asked, reply)
    said = reply.reason
    if said is None:
        address = ', or a wrong endpoint,' if reply.status in (300, 404) else ''
        why = f'something in front of Ironic{address} answered {reply.status}'
    else:
        why = f'Ironic answered {reply.status}: {said.rstrip(".")}'
    more.setdefault('retry_after', reply.retry_after(now))
    return asked.error(
        kind, f'{why}.', http_status=reply.status, request_id=reply.request_id, **more
    )


def _meaning(asked: Asked, reply: Reply) -> tuple[type[AmphoraComputeError], dict[str, Any]]:
    status, said = reply.status, reply.reason or ''
    if kind := _KIND.get(status):
        return kind, {}
    match status:
        case 400 | 409:
            return _in_conflict(asked, reply, said)
        case 404:
            return _not_found(asked, reply), {}
    if status < 400:
        return ServiceUnavailable, {}
    if status < 500:
        return AmphoraComputeError, {'outcome': Outcome.NOT_APPLIED, 'circuit': Verdict.NEUTRAL}
    if asked.making:
        return BuildOutcomeUnknown, {}
    return ServiceUnavailable, {'outcome': asked.left}


def _in_conflict(
    asked: Asked, reply: Reply, said: str
) -> tuple[type[AmphoraComputeError], dict[str, Any]]:
    locked = is_locked(reply)
    if asked.verb == 'delete':
        return DeleteFailed, {'retryable': locked}
    if reply.status == 409 or _STATE.search(said):
        if asked.building:
            return BuildConflict, {'retryable': locked}
        return InstanceStateConflict, {'retryable': locked}
    return (InvalidBuildRequest if asked.building else InvalidRequest), {}


def _not_found(asked: Asked, reply: Reply) -> type[AmphoraComputeError]:
    # The 404 of a proxy or a wrong endpoint is not about an amphora: it must never be read
    # as "gone".
    if reply.reason is None:
        return ServiceUnavailable
    if asked.building:
        return InvalidBuildRequest
    if asked.amphora_id is not None and 'allocation' in reply.reason.lower():
        return InstanceNotFoundError
    return ResourceNotFoundError


def unreadable(asked: Asked, reply: Reply) -> AmphoraComputeError:
    """Return the error for a successful answer that is not Ironic's own."""
    kind = BuildOutcomeUnknown if asked.making else ServiceUnavailable
    return asked.error(
        kind,
        f'something in front of Ironic answered {reply.status} without JSON.',
        outcome=asked.left,
        http_status=reply.status,
        request_id=reply.request_id,
    )
