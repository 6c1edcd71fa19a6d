"""Errand: the internal side of an operation, which sets its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.exceptions import Advice, AmphoraComputeError, ForkedError, OperationCancelled
from kiln.foreign.waiting import Wait
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.caller_threads import CallerThreads
from kiln.wrappers.operations.operation import Operation, OperationState, Priority

T = TypeVar('T')

#: Seconds without an answer after which a caller is told that the backend is silent.
SILENT_S = 3.0
#: Maximum number of events; more are cut in the middle of the retries, not at the end.
MAX_EVENTS = 50


class NoAnswerSoFar(AmphoraComputeError):
    """The backend has not answered a call that is under way; reported, never raised."""

    code = 'no_answer_so_far'
    remedy = (
        'Check the backend, unless it is just busy; kiln waits until the time limit of the call.'
    )


def no_answer_so_far(backend: str, about: str, wait: Wait) -> NoAnswerSoFar:
    """Return the report of a call without an answer; ``about`` begins the sentence."""
    silent = f'{wait.whom}, for backend {backend!r},' if wait.whom else repr(backend)
    text = f'{about}: {silent} has not answered for over {SILENT_S:.0f} s.'
    return NoAnswerSoFar(f'{text} {wait.why}'.rstrip(), backend=backend)


class _CallersFace(type):
    """Metaclass that shows only the attributes of an operation."""

    def __dir__(cls) -> Iterable[str]:
        return dir(Operation)


class Errand(Operation[T], metaclass=_CallersFace):
    """The object that kiln works on for each call, and returns as an :class:`Operation`."""

    __slots__ = ()

    # The caller receives this object. A shell lists the attributes of the declared type,
    # and none that would end work in progress. To complete a name, a shell reads dir() of
    # the object and of its class; help() reads dir() of the class.
    def __dir__(self) -> Iterable[str]:
        return dir(Operation)

    # The same functions as on Operation: one more call would slow down each submit.

    #: Call a quick function of kiln's own on the thread that sets the outcome, or now.
    then = Operation._then
    #: Call a caller's function, after earlier functions, on a callback thread.
    call_out = Operation._call_out
    #: Drop a function that was passed to :meth:`then`.
    forget = Operation._forget

    @property
    def key(self) -> BuildKey | None:
        """The key of a build, for internal use."""
        return self._key

    @key.setter
    def key(self, key: BuildKey) -> None:
        self._key = key

    @property
    def known_key(self) -> str | None:
        """The key for an error; None while it is private."""
        return None if self._key is None else self._key.known

    @property
    def began_at(self) -> float | None:
        """When a thread first began work on it, by the monotonic clock."""
        return self._began_at

    def set_call(self, call: Operation[Any] | None) -> None:
        """Set the call that was sent for it, whose error becomes its own; None once answered."""
        self._call = call
        if isinstance(call, Errand):
            call.on_hindrance(self.hinder)

    def on_hindrance(self, function: Callable[[BaseException | None], object]) -> None:
        """Call a quick function of kiln's own with whatever delays the operation.

        That is an error after which a call is repeated, or the report of a silent backend;
        None once the delay is over.
        """
        self._hindrance = function
        if self._hindered_by is not None and not self.done():
            function(self._hindered_by)

    def hinder(self, error: BaseException | None) -> None:
        """Report what delays the operation, and is not its outcome; None once that is over."""
        if error is None and self._hindered_by is None:
            return
        self._hindered_by = error
        if self._hindrance is not None and not self.done():
            self._hindrance(error)

    def leave(self, why: str) -> bool:
        """End it now, like cancel(), but leave what it builds under its key."""
        return self._call_off(why, left=True)

    def disown(self) -> None:
        """End it in the child of a fork; the parent continues it."""
        # A thread of the parent might hold its lock or wait, and its callbacks are meant
        # for the process in which it ends.
        self._lock = threading.Lock()
        self._waiter = self._callbacks = self._line = None
        if not self.done():
            key = self._key and self._key.read()
            text = (
                f'Cannot {self.attempt} here: it was begun before a fork and belongs to the '
                f'parent process, which continues it.'
            )
            if key is not None:
                text += f' To use what it builds, build again with build_key={key!r}.'
            self.fail(
                ForkedError(
                    text,
                    # The parent might have done anything since.
                    advice=Advice.LOOK if key is None else Advice.REPEAT,
                    build_key=key,
                    amphora_id=self.amphora_id,
                    backend=self.backend,
                    operation=self.kind,
                )
            )

    def note(self, name: str, detail: str = '') -> None:
        """Add an event."""
        # A plain tuple of plain values costs the garbage collector nothing.
        event = (self._clock.time(), name, detail)
        with self._lock:
            if self._events is None:
                self._events = []
            elif len(self._events) >= MAX_EVENTS:
                del self._events[MAX_EVENTS // 2]
            self._events.append(event)

    def enter(self, state: OperationState) -> bool:
        """Set its state; return False if it is already done."""
        with self._lock:
            if self.done():
                return False
            if state is OperationState.RUNNING and self._began_at is None:
                self._began_at = self._clock.monotonic()
            self.state = state
            return True

    def resolve(self, value: T) -> bool:
        """Set the result; return False if it already has an outcome."""
        return self._finish(OperationState.SUCCEEDED, value, None)

    def fail(self, error: BaseException) -> bool:
        """Set the error; return False if it already has an outcome."""
        if isinstance(error, AmphoraComputeError):
            error.name_missing(
                backend=self.backend,
                operation=self.kind,
                amphora_id=self.amphora_id,
                build_key=self.known_key,
            )
        cancelled = isinstance(error, OperationCancelled)
        state = OperationState.CANCELLED if cancelled else OperationState.FAILED
        return self._finish(state, None, error)

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        clock: Clock = SYSTEM_CLOCK,
        callers: CallerThreads | None = None,
    ) -> Self:
        """Return an operation that another process saved, with its outcome if it had one."""
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
            callers=callers,
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
