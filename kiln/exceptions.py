"""Every error a caller of kiln may see.

Each class answers, as data, the four questions a controller has after a
failure: which error is it (``code``), may I try again and when (``retryable``,
``retry_after``), what is left in the backend (``outcome``), and does it say
something about the backend's health (``circuit``). Nobody needs to read the
text to decide what to do.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any, ClassVar


class Outcome(enum.StrEnum):
    """What a failed request left behind in the backend."""

    NOT_APPLIED = 'not_applied'
    UNKNOWN = 'unknown'
    APPLIED = 'applied'


class Verdict(enum.StrEnum):
    """What an error says about the health of the backend that gave it."""

    FAILURE = 'failure'
    # The backend answered, so it is alive; but a refusal proves no recovery
    # either, and must not wipe the history of earlier failures.
    NEUTRAL = 'neutral'
    SUCCESS = 'success'


_SECRETS = (
    re.compile(r'(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)', re.DOTALL),
    # A password may hold an @ of its own; a user may have no name.
    re.compile(r'(://[^/\s:@]*:)[^\s/]+(@)'),
    re.compile(
        r'(\b(?:bearer|authorization["\']?\s*[:=]\s*["\']?basic)\s+)[\w.~+/=-]+()', re.IGNORECASE
    ),
    re.compile(
        r'((?:password|passwd|secret|token|api[_-]?key|credential|private[_-]?key)\w*'
        r'["\']?\s*[:=]\s*["\']?)[^"\'\s,;&}]+()',
        re.IGNORECASE,
    ),
)

_SIGNS = ('pass', 'secret', 'token', 'key', 'credential', 'bearer', 'authorization', '://')


def redact(text: str) -> str:
    """Mask what looks like a credential in a text from a backend."""
    # Most texts have none of it, and errors are made on the path of refusals.
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return text
    for pattern in _SECRETS:
        text = pattern.sub(r'\1***\2', text)
    return text


class KilnError(Exception):
    """The root of all errors that kiln raises."""

    code: ClassVar[str] = 'kiln_error'
    remedy: ClassVar[str] = 'Read the message; it names the object and the next step.'

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class ConfigurationError(KilnError):
    """The configuration cannot be used as it is written."""

    code = 'configuration_error'
    remedy = 'Correct the named option or group.'


class DriverNotFound(ConfigurationError):
    """No installed driver has the name asked for."""

    code = 'driver_not_found'
    remedy = 'Choose one of the listed drivers, or install the package that has it.'


class DriverLoadError(ConfigurationError):
    """A driver is installed but cannot be loaded."""

    code = 'driver_load_error'
    remedy = 'Install the extra the message names, or repair the driver.'


class DriverConflict(ConfigurationError):
    """Two installed packages offer a driver of one name."""

    code = 'driver_conflict'
    remedy = 'Uninstall one of the named packages.'


class AmphoraComputeError(KilnError):
    """Root of all errors of compute drivers, and the one for the unforeseen."""

    code = 'compute_error'
    remedy = 'See the cause in the log; nothing is known of what was done.'
    # Defaults of the class; an instance may know better and override each.
    retryable: bool = False
    retry_after: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    circuit: Verdict = Verdict.FAILURE

    #: Facts an error may carry beside its text; all default to None.
    FACTS: ClassVar[tuple[str, ...]] = (
        'backend',
        'operation',
        'amphora_id',
        'build_key',
        'resource_id',
        'http_status',
        'request_id',
        'fault',
    )
    backend: str | None = None
    operation: str | None = None
    amphora_id: str | None = None
    build_key: str | None = None
    resource_id: str | None = None
    http_status: int | None = None
    request_id: str | None = None
    fault: str | None = None

    def __init__(
        self,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after: float | None = None,
        outcome: Outcome | None = None,
        circuit: Verdict | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message)
        if unknown := facts.keys() - set(self.FACTS):
            raise TypeError(f'{type(self).__name__} carries no {", ".join(sorted(unknown))}')
        given = dict(
            facts,
            retryable=retryable,
            retry_after=retry_after,
            outcome=outcome,
            circuit=circuit,
        )
        for name, value in given.items():
            if value is not None:
                setattr(self, name, redact(value) if name == 'fault' else value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with args alone and then sets
        # __dict__, which is what we want; said here because a subclass that
        # adds a required argument would break it.
        return (type(self), (str(self),), self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, for logs, APIs and stores."""
        facts = {name: getattr(self, name) for name in self.FACTS}
        return {
            'code': self.code,
            'message': str(self),
            'retryable': self.retryable,
            'retry_after': self.retry_after,
            'outcome': self.outcome.value,
            'circuit': self.circuit.value,
            **{name: value for name, value in facts.items() if value is not None},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AmphoraComputeError:
        """Return the error that :meth:`to_dict` described.

        Its class is found by its code, among this class and those below it; a
        code that nobody has, of a package not installed, makes it this class.
        """
        kinds = [cls]
        for kind in kinds:
            if kind.code == data.get('code'):
                break
            kinds.extend(kind.__subclasses__())
        else:
            kind = cls
        return kind(
            data.get('message', 'Cannot tell what failed: the record of the error is empty.'),
            retryable=data.get('retryable'),
            retry_after=data.get('retry_after'),
            outcome=Outcome(data['outcome']) if 'outcome' in data else None,
            circuit=Verdict(data['circuit']) if 'circuit' in data else None,
            **{name: data[name] for name in kind.FACTS if name in data},
        )


class InvalidRequest(AmphoraComputeError):
    """The request can never succeed as it is written."""

    code = 'invalid_request'
    remedy = 'Correct the argument the message names.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


# ---- build ----------------------------------------------------------------


class AmphoraBuildError(AmphoraComputeError):
    """An amphora of the specified type could not be built."""

    code = 'build_error'
    remedy = 'See the fault for the reason the backend gave.'
    circuit = Verdict.NEUTRAL


class InvalidBuildRequest(AmphoraBuildError, InvalidRequest):
    """The build request is wrong, by kiln's own check or by the backend's."""

    code = 'invalid_build_request'
    remedy = 'Correct the argument the message names.'
    outcome = Outcome.NOT_APPLIED


class UserDataTooLarge(InvalidBuildRequest):
    """User data and files do not fit into what the backend accepts."""

    code = 'user_data_too_large'
    remedy = 'Make the named content smaller, or fetch it from inside the instance.'


class QuotaExceeded(AmphoraBuildError):
    """The backend has room; the project has none left."""

    code = 'quota_exceeded'
    remedy = 'Delete some instances, or have the quota raised.'
    outcome = Outcome.NOT_APPLIED


class InsufficientCapacity(AmphoraBuildError):
    """The backend has no room for this flavor, zone or server group."""

    code = 'insufficient_capacity'
    remedy = 'Try another zone or flavor, or wait until machines are freed.'
    outcome = Outcome.NOT_APPLIED


class BuildConflict(AmphoraBuildError):
    """Something the build needs belongs to somebody else."""

    code = 'build_conflict'
    remedy = 'Free the named port, name or network, or use another.'
    outcome = Outcome.NOT_APPLIED


class BuildTimeout(AmphoraBuildError):
    """The instance was accepted but was not ready by its deadline."""

    code = 'build_timeout'
    remedy = 'Allow more time, or look at the console log of an instance like it.'
    outcome = Outcome.APPLIED


class BuildOutcomeUnknown(AmphoraBuildError):
    """The backend gave no answer; the instance may exist.

    Look for ``build_key`` before building again; kiln itself does so.
    """

    code = 'build_outcome_unknown'
    remedy = 'Build again with the same build key; what exists will be adopted.'
    outcome = Outcome.UNKNOWN
    circuit = Verdict.FAILURE


# ---- delete, look-up, state -----------------------------------------------


class DeleteFailed(AmphoraComputeError):
    """The amphora could not be deleted; it still exists."""

    code = 'delete_failed'
    remedy = 'Resolve what the backend objects to, then delete again.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class DeleteTimeout(DeleteFailed):
    """The delete was accepted, but the instance was not gone by the deadline."""

    code = 'delete_timeout'
    remedy = 'Wait and look again; deleting once more is safe.'
    retryable = True
    outcome = Outcome.APPLIED


class InstanceNotFoundError(AmphoraComputeError):
    """No instance matches; the backend itself said so."""

    code = 'instance_not_found'
    remedy = 'Check the id or name; the instance may have been deleted.'
    outcome = Outcome.NOT_APPLIED
    # A clear answer to a clear question: the backend works.
    circuit = Verdict.SUCCESS


class ResourceNotFoundError(AmphoraComputeError):
    """A port, network, group or other resource does not exist in the backend."""

    code = 'resource_not_found'
    remedy = 'Check the id the message names.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.SUCCESS


class AmbiguousInstanceError(AmphoraComputeError):
    """More than one instance has the name; none is chosen for the caller."""

    code = 'ambiguous_instance'
    remedy = 'Ask by id; the message lists the candidates.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.SUCCESS


class InstanceStateConflict(AmphoraComputeError):
    """The instance's state does not allow the operation now."""

    code = 'instance_state_conflict'
    remedy = 'Wait for the running task to end, or bring the instance to the state named.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class NotSuspendedError(InstanceStateConflict):
    """resume() was attempted on an instance that was not suspended."""

    code = 'not_suspended'
    remedy = 'Nothing to resume; look at the status first.'


# ---- the service ----------------------------------------------------------


class ComputeServiceError(AmphoraComputeError):
    """The backend's service, not the request, is the trouble."""

    code = 'compute_service_error'
    remedy = 'Look at the health of the backend.'


class ServiceUnavailable(ComputeServiceError):
    """The backend cannot be reached or says it cannot serve."""

    code = 'service_unavailable'
    remedy = 'Wait; kiln tries again by itself where that is safe.'
    retryable = True
    outcome = Outcome.NOT_APPLIED


class ServiceTimeout(ComputeServiceError):
    """The backend gave no answer in time; the request may have taken effect."""

    code = 'service_timeout'
    remedy = 'Look at the state of the object before you repeat a change.'
    retryable = True
    outcome = Outcome.UNKNOWN


class RateLimited(ComputeServiceError):
    """The backend, or kiln's own bucket for it, asks for fewer calls."""

    code = 'rate_limited'
    remedy = 'Repeat after retry_after seconds.'
    retryable = True
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class AuthenticationFailed(ComputeServiceError):
    """The backend does not accept kiln's credentials."""

    code = 'authentication_failed'
    remedy = 'Correct the credentials of the backend in the configuration.'
    outcome = Outcome.NOT_APPLIED


class PermissionDenied(ComputeServiceError):
    """The credentials are good, but they do not allow this."""

    code = 'permission_denied'
    remedy = 'Give the user the role the message names, or use another user.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


# ---- kiln's own guards ----------------------------------------------------


class CircuitOpenError(AmphoraComputeError):
    """The circuit is open: the backend failed lately and is left in peace.

    ``__cause__`` is the error that opened it, where this process saw it.
    """

    code = 'circuit_open'
    remedy = 'Repeat after retry_after seconds, or see what the cause says.'
    retryable = True
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class OperationRejected(AmphoraComputeError):
    """The queue of the backend is full, or the facade is closed."""

    code = 'operation_rejected'
    remedy = 'Offer less work at a time, or repeat later.'
    retryable = True
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class OperationTimeout(AmphoraComputeError):
    """The deadline of an operation passed before it was done."""

    code = 'operation_timeout'
    remedy = 'Allow more time, or look at the health of the backend.'
    retryable = True
    circuit = Verdict.NEUTRAL


class OperationCancelled(AmphoraComputeError):
    """The caller cancelled the operation, or the facade was closed under it."""

    code = 'operation_cancelled'
    remedy = 'Nothing to do; what it had built is removed.'
    circuit = Verdict.NEUTRAL


class UnsupportedOperation(AmphoraComputeError, NotImplementedError):
    """The driver lacks this ability; it is not in its capabilities."""

    code = 'unsupported_operation'
    remedy = 'Ask capabilities() first, or use a backend that can.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL
