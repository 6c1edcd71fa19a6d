"""Operation: a future for callers, with a log of events."""

from __future__ import annotations

import dataclasses
import enum
import functools
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.compute_drivers import validation
from kiln.compute_drivers.authoring.wording import attempt
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    InvalidRequest,
    OperationCancelled,
    Outcome,
)
from kiln.models import Resource
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.caller_threads import CallbackLine, CallerThreads, call_guarded
from kiln.wrappers.operations.promise import Promise

if TYPE_CHECKING:
    import concurrent.futures

T = TypeVar('T')


class Priority(enum.IntEnum):
    """Order in which operations that wait for a thread are served."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


class OperationState(enum.StrEnum):
    """Progress of an operation."""

    QUEUED = 'queued'
    RUNNING = 'running'
    #: For its next attempt, or for the effect of a change that the backend accepted.
    WAITING = 'waiting'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    CANCELLED = 'cancelled'


class Goal(Protocol):
    """What an operation waits for after the backend has accepted."""

    def to_dict(self) -> dict[str, Any]:
        """Return the goal as plain data."""


@dataclasses.dataclass(frozen=True, slots=True)
class OperationEvent:
    """Event of an operation, in seconds since the epoch."""

    at: float
    name: str
    detail: str = ''


class Operation(Promise[T]):
    """The future outcome of a call, and the events until then.

    Public attributes, which only kiln sets: ``kind`` (the call), ``backend``, ``subject``
    (what it is about, as text), ``state`` (an OperationState), ``amphora_id`` if it has
    one, ``priority``, and ``deadline``.
    """

    # The public names here are for callers: methods for kiln's own code are public only on
    # Errand. The internal state is here too, because both are one object.
    __slots__ = (
        '_began_at', '_call', '_callers', '_clock', '_events', '_hindered_by', '_hindrance', '_id',
        '_key', '_line', 'amphora_id', 'arguments', 'backend', 'deadline', 'goal', 'kind',
        'priority', 'state', 'subject',
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        *,
        backend: str,
        subject: str = '',
        deadline: Deadline | None = None,
        clock: Clock = SYSTEM_CLOCK,
        build_key: BuildKey | str | None = None,
        priority: Priority = Priority.NORMAL,
        callers: CallerThreads | None = None,
    ) -> None:
        super().__init__()
        self.kind: str = kind
        self.backend: str = backend
        self.subject: str = subject
        self._key = BuildKey(build_key) if isinstance(build_key, str) else build_key
        self.amphora_id: str | None = None
        self.deadline: Deadline | None = deadline
        self.priority: Priority = priority
        self.state: OperationState = OperationState.QUEUED
        # Arguments to repeat the call after a restart: ids and numbers, never the request
        # of a build.
        self.arguments: tuple[Any, ...] | None = None
        #: What it waits for after acceptance, if anything.
        self.goal: Goal | None = None
        self._clock = clock
        # When a thread first began work on it.
        self._began_at: float | None = None
        # The threads for its caller's callbacks, and their queue once there are any.
        self._callers = callers
        self._line: CallbackLine | None = None
        # The call that was sent for it, if it waits for more than the answer of a call.
        self._call: Operation[Any] | None = None
        self._id: str | None = None
        self._events: list[tuple[float, str, str]] | None = None
        # A function of kiln's own, called with whatever delays it, and the present delay.
        self._hindrance: Callable[[BaseException | None], object] | None = None
        self._hindered_by: BaseException | None = None

    def __repr__(self) -> str:
        return f'<Operation {self.kind} {self.subject} {self.state.value}>'

    @property
    def id(self) -> str:
        """Its unique id, the same after a restart."""
        if self._id is None:
            # Created on first access: it would be a third of the cost of submitting an
            # operation, and few callers read it.
            with self._lock:
                self._id = self._id or uuid.uuid4().hex
        return self._id

    @property
    def events(self) -> tuple[OperationEvent, ...]:
        """Events so far, oldest first."""
        return tuple(OperationEvent(*event) for event in self._events or ())

    @property
    def build_key(self) -> str | None:
        """The key of a build; None for any other call.

        A key that kiln drew counts as the caller's own once it is read here: from then on
        a machine that has run is not removed.
        """
        return None if self._key is None else self._key.read()

    def running(self) -> bool:
        """Return True if a thread is working on it now."""
        return self.state is OperationState.RUNNING

    def cancelled(self) -> bool:
        """Return True if it was cancelled before it had an outcome."""
        return self.state is OperationState.CANCELLED

    def add_done_callback(self, function: Callable[[Self], object]) -> None:
        """Call a function with this operation once it is done, or soon if it is done.

        The function runs on one of the backend's few threads for callbacks, named
        ``BACKEND-callback-N``, after the callbacks that were added before it and after
        each ``on_status``; possibly only after ``result()`` has returned elsewhere. It is
        allowed to block: that delays the callbacks of this operation, and once all those
        threads are blocked the other callbacks of the backend, but neither kiln's work nor
        its deadlines. It can call ``result()`` of any operation, and close the Compute.
        Any exception, SystemExit too, is logged and not raised further.
        """
        validation.check_callable('function', function)
        if self._callers is None:
            super().add_done_callback(function)
        else:
            self._then(functools.partial(self._call_out, function))

    def cancel(self, why: str = 'the operation was cancelled') -> bool:
        """End it now; return False if it already had an outcome.

        A call in progress cannot be recalled: a build that it makes is removed, any other
        effect can still happen, and the error states so. Under a build key that its caller
        chose or has read, a machine that has run is not removed.

        :raises InvalidRequest: ``why`` is not a text.
        """
        if not isinstance(why, str):
            raise InvalidRequest(f'why must be a string, not {validation.quoted(why)}.')
        if self._call is not None and not self.done() and self._call.cancel(why) and self.done():
            # Only the call itself records whether it was sent; its end has ended this.
            return True
        return self._call_off(why, left=False)

    def future(self) -> concurrent.futures.Future[T]:
        """Return a future of the standard library that ends as this operation does.

        For functions that accept only such futures: ``concurrent.futures.wait`` and
        ``as_completed``, ``asyncio.wrap_future``. Cancelling it cancels the operation. In a
        coroutine use ``await operation``; ``asyncio.ensure_future(operation)`` is a task for
        ``asyncio.wait``. ``asyncio.create_task`` and a TaskGroup accept only coroutines:
        pass them a coroutine that awaits the operation.
        """
        # Few callers need one, and all would pay for the import.
        import concurrent.futures

        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def done(operation: Operation[T]) -> None:
            # False if the future was cancelled, and with it this operation.
            if not future.set_running_or_notify_cancel():
                return
            if (error := operation.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(operation.result())

        future.add_done_callback(lambda future: self.cancel() if future.cancelled() else None)
        if self.done():
            # Nothing has been added to it so far, and a callback can wait for it at once.
            done(self)
        else:
            # Called with the callbacks, because code added to the future is the caller's too.
            self.add_done_callback(done)
        return future

    @property
    def attempt(self) -> str:
        """The phrase for its call in errors."""
        other = self.arguments[1] if self.arguments and len(self.arguments) > 1 else ''
        return attempt(self.kind, self.subject, other if isinstance(other, str) else '')

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without confidential content.

        ``Compute.recover`` of another process resumes it from this record. The result of a
        build is its id; the result of any other call is not stored.
        """
        deadline = None
        if self.deadline is not None:
            deadline = self._clock.time() + self.deadline.remaining_s()
        return {
            'id': self.id,
            'kind': self.kind,
            'backend': self.backend,
            'subject': self.subject,
            'build_key': self.build_key,
            'amphora_id': self.amphora_id,
            'state': self.state.value,
            'priority': self.priority.value,
            'deadline': deadline,
            'arguments': self.arguments and [_plain(argument) for argument in self.arguments],
            'goal': self.goal and self.goal.to_dict(),
            'events': [dataclasses.asdict(event) for event in self.events],
            'error': _error_to_dict(self._error),
        }

    # ---- internal ------------------------------------------------------------

    def _call_out(self, function: Callable[[Any], object], argument: Any) -> None:
        """Call a caller's function after earlier functions, on a callback thread."""
        if self._callers is None:
            call_guarded(function, argument)
            return
        with self._lock:
            line = self._line = self._line or CallbackLine(self._callers)
        line.call(function, argument)

    def _call_off(self, why: str, *, left: bool) -> bool:
        while not self.done():
            # Whether it was sent is part of the error, so it must not change before the
            # error is set.
            state = self.state
            unsent = state is OperationState.QUEUED and self._call is None
            error = self._cancellation(why, unsent=unsent, kept=left)
            if self._finish(OperationState.CANCELLED, None, error, seen=state):
                return True
        return False

    def _cancellation(self, why: str, *, unsent: bool, kept: bool) -> OperationCancelled:
        outcome = Outcome.NOT_APPLIED if unsent else Outcome.UNKNOWN
        advice = Advice.GIVE_UP
        if unsent:
            left = 'It was never sent.'
        elif kept and self._key is not None:
            made = f'Amphora {self.amphora_id} is' if self.amphora_id else 'What it might make is'
            left = (
                f'{made} left under its key: build again with build_key={self._key.read()!r} to '
                f'adopt it.'
            )
            outcome = Outcome.APPLIED if self.amphora_id else Outcome.UNKNOWN
            advice = Advice.REPEAT
        elif self._key is not None and self._key.private:
            left = 'What it built is removed, unless it has run and its build_key is read first.'
        elif self._key is not None:
            left = 'What it built is removed, unless it has run: then it stays under its key.'
        else:
            left = 'It was sent, so its effect can still happen.'
        return OperationCancelled(
            f'Cannot {self.attempt}: {why}. {left}',
            advice=advice,
            outcome=outcome,
            build_key=self._key and self._key.known,
            amphora_id=self.amphora_id,
            backend=self.backend,
            operation=self.kind,
        )

    def _finish(
        self,
        state: OperationState,
        value: Any,
        error: BaseException | None,
        seen: OperationState | None = None,
    ) -> bool:
        with self._lock:
            if self.done() or (seen is not None and self.state is not seen):
                return False
            # Before a caller can read it from the error. An outcome that left nothing is
            # not a reason to build with its key.
            if (
                self._key is not None
                and getattr(error, 'build_key', None) is not None
                and getattr(error, 'outcome', None) is not Outcome.NOT_APPLIED
            ):
                self._key.read()
            self.state, self._error, self._value = state, error, value
        self._notify_all()
        return True


def _plain(argument: Any) -> Any:
    if isinstance(argument, Resource):
        return dataclasses.asdict(argument)
    return list(argument) if isinstance(argument, tuple) else argument


def _error_to_dict(error: BaseException | None) -> dict[str, Any] | None:
    if error is None:
        return None
    if isinstance(error, AmphoraComputeError):
        return error.to_dict()
    return {'code': AmphoraComputeError.code, 'message': f'{type(error).__name__}: {error}'}
