"""Waiters: promises of a state, resolved by statuses from polls."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kiln.clock import Deadline
from kiln.exceptions import (
    Advice,
    AmphoraBuildError,
    BuildFailed,
    BuildNotRunning,
    DeleteFailed,
    InstanceNotFoundError,
    InsufficientCapacity,
    OperationCancelled,
    Outcome,
    QuotaExceeded,
)
from kiln.models import ComputeStatus, State
from kiln.wrappers.operations.promise import Promise
from kiln.wrappers.operations.scheduler import Appointment
from kiln.wrappers.watcher.cursors import BuildCursor

LOG = logging.getLogger(__name__)

OnStatus = Callable[[ComputeStatus], None]
#: Called with why the backend cannot be polled; with None once it can be again.
OnOutage = Callable[[BaseException | None], object]
T = TypeVar('T')

#: A build does not reach these states, and only a request ends them.
_AT_REST = frozenset({State.SUSPENDED, State.STOPPED})
_BUILD_ERRORS = {error.code: error for error in (InsufficientCapacity, QuotaExceeded)}


class Keeper(Protocol):
    """The watcher of a waiter, as the waiter uses it."""

    def expire(self, waiter: Waiter[Any]) -> None:
        """End a waiter whose deadline has come; poll once more if it is near."""

    def ended(self, waiter: Waiter[Any]) -> None:
        """Forget a waiter that has its outcome."""


class Waiter(Promise[T], abc.ABC):
    """A promise for one amphora, with the state that it waits for."""

    #: True once it has received a status.
    informed = False
    deadline: Deadline | None = None
    #: Its last poll, and then its deadline.
    appointment: Appointment | None = None
    #: Called with each status.
    on_status: OnStatus | None = None
    #: Called with each outage of the backend and its end; must be quick.
    on_outage: OnOutage | None = None
    #: The cursor from before the amphora was built, if that is known.
    since: BuildCursor | None = None
    #: True if it only waits until its amphora has been built.
    brief = False

    def __init__(self, keeper: Keeper, backend: str, amphora_id: str) -> None:
        super().__init__()
        self._keeper = keeper
        self.backend = backend
        self.amphora_id = amphora_id

    #: Call a quick function with this waiter on the thread that ends it, or now.
    then = Promise._then

    @property
    @abc.abstractmethod
    def wanted(self) -> str:
        """The awaited state, in words."""

    def take_status(self, status: ComputeStatus) -> None:
        """Process a status, and end if it is final."""
        if self.done():
            return
        self.informed = True
        if self.on_status is not None:
            try:
                self.on_status(status)
            # The caller's code; others wait on this thread too.
            except Exception:
                LOG.exception('The status callback for amphora %s failed', self.amphora_id)
        # A stale status might date from before the awaited change.
        if not status.stale:
            self._check_goal(status)

    @abc.abstractmethod
    def mark_gone(self, now: float) -> None:
        """End, because the amphora is gone at the backend; ``now`` is wall time."""

    @abc.abstractmethod
    def _check_goal(self, status: ComputeStatus) -> None:
        """End if the status is final."""

    def expire(self) -> None:
        """End at the deadline; or poll a last time before it."""
        self._keeper.expire(self)

    def succeed(self, result: T) -> bool:
        """Set the result; return False if the wait has already ended."""
        return self._settle(result, None)

    def fail(self, error: BaseException) -> bool:
        """Set the error; return False if the wait has already ended."""
        return self._settle(None, error)

    def cancel(self, why: str = 'the wait was cancelled') -> bool:
        """Stop waiting; return False if the wait has already ended."""
        return self.fail(
            OperationCancelled(
                f'Cannot wait longer for amphora {self.amphora_id} to be {self.wanted}: {why}.',
                backend=self.backend,
                amphora_id=self.amphora_id,
            )
        )

    def _notify_all(self) -> None:
        self._keeper.ended(self)
        super()._notify_all()


class GoneWaiter(Waiter[None]):
    """Waits until the amphora is gone, or until its delete has ended in error.

    On some backends an amphora in error shows its delete only after a while. So only an
    amphora that was certainly not in error before the delete, or that has been seen to
    leave, fails at the first status in error. Any other fails by :meth:`give_up`.
    """

    #: True if it was certainly at rest, and not in error, before the delete.
    was_well = False
    _leaving = False
    _in_error: ComputeStatus | None = None

    @property
    def wanted(self) -> str:
        return 'gone'

    def mark_gone(self, now: float) -> None:
        self.succeed(None)

    def _check_goal(self, status: ComputeStatus) -> None:
        in_error = status.state is State.ERROR and status.task_state is None
        self._in_error = status if in_error else None
        if status.state is State.DELETED:
            self.succeed(None)
        elif status.state is State.DELETING:
            self._leaving = True
        elif in_error and (self._leaving or self.was_well):
            self.give_up()

    def give_up(self) -> None:
        """Fail if it was in error, with no task in progress, in the last poll."""
        if (status := self._in_error) is None:
            return
        self.fail(
            DeleteFailed(
                f'Cannot delete amphora {self.amphora_id} on {self.backend!r}: it went to error, '
                f'{_reason(status)}. It still exists. Resolve that, then delete it again.',
                amphora_id=self.amphora_id,
                backend=self.backend,
                fault=status.fault,
            )
        )


class StateWaiter(Waiter[ComputeStatus]):
    """Waits until the amphora is in one of the states of a goal."""

    #: True if an amphora that is suspended or stopped, with no task in progress, ends it.
    fails_at_rest = False

    def __init__(
        self, keeper: Keeper, backend: str, amphora_id: str, goal: frozenset[State]
    ) -> None:
        super().__init__(keeper, backend, amphora_id)
        self._goal = goal

    @property
    def wanted(self) -> str:
        return ' or '.join(sorted(self._goal))

    def mark_gone(self, now: float) -> None:
        if State.DELETED in self._goal:
            self.succeed(
                ComputeStatus(amphora_id=self.amphora_id, state=State.DELETED, observed_at=now)
            )
            return
        what = (
            f'Amphora {self.amphora_id} vanished from {self.backend!r} while kiln waited for it '
            f'to be {self.wanted}: it was deleted from outside.'
            if self.informed
            else f'Cannot wait for amphora {self.amphora_id} to be {self.wanted}: '
            f'{self.backend!r} has no amphora with that id. It was deleted, or the id is wrong.'
        )
        self.fail(
            InstanceNotFoundError(
                what,
                amphora_id=self.amphora_id,
                backend=self.backend,
            )
        )

    def _check_goal(self, status: ComputeStatus) -> None:
        if status.state in self._goal and (status.state is not State.ACTIVE or status.ready):
            self.succeed(status)
        elif status.state is State.DELETED:
            self.mark_gone(status.observed_at)
        # With a task in progress an amphora might be leaving ERROR, for example during a
        # hard reboot.
        elif status.state is State.ERROR and status.task_state is None:
            self.fail(self._failure(status))
        elif self.fails_at_rest and status.state in _AT_REST and status.task_state is None:
            self.fail(self._not_running(status))

    def _not_running(self, status: ComputeStatus) -> BuildNotRunning:
        return BuildNotRunning(
            f'Amphora {self.amphora_id} on {self.backend!r} is {status.state.value}, and does '
            f'not become {self.wanted} by itself.',
            amphora_id=self.amphora_id,
            backend=self.backend,
        )

    def _failure(self, status: ComputeStatus) -> AmphoraBuildError:
        error = _BUILD_ERRORS.get(status.fault_code or '', BuildFailed)
        return error(
            f'Amphora {self.amphora_id} on {self.backend!r} went to error while kiln waited '
            f'for it to be {self.wanted}: {_reason(status)}.',
            # Unlike the same error at submit, this error leaves an amphora behind.
            advice=Advice.REPAIR,
            outcome=Outcome.APPLIED,
            amphora_id=self.amphora_id,
            backend=self.backend,
            fault=status.fault,
        )


def _reason(status: ComputeStatus) -> str:
    return (status.fault or 'the backend gave no reason').rstrip('.')
