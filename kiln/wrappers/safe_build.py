"""Building on backends that may lose an answer, and leaving nothing behind.

A create cannot be repeated like a read: the lost one may have made an
instance. So after every answer that leaves a doubt the backend is asked for
the build key; what is found is adopted, and only the certainty that there is
nothing allows the request to be sent again.
"""

from __future__ import annotations

from typing import Any

from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    AmphoraBuildError,
    BuildOutcomeUnknown,
    DeleteFailed,
    OperationCancelled,
    Outcome,
)
from kiln.models import Amphora, BuildRequest, State
from kiln.wrappers.operation import Operation
from kiln.wrappers.plan import CallPlan
from kiln.wrappers.retry import Again, Backoff, Done, Failed, Step


class BuildPlan(CallPlan):
    """Builds, looks after each doubt, adopts what is found.

    Without a request it is a build of an earlier process, which can be looked
    for but not sent.
    """

    __slots__ = ('_key', '_lost', '_request', 'discards', 'doubt', 'resent')

    def __init__(
        self,
        operation: Operation[Any],
        build_key: str,
        request: BuildRequest | None,
        backoff: Backoff,
        *,
        discards: bool = True,
    ) -> None:
        super().__init__(operation, Call.FIND_BUILD, (build_key,), backoff)
        self._key = build_key
        self._request = request
        self._lost: BaseException | None = None
        # A build of an earlier process is not removed because it could not be
        # found in time: whoever recovers it decides.
        self.doubt = False
        self.discards = discards
        # A request that was thought to be lost may have come late all the same.
        self.resent = False
        if request is not None:
            self._ask(Call.BUILD, request)

    def answered(self, value: Any) -> Step:
        """Take the id; after a look adopt what it found, or send again."""
        if self.call is Call.BUILD:
            # Until the caller has it, it is what may have to be removed.
            self.doubt = True
            self.operation.amphora_id = value
            return Done(value)
        if value is not None:
            self.operation.amphora_id = value.id
            self.operation.note('adopted', value.id)
            return Done(value.id)
        if self._request is None:
            return Failed(self._not_there())
        self.operation.note('not there', 'the lost request made nothing')
        if not _may_resend(self._lost):
            return Failed(self._lost or self._not_there())
        self.resent = True
        self._ask(Call.BUILD, self._request)
        return Again()

    def failed(self, error: BaseException) -> Step:
        """Look before anything else where the error leaves a doubt."""
        if self.call is Call.FIND_BUILD:
            step = super().failed(error)
            return Failed(self._unknown(error)) if isinstance(step, Failed) else step
        outcome = getattr(error, 'outcome', Outcome.UNKNOWN)
        if outcome is Outcome.NOT_APPLIED:
            step = super().failed(error)
            # The request that was lost may be what fills the quota, and land
            # yet: no refusal is certain after it.
            final = isinstance(step, Failed)
            return Failed(self._unknown(error)) if final and self.doubt else step
        self.doubt = True
        self.last_error = error
        self.operation.amphora_id = getattr(error, 'amphora_id', None)
        if outcome is Outcome.APPLIED:
            return Failed(error)
        self._lost = error
        self.operation.note('lost', str(error))
        self._ask(Call.FIND_BUILD, self._key)
        return self.again(error)

    def overdue(self, *, in_flight: bool) -> BaseException:
        """Say that it may exist, unless it cannot."""
        if in_flight or self.doubt or self._request is None:
            return self._unknown(self.last_error)
        return super().overdue(in_flight=False)

    def call_off(self) -> None:
        """Leave what was only looked for to the next who recovers it."""
        if self._request is not None:
            super().call_off()
            return
        self.operation.fail(
            OperationCancelled(
                f'Cannot find what {self.operation.subject} built: kiln was closed first. '
                f'Recover the operation again.',
                **self.facts,
            )
        )

    def _ask(self, call: Call, argument: Any) -> None:
        self.call, self.args = call, (argument,)

    def _not_there(self) -> AmphoraBuildError:
        return AmphoraBuildError(
            f'Cannot find what {self.operation.subject} built: nothing has its key. '
            f'Build again with build_key={self._key!r}.',
            outcome=Outcome.NOT_APPLIED,
            **self.facts,
        )

    def _unknown(self, cause: BaseException | None) -> BuildOutcomeUnknown:
        why = cause or 'no answer before the deadline'
        error = BuildOutcomeUnknown(
            f'Cannot tell whether {self.operation.subject} was built: {why}', **self.facts
        )
        error.__cause__ = cause
        return error


