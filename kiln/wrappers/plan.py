"""How an operation goes on after each answer: the decisions, without a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call
from kiln.compute_drivers.own_errors import look_first
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    DeleteFailed,
    DeleteTimeout,
    OperationRejected,
    OperationTimeout,
    Outcome,
    ServiceTimeout,
)
from kiln.wrappers.errand import Errand
from kiln.wrappers.retry import Again, Backoff, Done, Failed, Step, may_repeat


class CallPlan:
    """One call, sent until it is answered, where that can do no harm."""

    __slots__ = ('args', 'attempt', 'backoff', 'call', 'in_line', 'last_error', 'operation')

    #: Whether the backend may have something that nobody was told of.
    doubt = False
    #: Whether that is removed, or left to somebody who will look for it.
    discards = True

    def __init__(
        self, operation: Errand[Any], call: Call, args: tuple[Any, ...], backoff: Backoff
    ) -> None:
        self.operation = operation
        # The call to be sent next; a plan of several steps changes it.
        self.call = call
        self.args = args
        self.backoff = backoff
        self.attempt = 0
        self.last_error: BaseException | None = None
        # Whether it waits for an earlier one of its build key to end.
        self.in_line = False

    def refusal(self, driver: AmphoraComputeDriver) -> AmphoraComputeError | None:
        """Return the error that the next call would be refused with now."""
        return driver.refusal(self.call)

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Make the next call."""
        return driver.perform(self.call, *self.args)

    def answered(self, value: Any) -> Step:
        """Decide what follows a result."""
        return Done(value)

    def failed(self, error: BaseException) -> Step:
        """Decide what follows an error."""
        self.last_error = error
        if isinstance(error, AmphoraComputeError) and may_repeat(self.call, error):
            return self.again(error)
        return Failed(error)

    def again(self, error: BaseException) -> Again:
        """Pause after an error, longer each time."""
        self.attempt += 1
        known = error if isinstance(error, AmphoraComputeError) else None
        return Again(self.backoff.pause_s(self.attempt, known), str(error))

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
        """Return the error of an operation that will get no thread any more."""
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
        """Whether it goes on while the executor closes."""
        return False

    def call_off(self) -> None:
        """End the operation because kiln closes."""
        self.operation.cancel('kiln was closed')

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


class FunctionPlan(CallPlan):
    """A function that is no call, run once on a thread of the reads."""

    __slots__ = ('_function',)

    def __init__(
        self, operation: Errand[Any], function: Callable[[], Any], backoff: Backoff
    ) -> None:
        super().__init__(operation, Call.CHECK, (), backoff)
        self._function = function

    def refusal(self, driver: AmphoraComputeDriver) -> AmphoraComputeError | None:
        """Refuse nothing: the function may not ask the backend at all."""
        return None

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Call the function."""
        return self._function()

    def failed(self, error: BaseException) -> Step:
        """Pass the error on: what it means is the caller's business."""
        return Failed(error)

    def unforeseen(self, exc: BaseException) -> BaseException:
        """Pass that on too, as a future does."""
        return exc
