"""Mapping of error answers of Ironic and Neutron to kiln's exceptions; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import PLAIN, Meaning, refusal, unforeseen
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
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
#: Words of Neutron about a full quota, for which it answers as for a conflict.
_QUOTA = re.compile('quota', re.IGNORECASE)
_KIND: Mapping[int, type[AmphoraComputeError]] = {
    **PLAIN,
    403: PermissionDenied,
    413: RateLimited,
}


def is_locked(reply: Reply) -> bool:
    """Return True if another request holds the node: nothing was done, and that passes."""
    return reply.status == 409 and _LOCKED.search(reply.reason or '') is not None


def refused(asked: Asked, reply: Reply, *, now: float) -> AmphoraComputeError:
    """Return the error for an answer with a status of 300 or above."""
    return refusal(asked, reply, _meaning(asked, reply), now=now)


def _meaning(asked: Asked, reply: Reply) -> Meaning:
    status, said = reply.status, reply.reason or ''
    if kind := _KIND.get(status):
        return kind, {}
    match status:
        case 409 if reply.service == 'network' and _QUOTA.search(said):
            return QuotaExceeded, {}
        case 400 | 409:
            return _in_conflict(asked, reply, said)
        case 404:
            return _not_found(asked, reply), {}
    return unforeseen(asked, status)


def _in_conflict(asked: Asked, reply: Reply, said: str) -> Meaning:
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
