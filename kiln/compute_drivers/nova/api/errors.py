"""Mapping of OpenStack error responses to kiln's exceptions; pure.

The only place where errors of Nova, Neutron, Glance, Heat and Keystone become kiln's.
The mapping depends on the status, on the author of the body (the service, or a
proxy in front of it) and on the request; the text decides only where nothing
else distinguishes two errors.
"""

from __future__ import annotations

import dataclasses
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
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    Outcome,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
    UserDataTooLarge,
    Verdict,
)
from kiln.openstack.replies import Reply

_QUOTA = re.compile(
    r'quota|\bexceeded\b.*\bports?\b|ports? exceeded|\bmaximum stacks per\b', re.IGNORECASE
)
_CAPACITY = re.compile(
    r'no valid host|exceeded maximum number of retries|exceeded max scheduling attempts|'
    r'failed to claim pci|binding failed|insufficient compute resources|'
    r'(anti-)?affinity (instance )?group policy was violated',
    re.IGNORECASE,
)
#: Words of Heat, which answers 400 if a service does not answer that is to know a name.
_AWAY = re.compile(
    r'unable to establish connection|service unavailable|timed out|gateway time-?out',
    re.IGNORECASE,
)
#: Words about a fixed address in use, for which Nova answers as for a wrong one.
_TAKEN = re.compile(r'\bip address \S+ is already in use\b', re.IGNORECASE)
#: Words about the state of a server, and about a state that passes by itself.
_OF_STATE = re.compile(r'\b(?:task|vm)_state\b')
_PASSING = re.compile(r'\btask_state\b|\bvm_state building\b')


def refused(asked: Asked, reply: Reply, *, now: float) -> AmphoraComputeError:
    """Return the error for a response with a status of 300 or above."""
    kind, more = _meaning(asked, reply)
    said = reply.reason
    if issubclass(kind, InstanceStateConflict) and _OF_STATE.search(said or ''):
        # Callers take a conflict that names a port for one about the port.
        asked = dataclasses.replace(asked, resource_id=None)
    if said is None:
        address = ', or a wrong endpoint,' if reply.status in _ASTRAY else ''
        why = f'something in front of {reply.who}{address} answered {reply.status}'
    else:
        why = f'{reply.who} answered {reply.status}: {said.rstrip(".")}'
    more.setdefault('retry_after', reply.retry_after(now))
    return asked.error(
        kind, f'{why}.', http_status=reply.status, request_id=reply.request_id, **more
    )


# What the service of an amphora calls it, in a 404.
_INSTANCES: Mapping[str, str] = {'compute': 'instance', 'orchestration': 'stack'}
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


def _meaning(asked: Asked, reply: Reply) -> tuple[type[AmphoraComputeError], dict[str, Any]]:
    status, said = reply.status, reply.reason or ''
    if plain := _PLAIN.get(status):
        return plain, {}
    match status:
        case 400:
            return _bad_request(asked, reply, said), {}
        case 403:
            return (QuotaExceeded if _QUOTA.search(said) else PermissionDenied), {}
        case 404:
            return _not_found(asked, reply), {}
        case 409:
            return _conflict(asked, said)
        case 413:
            return _too_large(asked, reply), {}
    if status < 400:
        return ServiceUnavailable, {}
    if status < 500:
        return AmphoraComputeError, {'outcome': Outcome.NOT_APPLIED, 'circuit': Verdict.NEUTRAL}
    # The request might have taken effect before the response failed.
    if asked.making:
        return BuildOutcomeUnknown, {}
    return ServiceUnavailable, {'outcome': asked.left}


def _bad_request(asked: Asked, reply: Reply, said: str) -> type[AmphoraComputeError]:
    if reply.service == 'orchestration':
        if _QUOTA.search(said):
            return QuotaExceeded
        if _AWAY.search(said):
            return ServiceUnavailable
    if asked.building:
        if _CAPACITY.search(said):
            return InsufficientCapacity
        return BuildConflict if _TAKEN.search(said) else InvalidBuildRequest
    return DeleteFailed if asked.verb == 'delete' else InvalidRequest


def _not_found(asked: Asked, reply: Reply) -> type[AmphoraComputeError]:
    # The 404 of a proxy or a wrong endpoint is not about an instance: it must
    # never be read as "gone".
    if reply.reason is None:
        return ServiceUnavailable
    if asked.building:
        return InvalidBuildRequest
    # The missing object can be the port, or the console, of an existing instance.
    word = _INSTANCES.get(reply.service)
    if asked.amphora_id is not None and word and word in reply.reason.lower():
        return InstanceNotFoundError
    return ResourceNotFoundError


def _conflict(asked: Asked, said: str) -> tuple[type[AmphoraComputeError], dict[str, Any]]:
    # Neutron answers 409 for a full quota; Nova for a busy instance, which does
    # not stay busy.
    busy = _PASSING.search(said) is not None
    if _QUOTA.search(said):
        return QuotaExceeded, {}
    if asked.building:
        return BuildConflict, {}
    if asked.verb == 'delete':
        return DeleteFailed, {'retryable': busy}
    if asked.verb == 'resume' and 'vm_state' in said:
        return NotSuspendedError, {}
    return InstanceStateConflict, {'retryable': busy}


def _too_large(asked: Asked, reply: Reply) -> type[AmphoraComputeError]:
    body = reply.body if isinstance(reply.body, Mapping) else {}
    if 'retry-after' in reply.headers or 'overLimit' in body:
        return RateLimited
    return UserDataTooLarge if asked.building else InvalidRequest


def unreadable(asked: Asked, reply: Reply) -> AmphoraComputeError:
    """Return the error for a successful response that is not the service's own."""
    why = f'something in front of {reply.who} answered {reply.status} without JSON.'
    kind = BuildOutcomeUnknown if asked.making else ServiceUnavailable
    return asked.error(
        kind,
        why,
        outcome=asked.left,
        http_status=reply.status,
        request_id=reply.request_id,
    )


def fault_code(fault: str | None) -> str | None:
    """Return the code of the build error that matches the fault of a server."""
    if fault is None:
        return None
    if _CAPACITY.search(fault):
        return InsufficientCapacity.code
    return QuotaExceeded.code if _QUOTA.search(fault) else None
