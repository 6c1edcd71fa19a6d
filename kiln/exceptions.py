"""Every error a caller of kiln may see.

Each class answers, as data, the questions a controller has after a failure:
which error is it (``code``), what do I do now (``advice``), may I make the same
call again and when (``retryable``, ``retry_after``), what is left in the backend
(``outcome``), and does it say something about the backend's health (``circuit``).
Nobody needs to read the text to decide what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kiln.advice import Advice as Advice
from kiln.advice import Outcome as Outcome
from kiln.advice import Verdict as Verdict
from kiln.configuration_exceptions import ConfigurationError as ConfigurationError
from kiln.configuration_exceptions import DriverConflict as DriverConflict
from kiln.configuration_exceptions import DriverLoadError as DriverLoadError
from kiln.configuration_exceptions import DriverNotFound as DriverNotFound
from kiln.configuration_exceptions import KilnError as KilnError
from kiln.configuration_exceptions import agreeing
from kiln.masking import redact as redact


class AmphoraComputeError(KilnError):
    """Root of all errors of compute drivers, and the one for the unforeseen."""

    code = 'compute_error'
    remedy = 'See the cause in the log; nothing is known of what was done.'
    # Defaults of the class; an instance may know better and override each.
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
                setattr(self, name, redact(value) if name == 'fault' else value)
        if retry_after is not None:
            self.retry_after = retry_after
        if outcome is not None:
            self.outcome = outcome
        if circuit is not None:
            self.circuit = circuit
        if advice is None:
            advice = self._advised(retryable, outcome)
        if advice is not self.advice:
            self.advice, self.retryable = advice, advice.again

    def _advised(self, retryable: bool | None, outcome: Outcome | None) -> Advice:
        """Return the advice that agrees with what an instance knows better than its class."""
        advice = self.advice
        if retryable is not None:
            advice = agreeing(advice, retryable=retryable)
        if advice is Advice.BUILD_ANEW and outcome not in (None, Outcome.NOT_APPLIED):
            # What may be left is found and taken up, or removed, by its key alone.
            advice = Advice.REPEAT
        return advice

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own way calls the class with args alone and then sets
        # __dict__, which is what we want; said here because a subclass that
        # adds a required argument would break it.
        return (type(self), (str(self),), self.__dict__)

    def name_missing(self, **facts: str | None) -> None:
        """Add facts that the error does not carry yet, such as its backend."""
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
            advice=Advice(data['advice']) if 'advice' in data else None,
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
    remedy = 'Build again in another zone or flavor, or when machines have been freed.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildConflict(AmphoraBuildError):
    """Something the build needs belongs to somebody else."""

    code = 'build_conflict'
    remedy = 'Free the named port, name or network, or use another.'
    outcome = Outcome.NOT_APPLIED


class BuildDiffers(BuildConflict):
    """The build key has built a machine before, with other arguments."""

    code = 'build_differs'
    remedy = (
        'Use another build key, or delete the named amphora first; find_build(key) returns '
        'it as it is.'
    )


class BuildTimeout(AmphoraBuildError):
    """The instance was accepted but was not ready by its deadline."""

    code = 'build_timeout'
    remedy = (
        'Build again with the same build key and more time; look at the console log of '
        'one like it.'
    )
    advice = Advice.REPEAT
    outcome = Outcome.APPLIED


class BuildFailed(AmphoraBuildError):
    """The backend accepted the build, and the instance went to ERROR."""

    code = 'build_failed'
    remedy = 'See the fault for the reason the backend gave; build again with the same build key.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildNotRunning(AmphoraBuildError):
    """The build key has a machine that was built before, and rests in a state but ACTIVE."""

    code = 'build_not_running'
    remedy = (
        'Resume or start the named amphora, then build again with the same build key; or '
        'delete it.'
    )
    outcome = Outcome.APPLIED


class BuildVanished(AmphoraBuildError):
    """The instance was deleted by somebody else before it was ready."""

    code = 'build_vanished'
    remedy = 'See who deletes instances of this owner; build again with the same build key.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildNotFound(AmphoraBuildError):
    """Nothing was built with the key of an operation that was to be recovered."""

    code = 'build_not_found'
    remedy = 'Build again with the same build key.'
    advice = Advice.BUILD_ANEW
    outcome = Outcome.NOT_APPLIED


class BuildOutcomeUnknown(AmphoraBuildError):
    """The backend gave no answer; the instance may exist.

    Look for ``build_key`` before building again; kiln itself does so.
    """

    code = 'build_outcome_unknown'
    remedy = 'Build again with the same build key; what exists will be adopted.'
    advice = Advice.REPEAT
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
    remedy = 'Delete once more, which is safe, and allow more time.'
    advice = Advice.REPEAT
    outcome = Outcome.APPLIED


class InstanceNotFoundError(AmphoraComputeError):
    """No instance matches; the backend itself said so."""

    code = 'instance_not_found'
    remedy = 'Check the id or name; the instance may have been deleted.'
    advice = Advice.GIVE_UP
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
    remedy = 'Bring the instance to the state named first; where it is busy, wait.'
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class ChangeFailed(AmphoraComputeError):
    """The backend agreed to a change of the amphora, which then went to ERROR."""

    code = 'change_failed'
    remedy = 'See the fault for the reason; bring the amphora back to work, or delete it.'
    outcome = Outcome.APPLIED
    circuit = Verdict.NEUTRAL


class NotSuspendedError(InstanceStateConflict):
    """resume() was attempted on an instance that was not suspended."""

    code = 'not_suspended'
    remedy = 'Nothing to resume; look at the status first.'
    advice = Advice.GIVE_UP


# ---- the service ----------------------------------------------------------


class ComputeServiceError(AmphoraComputeError):
    """The backend's service, not the request, is the trouble."""

    code = 'compute_service_error'
    remedy = 'Look at the health of the backend.'


