"""Safe builds after lost answers, and removal of what a failed build left.

A create cannot be repeated like a read, because the lost request might have made a
machine. So after every uncertain result the build key is looked up in the backend: an
existing machine is adopted, and the request is sent again only if the key certainly has
no machine.

A machine that has run is never removed here under a key that can be known outside of
kiln: another call, or another process, might have received the machine.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    BuildDiffers,
    BuildNotFound,
    BuildOutcomeUnknown,
    DeleteFailed,
    OperationCancelled,
    Outcome,
)
from kiln.models import Amphora, BuildRequest, State
from kiln.wrappers.executor.attempts import Again, Backoff, CallPlan, Done, Failed, Step
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand


class BuildPlan(CallPlan):
    """Builds, looks the key up after each uncertain result, and adopts what is found.

    Without a request it is a build of an earlier process, which can be looked up but not
    sent.
    """

    __slots__ = ('_lost', '_request', 'discards', 'doubt', 'key', 'resent')

    def __init__(
        self,
        operation: Errand[Any],
        request: BuildRequest | None,
        backoff: Backoff,
        *,
        discards: bool = True,
    ) -> None:
        build_key = operation.key
        assert build_key is not None
        self.key: str = build_key.text
        super().__init__(operation, Call.FIND_BUILD, (self.key,), backoff)
        if request is not None:
            self.call, self.args = Call.BUILD, (request,)
        self._request = request
        self._lost: BaseException | None = None
        # A build of an earlier process that could not be found in time is not removed:
        # the caller that recovers it decides.
        self.doubt = False
        self.discards = discards
        self.resent = False

    def answered(self, value: Any) -> Step:
        """Take the id; after a look-up adopt what it found, or send again."""
        if self.call is Call.BUILD:
            # Until the caller has the id, the machine might have to be removed.
            self.doubt = True
            self.operation.amphora_id = value
            return Done(value)
        if value is not None:
            if (differs := self._difference(value)) is not None:
                return self._refused(differs)
            self.operation.amphora_id = value.id
            self.operation.note('adopted', value.id)
            return Done(value.id)
        if self._request is None:
            return Failed(self._not_found_error())
        self.operation.note('not there', 'the lost request made nothing')
        if not _may_resend(self._lost):
            return Failed(self._lost or self._not_found_error())
        self.resent = True
        self.call, self.args = Call.BUILD, (self._request,)
        return Again()

    def failed(self, error: BaseException) -> Step:
        """Look the key up first if the error leaves the outcome uncertain."""
        if self.call is Call.FIND_BUILD:
            step = super().failed(error)
            return Failed(self._unknown(error)) if isinstance(step, Failed) else step
        if isinstance(error, BuildDiffers):
            return self._refused(error)
        outcome = getattr(error, 'outcome', Outcome.UNKNOWN)
        if outcome is Outcome.NOT_APPLIED:
            step = super().failed(error)
            # The lost request itself might have filled the quota, and might arrive
            # later: no refusal is certain after it.
            final = isinstance(step, Failed)
            return Failed(self._unknown(error)) if final and self.doubt else step
        self.doubt = True
        self.last_error = error
        self.operation.amphora_id = getattr(error, 'amphora_id', None)
        if outcome is Outcome.APPLIED:
            return Failed(error)
        self._lost = error
        self.operation.note('lost', str(error))
        self.call, self.args = Call.FIND_BUILD, (self.key,)
        return self.again(error)

    def overdue(self, *, in_flight: bool) -> BaseException:
        """Return the error that the machine might exist, unless it cannot."""
        if in_flight or self.doubt or self._request is None:
            return self._unknown(self.last_error)
        return super().overdue(in_flight=False)

    def call_off(self) -> None:
        """End; a machine that was only looked up is left to the next recovery."""
        if self._request is None:
            self.operation.fail(
                OperationCancelled(
                    f'Cannot find what {self.operation.subject} built: kiln was closed first. '
                    f'Recover the operation again.',
                    advice=Advice.REPEAT,
                    **self.facts,
                )
            )
        elif self.discards:
            super().call_off()
        else:
            self.operation.leave('kiln was closed')

    def leave(self) -> None:
        self.discards = False
        self.call_off()

    def _difference(self, found: Amphora) -> BuildDiffers | None:
        if self._request is None:
            return None
        # Not every backend describes flavor and image exactly as in the request, and here
        # the machine might well come from the lost request.
        sure = dataclasses.replace(self._request, flavor=None, image_id=None)
        try:
            adopted(sure, found)
        except BuildDiffers as exc:
            exc.backend, exc.operation = self.operation.backend, self.operation.kind
            return exc
        return None

    def _refused(self, error: BuildDiffers) -> Failed:
        # The machine existed before, so this build must not remove anything under this key.
        self.doubt = False
        return Failed(error)

    def _not_found_error(self) -> BuildNotFound:
        return BuildNotFound(
            f'Cannot find what {self.operation.subject} built: nothing has its key. '
            f'Build again with build_key={self.key!r}.',
            **self.facts | {'build_key': self.key},
        )

    def _unknown(self, cause: BaseException | None) -> BuildOutcomeUnknown:
        why = str(cause or 'no answer before the deadline').rstrip('.')
        pause_s = getattr(cause, 'retry_after', None)
        error = BuildOutcomeUnknown(
            f'Cannot determine whether {self.operation.subject} was built: {why}. '
            f'Build again with build_key={self.key!r}.',
            # A repeat would be refused for as long as the look-up is.
            advice=Advice.WAIT if pause_s else None,
            retry_after=pause_s,
            **self.facts | {'build_key': self.key},
        )
        error.__cause__ = cause
        return error


def _may_resend(lost: BaseException | None) -> bool:
    # After a lost answer the next one can arrive; after an unforeseen failure a driver
    # will fail again in the same way.
    return isinstance(lost, BuildOutcomeUnknown) or bool(getattr(lost, 'retryable', False))


class TwinPlan(CallPlan):
    """Looks the key up again later, after a build that was sent twice.

    A driver that finds several machines of one key keeps the first.
    """

    __slots__ = ('_looks_left', '_pause_s')

    def __init__(self, operation: Errand[Any], *, grace_s: float, backoff: Backoff) -> None:
        super().__init__(operation, Call.FIND_BUILD, (operation.subject,), backoff)
        # The later a lost request would arrive, the less likely it is to arrive.
        self._pause_s = 10 * grace_s
        self._looks_left = 2

    def answered(self, value: Any) -> Step:
        """Look the key up once more, much later."""
        self._looks_left -= 1
        return Again(self._pause_s) if self._looks_left else Done(None)

    def failed(self, error: BaseException) -> Step:
        """Look the key up again after any error, because outages end."""
        self.last_error = error
        return self.again(error)


class DiscardPlan(CallPlan):
    """Deletes what carries a build key, and looks the key up until nothing is left.

    It continues through outages: each failed step is repeated later. A request whose
    answer was lost might still arrive, so if the id was never known, the last look-up
    comes after a grace period.

    A machine is deleted in any state only under a private key, with which no other build
    can have been made. Under any other key each delete directly follows a look-up, and a
    machine that has run is left: it is the result. A private key can be read at any time,
    so this is decided again before each call.
    """

    __slots__ = ('_build_key', '_deleted', '_grace_s', '_in_grace', '_looks_left', 'key')

    def __init__(self, operation: Errand[Any], *, grace_s: float, backoff: Backoff) -> None:
        assert operation.key is not None
        self._build_key: BuildKey = operation.key
        self.key: str = operation.key.text
        super().__init__(operation, Call.FIND_BUILD, (self.key,), backoff)
        self._grace_s = grace_s
        self._looks_left = 2
        self._deleted: str | None = None
        # Nothing was found, and only the second look-up is missing.
        self._in_grace = False
        if operation.amphora_id is not None:
            self._looks_left = 1
            if self._build_key.private:
                self._delete(operation.amphora_id)
        if not self._build_key.private:
            self._look_up_and_delete()

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Make the next call; if others can build with the key, look up before a delete."""
        if not self._build_key.private:
            self._look_up_and_delete()
        if self.args:
            return super().send(driver)
        # In one step: the machine could start to run during a pause between the two.
        found: Amphora | None = driver.perform(Call.FIND_BUILD, self.key)
        if found is not None and _removable(found):
            driver.perform(Call.DELETE, found.id)
        return found

    def answered(self, value: Any) -> Step:
        """Look up after a delete; after a look-up delete, leave, or look up again."""
        self._in_grace = False
        # It was sent as recorded, even if the key has been read since.
        if self.args and self.call is Call.DELETE:
            self.call, self.args = Call.FIND_BUILD, (self.key,)
            return Again()
        found: Amphora | None = value
        if found is None or found.state is State.DELETED:
            self._looks_left -= 1
            self._in_grace = self._looks_left > 0
            return Again(self._grace_s) if self._in_grace else Done(None)
        if found.state is State.DELETING:
            return self._later()
        first = found.id != self._deleted
        if self.args:
            self._delete(found.id)
        elif _removable(found):
            self._deleted = self.operation.amphora_id = found.id
        elif found.state is State.UNKNOWN:
            return self._later()
        else:
            self.operation.amphora_id = found.id
            self.operation.note('left', f'{found.id} is {found.state.value}')
            return Done(found)
        return Again() if first else self._later()

    def failed(self, error: BaseException) -> Step:
        """Repeat the same step later after any error, because outages end."""
        self.last_error = error
        self.operation.note('failed', str(error))
        return self._later(getattr(error, 'retry_after', None) or 0.0)

    def overdue(self, *, in_flight: bool) -> BaseException:
        """Return the error that names what might be left, by key and id."""
        why = str(self.last_error or 'the time ran out').rstrip('.')
        error = DeleteFailed(
            f'Cannot make sure that nothing of build {self.key} is left on '
            f'{self.operation.backend!r} (id {self.operation.amphora_id or "unknown"}): '
            f'{why}. The orphan sweep will find it.',
            outcome=Outcome.UNKNOWN,
            **self.facts,
        )
        error.__cause__ = self.last_error
        return error

    @property
    def outlives_closing(self) -> bool:
        """True if something might be left; kiln does not wait for a last look-up."""
        return not self._in_grace

    def call_off(self) -> None:
        """Give up, and report what might be left, unless nothing is."""
        if self._in_grace:
            self.operation.resolve(None)
        else:
            self.operation.fail(self.overdue(in_flight=False))

    def _delete(self, amphora_id: str) -> None:
        self._deleted = self.operation.amphora_id = amphora_id
        self.call, self.args = Call.DELETE, (amphora_id,)

    def _look_up_and_delete(self) -> None:
        # One step with the traffic of a change, although its argument is the key.
        self.call, self.args = Call.DELETE, ()

    def _later(self, at_least_s: float = 0.0) -> Again:
        self.attempt += 1
        return Again(max(at_least_s, self.backoff.pause_s(self.attempt)))


def _removable(found: Amphora) -> bool:
    """Return True if a machine that others might have built with its key cannot be serving."""
    leaving = found.state in (State.DELETING, State.DELETED)
    return not leaving and not found.past_building
