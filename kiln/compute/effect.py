"""Effects of changes: waits until the backend shows what it has accepted.

Nothing here blocks. Each step ends in a callback of the executor or of the watcher, which
starts the next step; the last step resolves the operation that the caller holds.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection
from typing import Any

from kiln.compute.goals import OnStatus
from kiln.compute.stack import Stack
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    AmphoraBuildError,
    AmphoraComputeError,
    BuildFailed,
    ChangeFailed,
    DeleteTimeout,
    OperationTimeout,
)
from kiln.models import ComputeStatus, State
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import OperationState
from kiln.wrappers.operations.scheduler import Appointment
from kiln.wrappers.watcher.waiter import GoneWaiter, Waiter


class EffectFlow:
    """Waits until a change that the backend accepted has taken effect.

    Created before the change is sent.
    """

    def __init__(self, stack: Stack, operation: Errand[Any], goal: Collection[State]) -> None:
        self._stack = stack
        self._operation = operation
        self._goal = goal
        self._was_well = _is_healthy(stack.watcher.latest(operation.subject))
        self._waiting: Waiter[Any] | None = None
        self._leaving: GoneWaiter | None = None
        self._again: Appointment | None = None
        self._repeated = False

    def accepted(self, operation: Errand[Any], _: object = None) -> None:
        """Wait for one of the states of the goal."""
        operation.enter(OperationState.WAITING)
        operation.note('accepted')
        watcher, subject, deadline = self._stack.watcher, operation.subject, operation.deadline
        if State.DELETED in self._goal:
            self._leaving = watcher.watch_gone(
                subject, deadline=deadline, on_outage=operation.hinder, was_well=self._was_well
            )
            self._waiting = self._leaving
            self._repeat_later(self._stack.settings.delete_again_s)
        else:
            self._waiting = watcher.watch(
                subject, self._goal, deadline=deadline, on_outage=operation.hinder
            )
        self._waiting.then(self._seen)
        operation.then(self._stop)

    def _repeat_later(self, seconds: float) -> None:
        self._again = self._stack.scheduler.call_later(seconds, lambda: self._repeat(seconds))

    def _repeat(self, seconds: float) -> None:
        """Delete again, because a backend can accept a request and then lose it."""
        operation = self._operation
        if self._repeated and self._leaving is not None:
            # The request arrived twice, and the amphora is still in ERROR.
            self._leaving.give_up()
        if operation.done():
            return
        self._repeated = True
        operation.note('repeated')
        # Whatever the result, the watcher notices if the amphora disappears.
        with contextlib.suppress(AmphoraComputeError):
            self._stack.executor.submit(Call.DELETE, operation.subject)
        self._repeat_later(2 * seconds)

    def _seen(self, waiter: Waiter[Any]) -> None:
        error = waiter.exception()
        if self._again is not None:
            self._again.cancel()
        if error is None:
            self._operation.resolve(None)
        elif isinstance(error, OperationTimeout):
            if self._operation.kind == Call.DELETE.label:
                self._operation.fail(converted(DeleteTimeout, error))
            else:
                # The backend accepted it, so sending it again could have a second effect.
                self._operation.fail(converted(OperationTimeout, error, advice=Advice.LOOK))
        elif isinstance(error, BuildFailed):
            self._operation.fail(converted(ChangeFailed, wait_error(error), fault=error.fault))
        else:
            self._operation.fail(wait_error(error))

    def _stop(self, operation: Errand[Any]) -> None:
        if operation.cancelled() and self._waiting is not None:
            self._waiting.cancel()


def _is_healthy(status: ComputeStatus | None) -> bool:
    if status is None or status.stale or status.task_state is not None:
        return False
    return status.state in (State.ACTIVE, State.SUSPENDED, State.STOPPED)


def look_up(
    stack: Stack, operation: Errand[Any], name: str | None, amphora_id: str | None
) -> Errand[Any]:
    """Find the one amphora with a name, an id, or both; return the operation."""
    call, subject = stack.driver.look_up(name, amphora_id)

    def found(operation: Errand[Any], answer: Any) -> None:
        try:
            operation.resolve(stack.driver.choose(answer, name))
        except AmphoraComputeError as exc:
            operation.fail(exc)

    return stack.executor.submit(call, subject, operation=operation, accepted=found)


def watched(
    stack: Stack, operation: Errand[Any], goal: Collection[State], on_status: OnStatus | None
) -> Errand[Any]:
    """End an operation once its amphora is in one of the states; return it."""
    waiter = stack.watcher.watch(
        operation.subject,
        goal,
        deadline=operation.deadline,
        on_status=on_status and functools.partial(operation.call_out, on_status),
        on_outage=operation.hinder,
    )
    operation.enter(OperationState.WAITING)

    def done(waiter: Waiter[Any]) -> None:
        if (error := waiter.exception()) is not None:
            operation.fail(wait_error(error))
        else:
            operation.resolve(waiter.result())

    operation.then(lambda done: waiter.cancel() if done.cancelled() else None)
    waiter.then(done)
    return operation


# ---- errors, with what an operation leaves behind ------------------------------


def wait_error(error: BaseException, build_key: str | None = None) -> BaseException:
    """Return the error of a wait; it names what is left, because a wait removes nothing."""
    if not isinstance(error, AmphoraBuildError):
        return error
    where = f' under build key {build_key!r}' if build_key else ''
    text = f'{error} It is left as it is{where}: repair it, or delete it.'
    key = build_key or error.build_key
    return reworded(error, text, outcome=error.outcome, advice=error.advice, build_key=key)


def reworded(error: BaseException, text: str, **known: Any) -> BaseException:
    """Return a copy of an error with more text and facts."""
    if not isinstance(error, AmphoraComputeError):
        return error
    # The advice follows from the outcome, unless the advice is given too.
    facts = {name: getattr(error, name) for name in error.FACTS}
    copy = type(error)(
        text,
        **facts | {'retry_after': error.retry_after, 'circuit': error.circuit} | known,
    )
    copy.__cause__ = error.__cause__
    return copy


def converted(
    kind: type[AmphoraComputeError], error: BaseException, **facts: Any
) -> BaseException:
    """Return an error of another class with the same text, caused by the first."""
    facts.setdefault('amphora_id', getattr(error, 'amphora_id', None))
    changed = kind(str(error), **facts)
    changed.__cause__ = error
    return changed
