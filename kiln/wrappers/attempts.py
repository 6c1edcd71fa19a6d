"""Retries of an operation: what follows each answer, when, and when to stop; pure."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.own_errors import look_first
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
from kiln.wrappers.errand import Errand


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


#: How an operation goes on after an answer.
Step = Done | Failed | Again


class Backoff:
    """Pauses between the attempts of a call."""

    def __init__(self, *, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s, self._max_s, self._rng = first_s, max_s, rng

    def pause_s(self, attempt: int, error: BaseException | None = None) -> float:
        """Return the pause after an attempt, the first being 1: doubled, with full jitter.

        Never less than a tenth, or chance would now and then make a tight loop. A
        pause that the backend requested is kept, and then some, lest all who were
        given the same time come back at once.
        """
        if isinstance(error, AmphoraComputeError) and error.retry_after is not None:
            return error.retry_after + self._first_s * self._rng.random()
        if isinstance(error, CircuitOpenError):
            # Opened by hand, for nobody knows how long.
            return math.inf
        ceiling: float = min(self._max_s, self._first_s * 2 ** min(attempt - 1, 30))
        return ceiling * self._rng.uniform(0.1, 1.0)


def may_repeat(call: Call, error: AmphoraComputeError) -> bool:
    """Return True if sending a call again can do no harm and may do good.

    What never reached the backend may always be sent again. What may have
    taken effect is repeated only where doing it twice is doing it once.
    """
    # A build that needs another place is repeated by its caller, who chooses the place.
    if not error.retryable or error.advice is Advice.BUILD_ANEW:
        return False
    return error.outcome is Outcome.NOT_APPLIED or call.repeatable


class CallPlan:
    """One call, sent until it is answered, where that can do no harm."""

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

    #: The build key of which only one operation may be under way; None for other calls.
    key: str | None = None
    #: True if the backend may have a machine that was reported to nobody.
    doubt = False
    #: True if that machine is removed, False if it is left for a caller to find.
    discards = True
    #: True if a build was sent twice, so that the first request may still arrive.
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
        # The call to be sent next; a plan of several steps changes it.
        self.call = call
        self.args = args
        self.backoff = backoff
        # True if the first error is the last, as the caller decides what follows it.
        self.once = once
        self.attempt = 0
        self.last_error: BaseException | None = None
        # True while it waits for an earlier operation of its build key to end.
        self.in_line = False

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Make the next call."""
        return driver.perform(self.call, *self.args)

    def answered(self, value: Any) -> Step:
        """Decide what follows a result."""
        return Done(value)

    def failed(self, error: BaseException) -> Step:
        """Decide what follows an error."""
        self.last_error = error
        if self.once or not isinstance(error, AmphoraComputeError):
            return Failed(error)
        return self.again(error) if may_repeat(self.call, error) else Failed(error)

    def again(self, error: BaseException) -> Again:
        """Pause after an error, longer each time."""
        self.attempt += 1
        return Again(self.backoff.pause_s(self.attempt, error), str(error))

    def unforeseen(self, exc: BaseException) -> BaseException:
        """Return the error for what no driver should raise, such as SystemExit."""
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
        """Return the error of an operation whose time is over."""
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
        error: AmphoraComputeError
        if self.call is Call.DELETE:
            error = DeleteTimeout(text, outcome=Outcome.UNKNOWN, **self.facts)
        else:
            error = look_first(ServiceTimeout(text, **self.facts), self.call)
        error.__cause__ = self.last_error
        return error

    def threadless(self) -> BaseException:
        """Return the error of an operation for which no thread can be started again."""
        error = self.overdue(in_flight=False)
        if not isinstance(error, OperationTimeout) or error.outcome is not Outcome.NOT_APPLIED:
            # It was sent before, by this process or another one.
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
        """True if it goes on while the executor closes."""
        return False

    def call_off(self) -> None:
        """End the operation because kiln closes."""
        self.operation.cancel('kiln was closed')

    def leave(self) -> None:
        """End because kiln closes, and leave what it builds to the next user of its key."""
        self.call_off()

    @property
    def about(self) -> str:
        """How each of its errors begins."""
        return f'Cannot {self.operation.attempt}'

    @property
    def facts(self) -> dict[str, Any]:
        """What each of its errors carries."""
        operation = self.operation
        return {
            'backend': operation.backend,
            'operation': operation.kind,
            'amphora_id': operation.amphora_id,
            'build_key': operation.known_key,
        }