class ServiceUnavailable(ComputeServiceError):
    """The backend cannot be reached or says it cannot serve."""

    code = 'service_unavailable'
    remedy = 'Wait; kiln tries again by itself where that is safe.'
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED


class ServiceTimeout(ComputeServiceError):
    """The backend gave no answer in time; the request may have taken effect."""

    code = 'service_timeout'
    remedy = (
        'Repeat a read, a delete or a build with its key; look before you repeat any other change.'
    )
    advice = Advice.REPEAT
    outcome = Outcome.UNKNOWN


class RateLimited(ComputeServiceError):
    """The backend, or kiln's own bucket for it, asks for fewer calls."""

    code = 'rate_limited'
    remedy = 'Repeat after retry_after seconds.'
    advice = Advice.WAIT
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
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class OperationRejected(AmphoraComputeError):
    """The queue of the backend is full, the facade is closed, or the interpreter is ending."""

    code = 'operation_rejected'
    remedy = 'Offer less work at a time, or repeat after retry_after seconds.'
    advice = Advice.WAIT
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL


class OperationTimeout(AmphoraComputeError):
    """The deadline of an operation passed before it was done."""

    code = 'operation_timeout'
    remedy = 'Repeat with more time, or look at the health of the backend.'
    advice = Advice.REPEAT
    circuit = Verdict.NEUTRAL


class OperationCancelled(AmphoraComputeError):
    """The caller cancelled the operation, or the facade was closed under it."""

    code = 'operation_cancelled'
    remedy = 'Nothing to do; where it had been sent, the message says what may be left.'
    advice = Advice.GIVE_UP
    circuit = Verdict.NEUTRAL


class ForkedError(AmphoraComputeError):
    """It was begun, or opened, before a fork, and belongs to the parent process."""

    code = 'forked'
    remedy = 'Open a backend in this process; there, build again with the same build key.'
    advice = Advice.REPAIR
    circuit = Verdict.NEUTRAL


class UnsupportedOperation(AmphoraComputeError, NotImplementedError):
    """The driver lacks this ability; it is not in its capabilities."""

    code = 'unsupported_operation'
    remedy = 'Ask capabilities() first, or use a backend that can.'
    advice = Advice.GIVE_UP
    outcome = Outcome.NOT_APPLIED
    circuit = Verdict.NEUTRAL
