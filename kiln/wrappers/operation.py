"""What a caller holds while kiln works: a future that also tells its story."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.compute_drivers.wording import attempt
from kiln.exceptions import AmphoraComputeError, OperationCancelled, Outcome
from kiln.models import Resource
from kiln.wrappers.promise import Promise

T = TypeVar('T')

#: A story longer than this is cut in the middle of its retries, not at its end.
MAX_EVENTS = 50


class Priority(enum.IntEnum):
    """Who goes first where several operations wait for a thread."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


class OperationState(enum.StrEnum):
    """How far an operation is."""

    QUEUED = 'queued'
    RUNNING = 'running'
    #: For its next attempt, or for the effect of what the backend agreed to.
    WAITING = 'waiting'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    CANCELLED = 'cancelled'


@dataclasses.dataclass(frozen=True, slots=True)
class OperationEvent:
    """Something that happened to an operation, at seconds since the epoch."""

    at: float
    name: str
    detail: str = ''


class Operation(Promise[T]):
    """The outcome of a call, as soon as there is one, and what happened until then."""

    __slots__ = (
        '_clock', '_events', '_id', 'amphora_id', 'arguments', 'backend', 'began_at', 'build_key',
        'deadline', 'kind', 'priority', 'state', 'subject',
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        *,
        backend: str,
        subject: str = '',
        deadline: Deadline | None = None,
        clock: Clock = SYSTEM_CLOCK,
        build_key: str | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.backend = backend
        self.subject = subject
        self.build_key = build_key
        self.amphora_id: str | None = None
        self.deadline = deadline
        self.priority = priority
        self.state = OperationState.QUEUED
        # What it takes to repeat the call after a restart: ids and numbers,
        # never the request of a build.
        self.arguments: tuple[Any, ...] | None = None
        #: When a thread was first at it, by the monotonic clock.
        self.began_at: float | None = None
        self._clock = clock
        self._id: str | None = None
        self._events: list[tuple[float, str, str]] | None = None

    def __repr__(self) -> str:
        return f'<Operation {self.kind} {self.subject} {self.state.value}>'

    # ---- for the caller ----------------------------------------------------

    @property
    def id(self) -> str:
        """Its own name, the same after a restart."""
        if self._id is None:
            # Made when somebody asks: it would be a third of what it costs to
            # submit an operation, and few are ever asked for.
            with self._lock:
                self._id = self._id or uuid.uuid4().hex
        return self._id

    @property
    def events(self) -> tuple[OperationEvent, ...]:
        """What happened so far, oldest first."""
        return tuple(OperationEvent(*event) for event in self._events or ())

    def running(self) -> bool:
        """Whether a thread is at it now."""
        return self.state is OperationState.RUNNING

    def cancelled(self) -> bool:
        """Whether it was cancelled before it had an outcome."""
        return self.state is OperationState.CANCELLED

    def cancel(self, why: str = 'the operation was cancelled') -> bool:
        """End it now; return False where it had an outcome already.

        A call that is under way cannot be called back: a build it makes is
        removed, any other effect may still happen, and the error says so.
        """
        while not self.done():
            # Whether it was sent is part of the error, so it must be so still
            # when the error is given.
            state = self.state
            error = self._cancellation(why, unsent=state is OperationState.QUEUED)
            if self._finish(OperationState.CANCELLED, None, error, seen=state):
                return True
        return False

    @property
    def attempt(self) -> str:
        """What it is to do, as errors tell it."""
        other = self.arguments[1] if self.arguments and len(self.arguments) > 1 else ''
        return attempt(self.kind, self.subject, other if isinstance(other, str) else '')

    def _cancellation(self, why: str, *, unsent: bool) -> OperationCancelled:
        if unsent:
            left = 'It was never sent.'
        elif self.build_key is not None:
            left = 'What it has built, or builds yet, is removed.'
        else:
            left = 'It had been sent, so its effect may still happen.'
        return OperationCancelled(
            f'Cannot {self.attempt}: {why}. {left}',
            outcome=Outcome.NOT_APPLIED if unsent else Outcome.UNKNOWN,
            build_key=self.build_key,
            amphora_id=self.amphora_id,
            backend=self.backend,
            operation=self.kind,
        )

    # ---- for who does the work ---------------------------------------------

    def note(self, name: str, detail: str = '') -> None:
        """Add to the story."""
        # A plain tuple of plain values costs the garbage collector nothing.
        event = (self._clock.time(), name, detail)
        with self._lock:
            if self._events is None:
                self._events = []
            elif len(self._events) >= MAX_EVENTS:
                del self._events[MAX_EVENTS // 2]
            self._events.append(event)

    def enter(self, state: OperationState) -> bool:
        """Say what it is doing now; False where it is done, and stays so."""
        with self._lock:
            if self.done():
                return False
            if state is OperationState.RUNNING and self.began_at is None:
                self.began_at = self._clock.monotonic()
            self.state = state
            return True

    def resolve(self, value: T) -> bool:
        """Give the result; False where there was an outcome already."""
        return self._finish(OperationState.SUCCEEDED, value, None)

    def fail(self, error: BaseException) -> bool:
        """Give the error; False where there was an outcome already."""
        cancelled = isinstance(error, OperationCancelled)
        state = OperationState.CANCELLED if cancelled else OperationState.FAILED
        return self._finish(state, None, error)

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
            self.state, self._error, self._value = state, error, value
        self._announce()
        return True

    # ---- over a restart ------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without anything confidential.

        ``Compute.recover`` of another process takes it up from there. The
        result of a build is its id; that of any other call is not kept.
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
            'events': [dataclasses.asdict(event) for event in self.events],
            'error': _error_to_dict(self._error),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, clock: Clock = SYSTEM_CLOCK) -> Self:
        """Return an operation that another process saved; its outcome if it had one."""
        deadline = None
        if data.get('deadline') is not None:
            deadline = Deadline.after(data['deadline'] - clock.time(), clock)
        operation = cls(
            data['kind'],
            backend=data['backend'],
            subject=data['subject'],
            deadline=deadline,
            clock=clock,
            build_key=data.get('build_key'),
            priority=Priority(data.get('priority', Priority.NORMAL)),
        )
        operation._id = data['id']
        operation.amphora_id = data.get('amphora_id')
        if (arguments := data.get('arguments')) is not None:
            operation.arguments = tuple(arguments)
        operation._events = [
            (event['at'], event['name'], event['detail']) for event in data.get('events', ())
        ] or None
        if data['state'] == OperationState.SUCCEEDED:
            built: Any = data.get('amphora_id') if data.get('build_key') else None
            operation.resolve(built)
        elif data['state'] in (OperationState.FAILED, OperationState.CANCELLED):
            operation.fail(AmphoraComputeError.from_dict(data.get('error') or {}))
        return operation


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
