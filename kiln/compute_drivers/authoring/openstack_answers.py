"""Errors for answers of OpenStack's services: what is the same for each of them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildOutcomeUnknown,
    Outcome,
    RateLimited,
    ServiceUnavailable,
    UnsupportedOperation,
    Verdict,
)
from kiln.openstack.replies import Reply

#: The class of an error, and what else it is given.
Meaning = tuple[type[AmphoraComputeError], dict[str, Any]]

#: The statuses that mean the same for every request and every author.
PLAIN: Mapping[int, type[AmphoraComputeError]] = {
    401: AuthenticationFailed,
    406: UnsupportedOperation,
    # The request did not arrive as a whole.
    408: ServiceUnavailable,
    429: RateLimited,
    501: UnsupportedOperation,
}
# The statuses that a wrong address returns.
_ASTRAY = (300, 404)


def unforeseen(asked: Asked, status: int) -> Meaning:
    """Return what a status means that has no meaning for the request itself."""
    if status < 400:
        return ServiceUnavailable, {}
    if status < 500:
        return AmphoraComputeError, {'outcome': Outcome.NOT_APPLIED, 'circuit': Verdict.NEUTRAL}
    # The request might have taken effect before the response failed.
    if asked.making:
        return BuildOutcomeUnknown, {}
    return ServiceUnavailable, {'outcome': asked.left}


def refusal(asked: Asked, reply: Reply, meaning: Meaning, *, now: float) -> AmphoraComputeError:
    """Return the error of a meaning, in the words of the service."""
    kind, more = meaning
    said = reply.reason
    if said is None:
        address = ', or a wrong endpoint,' if reply.status in _ASTRAY else ''
        why = f'something in front of {reply.who}{address} answered {reply.status}'
    else:
        why = f'{reply.who} answered {reply.status}: {said.rstrip(".")}'
    facts = {'retry_after': reply.retry_after(now), **more}
    return asked.error(
        kind, f'{why}.', http_status=reply.status, request_id=reply.request_id, **facts
    )


def unreadable(asked: Asked, reply: Reply) -> AmphoraComputeError:
    """Return the error for a successful response that is not the service's own."""
    return asked.error(
        BuildOutcomeUnknown if asked.making else ServiceUnavailable,
        f'something in front of {reply.who} answered {reply.status} without JSON.',
        outcome=asked.left,
        http_status=reply.status,
        request_id=reply.request_id,
    )
