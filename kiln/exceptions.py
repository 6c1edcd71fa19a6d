"""Errors of kiln: every exception a caller can receive.

Each class states, as data, what a controller needs after a failure: the name of the
error (``code``), what to do now (``advice``), whether and when the same call can be made
again (``retryable``, ``retry_after``), what is left in the backend (``outcome``), and
whether the error counts against the backend's health (``circuit``). No program has to
parse the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kiln.errors.advice import Advice as Advice
from kiln.errors.advice import Outcome as Outcome
from kiln.errors.advice import Verdict as Verdict
from kiln.errors.configuration import ConfigurationError as ConfigurationError
from kiln.errors.configuration import DriverConflict as DriverConflict
from kiln.errors.configuration import DriverLoadError as DriverLoadError
from kiln.errors.configuration import DriverNotFound as DriverNotFound
from kiln.errors.configuration import KilnError as KilnError
from kiln.errors.configuration import agreeing
from kiln.errors.known import KNOWN_SECRETS as KNOWN_SECRETS
from kiln.errors.known import encodings as encodings
from kiln.errors.masking import redact as redact
from kiln.errors.masking import redact_all as redact_all
from kiln.errors.masking import told as told
from kiln.foreign.text import visible as visible

#: The facts that a backend writes.
_FOREIGN = frozenset({'fault', 'request_id'})


class AmphoraComputeError(KilnError):
    """Root of all errors of compute drivers, and the error for unforeseen failures."""

    code = 'compute_error'
    remedy = 'See the cause in the log; what was done in the backend is not known.'
    # Defaults of the class; an instance can override each.
    retry_after: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    circuit: Verdict = Verdict.FAILURE

    #: Facts that an error can carry beside its text; all default to None.
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
        advice: Advice | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        outcome: Outcome | None = None,
        circuit: Verdict | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message)
        # One by one, as errors are made on the path of refusals, which come by thousands.
        for name, value in facts.items():
            if name not in self.FACTS:
                unknown = sorted(facts.keys() - set(self.FACTS))
                raise TypeError(f'{type(self).__name__} carries no {", ".join(unknown)}')
            if value is not None:
                setattr(self, name, told(value, self.longest) if name in _FOREIGN else value)
        if retry_after is not None:
            self.retry_after = retry_after
        if outcome is not None:
            self.outcome = outcome
        if circuit is not None:
            self.circuit = circuit
        if advice is None:
            advice = self._advised(retryable, outcome)
        if advice is not self.advice:
            self.advice: Advice = advice
            self.retryable: bool = advice.again

    def _advised(self, retryable: bool | None, outcome: Outcome | None) -> Advice:
        """Return the advice that agrees with the error's own facts."""
        advice = self.advice
        if retryable is not None:
            advice = agreeing(advice, retryable=retryable)
        if advice is Advice.BUILD_ANEW and outcome not in (None, Outcome.NOT_APPLIED):
            # Only its key finds what might be left, to adopt or remove it.
            advice = Advice.REPEAT
        return advice

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception.__reduce__ does the same; defined here because a subclass that adds a
        # required argument would break it.
        return (type(self), (str(self),), self.__dict__)

    def name_missing(self, **facts: str | None) -> None:
        """Add facts that the error does not carry so far, such as its backend."""
        for name, value in facts.items():
            if value is not None and getattr(self, name) is None:
                setattr(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, for logs, APIs and stores."""
        facts = {name: getattr(self, name) for name in self.FACTS}
        return {
            'code': self.code,
            'message': str(self),
            'advice': self.advice.value,
            'retryable': self.retryable,
            'retry_after': self.retry_after,
            'outcome': self.outcome.value,
            'circuit': self.circuit.value,
            **{name: value for name, value in facts.items() if value is not None},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AmphoraComputeError:
        """Return the error that :meth:`to_dict` described.

        Its class is found by its code, among this class and its subclasses. For an
        unknown code, such as that of a package that is not installed, it is this class.
        """
        kinds = [cls]
        for kind in kinds:
            if kind.code == data.get('code'):
                break
            kinds.extend(kind.__subclasses__())
        else:
            kind = cls
        return kind(
            data.get('message', 'The cause is unknown: the record of the error has no message.'),
            advice=Advice(data['advice']) if 'advice' in data else None,
            retryable=data.get('retryable'),
            retry_after=data.get('retry_after'),
            outcome=Outcome(data['outcome']) if 'outcome' in data else None,
            circuit=Verdict(data['circuit']) if 'circuit' in data else None,
            **{name: data[name] for name in kind.FACTS if name in data},
        )


class InvalidRequest(AmphoraComputeError):
    """The request can never succeed as written."""

    code = 'invalid_request'
    remedy = 'Correct the argument that the message names.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


# ---- build ----------------------------------------------------------------


class AmphoraBuildError(AmphoraComputeError):
    """An amphora could not be built."""

    code = 'build_error'
    remedy = 'See the fault for the reason that the backend gave.'
    circuit = Verdict.NEUTRAL


class InvalidBuildRequest(AmphoraBuildError, InvalidRequest):
    """The build request is wrong, according to kiln's own checks or to the backend."""

    code = 'invalid_build_request'
    remedy = 'Correct the argument that the message names.'
    outcome = Outcome.NOT_APPLIED


class UserDataTooLarge(InvalidBuildRequest):
    """User data and files exceed the size that the backend accepts."""

    code = 'user_data_too_large'
    remedy = 'Make the named content smaller, or let the amphora download it.'


class QuotaExceeded(AmphoraBuildError):
    """The quota of the project is exhausted, although the backend has room."""

    code = 'quota_exceeded'
    remedy = 'Delete some amphorae, or request a larger quota.'
    outcome = Outcome.NOT_APPLIED


class InsufficientCapacity(AmphoraBuildError):
    """The backend has no room for this flavor, zone or server group."""

    code = 'insufficient_capacity'
    remedy = 'Build again in another zone or flavor, or after machines have been deleted.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildConflict(AmphoraBuildError):
    """A resource that the build needs is in use elsewhere."""

    code = 'build_conflict'
    remedy = 'Release the named port, name or network, or use another.'
    outcome = Outcome.NOT_APPLIED


class BuildDiffers(BuildConflict):
    """The build key was used for a machine with other arguments."""

    code = 'build_differs'
    remedy = (
        'Use another build key, or delete the named amphora first. find_build(key) returns '
        'the amphora as it is.'
    )


class BuildTimeout(AmphoraBuildError):
    """The backend accepted the build, but the amphora was not ready by the deadline."""

    code = 'build_timeout'
    remedy = (
        'Build again with the same build key and more time. Check the console log of a '
        'similar amphora.'
    )
    advice = Advice.REPEAT
    outcome = Outcome.APPLIED


class BuildFailed(AmphoraBuildError):
    """The backend accepted the build, but the amphora went to ERROR."""

    code = 'build_failed'
    remedy = 'See the fault for the reason, then build again with the same build key.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildNotRunning(AmphoraBuildError):
    """The build key names an existing machine that is neither active nor becoming active."""

    code = 'build_not_running'
    remedy = (
        'Resume or start the named amphora, then build again with the same build key, or '
        'delete the amphora.'
    )
    outcome = Outcome.APPLIED


class BuildVanished(AmphoraBuildError):
    """The amphora was deleted from outside before it was ready."""

    code = 'build_vanished'
    remedy = 'Find out what deletes amphorae of this owner; build again with the same build key.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildNotFound(AmphoraBuildError):
    """Recovery of an operation found nothing that was built with its key."""

    code = 'build_not_found'
    remedy = 'Build again with the same build key.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildOutcomeUnknown(AmphoraBuildError):
    """The backend did not answer; the amphora might exist.

    Look for ``build_key`` before building again; kiln itself does so.
    """

    code = 'build_outcome_unknown'
    remedy = 'Build again with the same build key; an existing amphora is adopted.'
    advice = Advice.REPEAT
    outcome = Outcome.UNKNOWN
    circuit = Verdict.FAILURE


# ---- delete, look-up, state -----------------------------------------------


class DeleteFailed(AmphoraComputeError):
    """The amphora could not be deleted and still exists."""

    code = 'delete_failed'
    remedy = 'Resolve what the backend objects to, then delete again.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class DeleteTimeout(DeleteFailed):
    """The backend accepted the delete, but the amphora still existed at the deadline."""

    code = 'delete_timeout'
    remedy = 'Delete again, which is safe, and allow more time.'
    advice = Advice.REPEAT
    outcome = Outcome.APPLIED


class InstanceNotFoundError(AmphoraComputeError):
    """The backend reported that no amphora matches."""

    code = 'instance_not_found'
    remedy = 'Check the id or name; the amphora might have been deleted.'
    advice = Advice.GIVE_UP
    outcome = Outcome.NOT_APPLIED
    # A clear answer to a clear question: the backend works.
    circuit = Verdict.SUCCESS


class ResourceNotFoundError(AmphoraComputeError):
    """A port, network, group or other resource does not exist in the backend."""

    code = 'resource_not_found'
    remedy = 'Check the id that the message names.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.SUCCESS


class AmbiguousInstanceError(AmphoraComputeError):
    """More than one amphora has the name; kiln does not choose between them."""

    code = 'ambiguous_instance'
    remedy = 'Use one of the ids that the message lists.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.SUCCESS


class InstanceStateConflict(AmphoraComputeError):
    """The amphora's state does not allow the operation now."""

    code = 'instance_state_conflict'
    remedy = 'Bring the amphora to the named state first; if it is busy, wait.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class ChangeFailed(AmphoraComputeError):
    """The backend accepted a change of the amphora, which then went to ERROR."""

    code = 'change_failed'
    remedy = 'See the fault for the reason, then repair the amphora or delete it.'
    outcome = Outcome.APPLIED
    circuit = Verdict.NEUTRAL


class NotSuspendedError(InstanceStateConflict):
    """resume() was called for an amphora that was not suspended."""

    code = 'not_suspended'
    remedy = 'Check the status of the amphora; it does not need to be resumed.'
    advice = Advice.GIVE_UP


# ---- the service ----------------------------------------------------------


class ComputeServiceError(AmphoraComputeError):
    """The backend's service failed, regardless of the request."""

    code = 'compute_service_error'
    remedy = 'Check the health of the backend.'


class ServiceUnavailable(ComputeServiceError):
    """The backend cannot be reached, or reports that it is unavailable."""

    code = 'service_unavailable'
    remedy = 'Wait, and check that the backend can be reached.'
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED


class ServiceTimeout(ComputeServiceError):
    """The backend did not answer in time; the request might have taken effect."""

    code = 'service_timeout'
    remedy = (
        'Repeat a read, a delete or a build with its key. Before repeating any other change, '
        'check its effect.'
    )
    advice = Advice.REPEAT
    outcome = Outcome.UNKNOWN


class RateLimited(ComputeServiceError):
    """The backend, or kiln's own rate limit for it, requires fewer calls."""

    code = 'rate_limited'
    remedy = 'Repeat after retry_after seconds.'
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class AuthenticationFailed(ComputeServiceError):
    """The backend rejects kiln's credentials."""

    code = 'authentication_failed'
    remedy = 'Correct the credentials of the backend in the configuration.'
    outcome = Outcome.NOT_APPLIED


class PermissionDenied(ComputeServiceError):
    """The credentials are valid, but do not permit this request."""

    code = 'permission_denied'
    remedy = 'Grant what the message names: a role of the user, or a right of the backend.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


# ---- kiln's own guards ----------------------------------------------------


class CircuitOpenError(AmphoraComputeError):
    """The circuit is open: the backend failed recently and is not called.

    ``__cause__`` is the error that opened it, if this process received that error.
    """

    code = 'circuit_open'
    remedy = 'Repeat after retry_after seconds, or resolve the cause.'
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class OperationRejected(AmphoraComputeError):
    """The queue of the backend is full, the facade is closed, or the interpreter is ending."""

    code = 'operation_rejected'
    remedy = 'Submit fewer operations at a time, or repeat after retry_after seconds.'
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class OperationTimeout(AmphoraComputeError):
    """The deadline of the operation passed before it was done."""

    code = 'operation_timeout'
    remedy = 'Repeat with more time, or check the health of the backend.'
    advice = Advice.REPEAT
    circuit = Verdict.NEUTRAL


class OperationCancelled(AmphoraComputeError):
    """The caller cancelled the operation, or the facade was closed before it was done."""

    code = 'operation_cancelled'
    remedy = 'Nothing to do; if the request was sent, the message states what might be left.'
    advice = Advice.GIVE_UP
    circuit = Verdict.NEUTRAL


class ForkedError(AmphoraComputeError):
    """The operation or facade dates from before a fork and belongs to the parent process."""

    code = 'forked'
    remedy = 'Open a backend in this process, and build again there with the same build key.'
    advice = Advice.REPAIR
    circuit = Verdict.NEUTRAL


class UnsupportedOperation(AmphoraComputeError, NotImplementedError):
    """The driver does not support this operation; capabilities() does not list it."""

    code = 'unsupported_operation'
    remedy = 'Check capabilities() first, or use a backend that supports the operation.'
    advice = Advice.GIVE_UP
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL
