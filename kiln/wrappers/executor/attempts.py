"""Retries of an operation: decides the next step after each result; pure."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from kiln.compute_drivers.authoring.error_mapping import look_first
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    CircuitOpenError,
    DeleteFailed,
    DeleteTimeout,
    OperationRejected,
    OperationTimeout,
    Outcome,
    ServiceTimeout,
)
from kiln.wrappers.operations.errand import Errand


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """A step: the operation has its result."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """A step: the operation has its error."""

    error: BaseException


@dataclasses.dataclass(frozen=True, slots=True)
class Again:
    """A step: a call is sent after a pause."""

    pause_s: float = 0.0
    why: str = ''


#: The next step of an operation after a result.
Step = Done | Failed | Again


class Backoff:
    """Pauses between the attempts of a call."""

    def __init__(self, *, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s, self._max_s, self._rng = first_s, max_s, rng

    def pause_s(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the pause after an attempt, the first being 1: doubled, with full jitter.

        At least a tenth of the full pause, because a shorter jitter would make a tight
        loop. A pause that the backend requested is kept and extended at random, so that
        callers with the same pause do not all return at once.
        """
        if isinstance(error, AmphoraComputeError) and error.retry_after is not None:
            return error.retry_after + self._first_s * self._rng.random()
        if isinstance(error, CircuitOpenError):
            # Opened by hand, so its end is unknown.
            return math.inf
        ceiling: float = min(self._max_s, self._first_s * 2 ** min(attempt - 1, 30))
        return ceiling * self._rng.uniform(0.1, 1.0)


def may_repeat(call: Call, error: AmphoraComputeError) -> bool:
    """Return True if sending a call again is safe and can succeed.

    A call that never reached the backend can always be sent again. A call that might have
    taken effect is repeated only if a second call has the same effect as one.
    """
    # A build that needs another place is repeated by its caller, which chooses the place.
    if not error.retryable or error.advice is Advice.BUILD_ANEW:
        return False
    return error.outcome is Outcome.NOT_APPLIED or call.repeatable


class CallPlan:
    """One call, sent until it is answered, as far as repeating it is safe."""

    __slots__ = (
        'args',
        'attempt',
        'backoff',
        'call',
        'in_line',
        'last_error',
        'once',
        'operation',
    )

    #: The build key for which only one operation runs at a time; None for other calls.
    key: str | None = None
    #: True if the backend might have a machine that was not reported to any caller.
    doubt = False
    #: True if that machine is removed, False if it is left for a caller to find.
    discards = True
    #: True if a build was sent twice, so that the first request can still arrive.
    resent = False

    def __init__(
        self,
        operation: Errand[Any],
        call: Call,
        args: tuple[Any, ...],
        backoff: Backoff,
        *,
        once: bool = False,
    ) -> None:
        self.operation = operation
        # The next call; a plan of several steps changes it.
        self.call = call
        self.args = args
        self.backoff = backoff
        # True if the first error is final, because the caller decides what follows.
        self.once = once
        self.attempt = 0
        self.last_error: BaseException | None = None
        # True while it waits for an earlier operation of its build key to end.
        self.in_line = False

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Make the next call."""
        return driver.perform(self.call, *self.args)

    def answered(self, value: Any) -> Step:
        """Return the next step after a result."""
        return Done(value)

    def failed(self, error: BaseException) -> Step:
        """Return the next step after an error."""
        self.last_error = error
        if self.once or not isinstance(error, AmphoraComputeError):
            return Failed(error)
        return self.again(error) if may_repeat(self.call, error) else Failed(error)

    def again(self, error: BaseException) -> Again:
        """Return a step that repeats after a pause, longer each time."""
        self.attempt += 1
        return Again(self.backoff.pause_s(self.attempt, error), str(error))

    def unexpected(self, exc: BaseException) -> BaseException:
        """Return the error for an exception that no driver should raise, such as SystemExit."""
        kind = DeleteFailed if self.call is Call.DELETE else AmphoraComputeError
        error = kind(
            f'{self.about}: the driver raised {type(exc).__name__}: {exc}. '
            f'This is a defect of the driver.',
            outcome=Outcome.UNKNOWN,
            **self.facts,
        )
        error.__cause__ = exc
        return error

    def overdue(self, *, in_flight: bool) -> BaseException:
        """Return the error of an operation whose deadline has passed."""
        if not in_flight:
            why = (
                'an earlier build of its key had not ended before its deadline'
                if self.in_line
                else 'no thread was free for it before its deadline'
            )
            return self.last_error or OperationTimeout(
                f'{self.about}: {why}. It was never sent.',
                outcome=Outcome.NOT_APPLIED,
                **self.facts,
            )
        text = f'{self.about}: {self.operation.backend!r} gave no answer before the deadline.'
        if self.last_error is not None:
            before = str(self.last_error).removeprefix(f'{self.about}: ')
            text += f' The attempt before failed: {before}'
        error: AmphoraComputeError
        if self.call is Call.DELETE:
            error = DeleteTimeout(text, outcome=Outcome.UNKNOWN, **self.facts)
        else:
            error = look_first(ServiceTimeout(text, **self.facts), self.call)
        error.__cause__ = self.last_error
        return error

    def no_thread_error(self) -> BaseException:
        """Return the error of an operation for which no thread can be started."""
        error = self.overdue(in_flight=False)
        if not isinstance(error, OperationTimeout) or error.outcome is not Outcome.NOT_APPLIED:
            # It was sent before, by this process or an earlier process.
            return error
        return OperationRejected(
            f'{self.about}: the interpreter is ending and starts no more threads. It was never '
            f'sent. Make the first call before the main thread ends.',
            advice=Advice.GIVE_UP,
            outcome=Outcome.NOT_APPLIED,
            **self.facts,
        )

    @property
    def outlives_closing(self) -> bool:
        """True if it continues while the executor closes."""
        return False

    def call_off(self) -> None:
        """End the operation because kiln closes."""
        self.operation.cancel('kiln was closed')

    def leave(self) -> None:
        """End because kiln closes; leave what it builds to the next build with its key."""
        self.call_off()

    @property
    def about(self) -> str:
        """The common beginning of its errors."""
        return f'Cannot {self.operation.attempt}'

    @property
    def facts(self) -> dict[str, Any]:
        """The common facts of its errors."""
        operation = self.operation
        return {
            'backend': operation.backend,
            'operation': operation.kind,
            'amphora_id': operation.amphora_id,
            'build_key': operation.known_key,
        }
