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

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import PLAIN, Meaning, refusal, unforeseen
from kiln.exceptions import (
    AmphoraComputeError,
    BuildConflict,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UserDataTooLarge,
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
    meaning = _meaning(asked, reply)
    if issubclass(meaning[0], InstanceStateConflict) and _OF_STATE.search(reply.reason or ''):
        # Callers take a conflict that names a port for one about the port.
        asked = dataclasses.replace(asked, resource_id=None)
    return refusal(asked, reply, meaning, now=now)


# What the service of an amphora calls it, in a 404.
_INSTANCES: Mapping[str, str] = {'compute': 'instance', 'orchestration': 'stack'}


def _meaning(asked: Asked, reply: Reply) -> Meaning:
    status, said = reply.status, reply.reason or ''
    if plain := PLAIN.get(status):
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
    return unforeseen(asked, status)


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


def _conflict(asked: Asked, said: str) -> Meaning:
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


def fault_code(fault: str | None) -> str | None:
    """Return the code of the build error that matches the fault of a server."""
    if fault is None:
        return None
    if _CAPACITY.search(fault):
        return InsufficientCapacity.code
    return QuotaExceeded.code if _QUOTA.search(fault) else None