def _may_resend(lost: BaseException | None) -> bool:
    # An answer that got lost may arrive the next time; a driver that failed in
    # a way nobody foresaw will fail so again.
    return isinstance(lost, BuildOutcomeUnknown) or bool(getattr(lost, 'retryable', False))


class TwinPlan(CallPlan):
    """Looks again, some time after, for a build that was sent twice.

    A driver that finds several instances of one key keeps the first of them.
    """

    __slots__ = ('_looks_left', '_pause_s')

    def __init__(
        self, operation: Operation[Any], build_key: str, *, grace_s: float, backoff: Backoff
    ) -> None:
        super().__init__(operation, Call.FIND_BUILD, (build_key,), backoff)
        # The later a request comes the less likely it is to come at all.
        self._pause_s = 10 * grace_s
        self._looks_left = 2

    def answered(self, value: Any) -> Step:
        """Look once more, much later."""
        self._looks_left -= 1
        return Again(self._pause_s) if self._looks_left else Done(None)

    def failed(self, error: BaseException) -> Step:
        """Look again whatever the error: outages end."""
        self.last_error = error
        return self.again(error)


class DiscardPlan(CallPlan):
    """Deletes what carries a build key, and looks again until there is nothing.

    Goes through outages: each step that fails is taken again later. A request
    whose answer was lost may still be on its way, so where the id was never
    known the last look comes after a grace.
    """

    __slots__ = ('_deleted', '_grace_s', '_in_grace', '_key', '_looks_left')

    def __init__(
        self, operation: Operation[Any], build_key: str, *, grace_s: float, backoff: Backoff
    ) -> None:
        super().__init__(operation, Call.FIND_BUILD, (build_key,), backoff)
        self._key = build_key
        self._grace_s = grace_s
        self._looks_left = 2
        self._deleted: str | None = None
        # Nothing was found, and only the second look is missing.
        self._in_grace = False
        if operation.amphora_id is not None:
            self._looks_left = 1
            self._delete(operation.amphora_id)

    def answered(self, value: Any) -> Step:
        """After a delete look; after a look delete, or look once more."""
        self._in_grace = False
        if self.call is Call.DELETE:
            self.call, self.args = Call.FIND_BUILD, (self._key,)
            return Again()
        found: Amphora | None = value
        if found is None or found.state is State.DELETED:
            self._looks_left -= 1
            self._in_grace = self._looks_left > 0
            return Again(self._grace_s) if self._in_grace else Done(None)
        if found.state is State.DELETING:
            return self._later()
        first = found.id != self._deleted
        self._delete(found.id)
        return Again() if first else self._later()

    def failed(self, error: BaseException) -> Step:
        """Take the same step again later, whatever the error: outages end."""
        self.last_error = error
        self.operation.note('failed', str(error))
        return self._later(getattr(error, 'retry_after', None) or 0.0)

    def overdue(self, *, in_flight: bool) -> BaseException:
        """Say what may be left, by key and id."""
        why = str(self.last_error or 'there was no time').rstrip('.')
        error = DeleteFailed(
            f'Cannot make sure that nothing of build {self._key} is left on '
            f'{self.operation.backend!r} (id {self.operation.amphora_id or "unknown"}): '
            f'{why}. The orphan sweep will find it.',
            outcome=Outcome.UNKNOWN,
            **self.facts,
        )
        error.__cause__ = self.last_error
        return error

    @property
    def outlives_closing(self) -> bool:
        """Whether something may be left; a last look need not be waited for."""
        return not self._in_grace

    def call_off(self) -> None:
        """Give up, and say what may be left, unless nothing is."""
        if self._in_grace:
            self.operation.resolve(None)
        else:
            self.operation.fail(self.overdue(in_flight=False))

    def _delete(self, amphora_id: str) -> None:
        self._deleted = self.operation.amphora_id = amphora_id
        self.call, self.args = Call.DELETE, (amphora_id,)

    def _later(self, at_least_s: float = 0.0) -> Again:
        self.attempt += 1
        return Again(max(at_least_s, self.backoff.pause_s(self.attempt)))
