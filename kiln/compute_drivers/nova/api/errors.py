"""Mapping of OpenStack error responses to kiln's exceptions; pure.

The only place where errors of Nova, Neutron, Glance and Keystone become kiln's.
The mapping depends on the status, on the author of the body (the service, or a
proxy in front of it) and on the request; the text decides only where nothing
else distinguishes two errors.
"""

from __future__ import annotations

import dataclasses
import email.utils
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

SERVICES = {'compute': 'Nova', 'network': 'Neutron', 'image': 'Glance', 'identity': 'Keystone'}

_QUOTA = re.compile(r'quota|\bexceeded\b.*\bports?\b|ports? exceeded', re.IGNORECASE)
_CAPACITY = re.compile(
    r'no valid host|exceeded maximum number of retries|exceeded max scheduling attempts|'
    r'failed to claim pci|binding failed|insufficient compute resources|'
    r'(anti-)?affinity (instance )?group policy was violated',
    re.IGNORECASE,
)
#: Words about a fixed address in use, for which Nova answers as for a wrong one.
_TAKEN = re.compile(r'\bip address \S+ is already in use\b', re.IGNORECASE)
#: Words about the state of a server, and about a state that passes by itself.
_OF_STATE = re.compile(r'\b(?:task|vm)_state\b')
_PASSING = re.compile(r'\btask_state\b|\bvm_state building\b')
_LONGEST_REASON = 500
_SECONDS = re.compile(r'[0-9]{1,9}(\.[0-9]+)?')
# The web framework's own message for a path that the service does not have. It
# never refers to an object of the service.
_NO_PATH = 'The resource could not be found.'
_BREAK = re.compile(r'<br ?/?>')
# Nova quotes values that do not fit its schemas, even secret ones.
_QUOTING = re.compile(
    r'(Invalid input for field/attribute (?:server|user_data|personality|contents)\b).*',
    re.DOTALL,
)
_COMPLAINT = re.compile(
    r"is (?:too|not) [\w ]*|'\w{1,40}' (?:is a required property|was unexpected)"
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The parts of an HTTP response that decide about the error."""

    service: str
    status: int
    headers: Mapping[str, str]
    # The JSON of the body; None if the body is not JSON, such as a proxy's HTML.
    body: Any = None

    @property
    def who(self) -> str:
        """The product name of the service."""
        return SERVICES.get(self.service, self.service)

    @property
    def request_id(self) -> str | None:
        """The id under which the service logs the request."""
        return self.headers.get('x-openstack-request-id') or self.headers.get(
            'x-compute-request-id'
        )

    @property
    def reason(self) -> str | None:
        """The service's own message; None if something else has answered."""
        text = _own_words(self.body)
        return None if text is None else _fit_to_tell(text)

    def retry_after(self, now: float) -> float | None:
        """Return the seconds of Retry-After, which is a number or a date."""
        text = self.headers.get('retry-after')
        if text is None:
            return None
        # float() strips fewer characters.
        if _SECONDS.fullmatch(stripped := text.strip()):
            return float(stripped)
        try:
            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
        # A time zone can be beyond all dates.
        except (ValueError, OverflowError):
            return None


def _own_words(body: Any) -> str | None:
    if not isinstance(body, Mapping):
        return None
    # Nova: {"badRequest": {...}}. Keystone: {"error": {...}}. Neutron:
    # {"NeutronError": {...}}. Newer ones: {"errors": [{...}]}. Glance, and the
    # frame around Nova: {"message": ..., "code": "404 Not Found", "title": ...}.
    if isinstance(errors := body.get('errors'), list) and errors:
        body = {'errors': errors[0]}
    faults = [body] if {'message', 'code', 'title'} <= body.keys() else body.values()
    for fault in faults:
        if isinstance(fault, Mapping):
            for key in ('message', 'detail', 'title'):
                if isinstance(text := fault.get(key), str) and text.strip():
                    return None if _BREAK.sub('', text).strip() == _NO_PATH else text
    return None


def _fit_to_tell(text: str) -> str:
    """Return a text as one line, without quoting what was sent."""
    line = ' '.join(_BREAK.sub(' ', text).split())
    if quoting := _QUOTING.match(line):
        *_, complaint = ['', *_COMPLAINT.findall(line)]
        line = f'{quoting[1]}: {complaint}'.rstrip(': ')
    return line[:_LONGEST_REASON]


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
            return _bad_request(asked, said), {}
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


def _bad_request(asked: Asked, said: str) -> type[AmphoraComputeError]:
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
    about_instance = reply.service == 'compute' and 'instance' in reply.reason.lower()
    if asked.amphora_id is not None and about_instance:
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
