"""Waiters: promises of a state, and how a status ends each of them."""

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
from kiln.wrappers.cursors import BuildCursor
from kiln.wrappers.promise import Promise
from kiln.wrappers.scheduler import Appointment

LOG = logging.getLogger(__name__)

OnStatus = Callable[[ComputeStatus], None]
T = TypeVar('T')

#: A machine is not built into these states, and only a request ends them.
_AT_REST = frozenset({State.SUSPENDED, State.STOPPED})
_BUILD_ERRORS = {error.code: error for error in (InsufficientCapacity, QuotaExceeded)}


class Keeper(Protocol):
    """The watcher of a waiter, as the waiter knows it."""

    def expire(self, waiter: Waiter[Any]) -> None:
        """End a waiter whose deadline has come; poll once more where it is near."""

    def ended(self, waiter: Waiter[Any]) -> None:
        """Forget a waiter that has its outcome."""


class Waiter(Promise[T], abc.ABC):
    """A promise that knows what it waits for."""

    #: True once it was informed of a status.
    informed = False
    deadline: Deadline | None = None
    #: Its last poll, and then its deadline.
    appointment: Appointment | None = None
    #: Called with each status.
    on_status: OnStatus | None = None
    #: The cursor from before the amphora was built, if that is known.
    since: BuildCursor | None = None
    #: True if it needs no more than that its amphora has been built.
    brief = False

    def __init__(self, keeper: Keeper, backend: str, amphora_id: str) -> None:
        super().__init__()
        self._keeper = keeper
        self.backend = backend
        self.amphora_id = amphora_id

    #: Call a quick function with this on the thread that ends it, or now.
    then = Promise._then

    @property
    @abc.abstractmethod
    def wanted(self) -> str:
        """What the caller waits for the amphora to be, in words."""

    def inform(self, status: ComputeStatus) -> None:
        """Pass a status on, and end if it is the end."""
        if self.done():
            return
        self.informed = True
        if self.on_status is not None:
            try:
                self.on_status(status)
            # The caller's code; others wait on this thread too.
            except Exception:
                LOG.exception('The status callback for amphora %s failed', self.amphora_id)
        # A stale answer may date from before what the caller waits for.
        if not status.stale:
            self._judge(status)

    @abc.abstractmethod
    def vanish(self, now: float) -> None:
        """End, as the backend knows the amphora no longer; now is wall time."""

    @abc.abstractmethod
    def _judge(self, status: ComputeStatus) -> None:
        """End if the status is the end."""

    def expire(self) -> None:
        """End, as the deadline has come; or poll a last time, as it is near."""
        self._keeper.expire(self)

    def succeed(self, result: T) -> bool:
        """Give the result; False where the wait has ended otherwise."""
        return self._settle(result, None)

    def fail(self, error: BaseException) -> bool:
        """Give the error; False where the wait has ended otherwise."""
        return self._settle(None, error)

    def cancel(self, why: str = 'the wait was cancelled') -> bool:
        """Wait no longer; False where the wait has ended otherwise."""
        return self.fail(
            OperationCancelled(
                f'Cannot wait longer for amphora {self.amphora_id} to be {self.wanted}: {why}.',
                backend=self.backend,
                amphora_id=self.amphora_id,
            )
        )

    def _announce(self) -> None:
        self._keeper.ended(self)
        super()._announce()


class GoneWaiter(Waiter[None]):
    """Waits until the amphora is gone, or until it has come out of its delete in error.

    Some backends take a while until an amphora in error is seen to leave, so only what is
    known not to have been in error before the delete, or has been seen to leave, fails at
    the first sight of an error. Any other fails by :meth:`give_up`.
    """

    #: True if it was certainly at rest, and not in error, before the delete.
    was_well = False
    _leaving = False
    _in_error: ComputeStatus | None = None

    @property
    def wanted(self) -> str:
        """To be gone."""
        return 'gone'

    def vanish(self, now: float) -> None:
        """Succeed: this is what was waited for."""
        self.succeed(None)

    def _judge(self, status: ComputeStatus) -> None:
        in_error = status.state is State.ERROR and status.task_state is None
        self._in_error = status if in_error else None
        if status.state is State.DELETED:
            self.succeed(None)
        elif status.state is State.DELETING:
            self._leaving = True
        elif in_error and (self._leaving or self.was_well):
            self.give_up()

    def give_up(self) -> None:
        """Fail if it was in error, with no task under way, when it was last seen."""
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

    #: True if an amphora that is suspended or stopped, with nothing under way, ends it.
    fails_at_rest = False

    def __init__(
        self, keeper: Keeper, backend: str, amphora_id: str, goal: frozenset[State]
    ) -> None:
        super().__init__(keeper, backend, amphora_id)
        self._goal = goal

    @property
    def wanted(self) -> str:
        """The states of the goal."""
        return ' or '.join(sorted(self._goal))

    def vanish(self, now: float) -> None:
        """Fail, unless to be deleted is one of the states waited for."""
        if State.DELETED in self._goal:
            self.succeed(
                ComputeStatus(amphora_id=self.amphora_id, state=State.DELETED, observed_at=now)
            )
            return
        what = (
            f'Amphora {self.amphora_id} vanished from {self.backend!r} while it was waited for '
            f'to be {self.wanted}: it was deleted by somebody else.'
            if self.informed
            else f'Cannot wait for amphora {self.amphora_id} to be {self.wanted}: '
            f'{self.backend!r} has none of that id. It was deleted, or the id is wrong.'
        )
        self.fail(
            InstanceNotFoundError(
                what,
                amphora_id=self.amphora_id,
                backend=self.backend,
            )
        )

    def _judge(self, status: ComputeStatus) -> None:
        if status.state in self._goal and (status.state is not State.ACTIVE or status.ready):
            self.succeed(status)
        elif status.state is State.DELETED:
            self.vanish(status.observed_at)
        # With a task under way an amphora may be on its way out of ERROR, as
        # one is that somebody reboots by its power switch.
        elif status.state is State.ERROR and status.task_state is None:
            self.fail(self._failure(status))
        elif self.fails_at_rest and status.state in _AT_REST and status.task_state is None:
            self.fail(self._not_running(status))

    def _not_running(self, status: ComputeStatus) -> BuildNotRunning:
        return BuildNotRunning(
            f'Amphora {self.amphora_id} on {self.backend!r} is {status.state.value}, and does '
            f'not come to be {self.wanted} by itself.',
            amphora_id=self.amphora_id,
            backend=self.backend,
        )

    def _failure(self, status: ComputeStatus) -> AmphoraBuildError:
        error = _BUILD_ERRORS.get(status.fault_code or '', BuildFailed)
        return error(
            f'Amphora {self.amphora_id} on {self.backend!r} went to error while it was waited '
            f'for to be {self.wanted}: {_reason(status)}.',
            # Unlike the same error at once, this one leaves an amphora behind.
            advice=Advice.REPAIR,
            outcome=Outcome.APPLIED,
            amphora_id=self.amphora_id,
            backend=self.backend,
            fault=status.fault,
        )


def _reason(status: ComputeStatus) -> str:
    return (status.fault or 'the backend gave no reason').rstrip('.')
