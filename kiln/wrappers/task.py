"""An operation on its way to the backend."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable
from typing import Any

from kiln.clock import deadline_scope
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Call, Traffic
from kiln.exceptions import (
    AmphoraComputeError,
    BuildOutcomeUnknown,
    DeleteTimeout,
    OperationCancelled,
    OperationTimeout,
    Outcome,
    ServiceTimeout,
)
from kiln.models import BuildRequest
from kiln.wrappers.operation import Operation
from kiln.wrappers.scheduler import Appointment

_ON_AMPHORA = frozenset(call.label for call in (
    Call.DELETE, Call.GET, Call.STATUS, Call.SUSPEND, Call.RESUME, Call.REBOOT, Call.REBUILD,
    Call.ATTACH_PORT, Call.DETACH_PORT, Call.ATTACH_NETWORK, Call.DETACH_NETWORK,
    Call.CONSOLE_LOG,
))  # fmt: skip


class Task:
    """An operation on its way to the backend, and what its attempts taught."""

    __slots__ = (
        'args', 'attempt', 'call', 'context', 'expiry', 'in_flight', 'last_error', 'looking',
        'lost', 'on_lane', 'operation', 'oslo_context', 'queued', 'work',
    )  # fmt: skip

    def __init__(
        self,
        operation: Operation[Any],
        call: Call,
        args: tuple[Any, ...],
        work: Callable[[], Any] | None = None,
    ) -> None:
        self.operation = operation
        self.call = call
        self.args = args
        # What runs instead of a call, where it is none.
        self.work = work
        self.context = contextvars.copy_context()
        self.oslo_context = _oslo_context()
        self.expiry: Appointment | None = None
        self.attempt = 0
        # Where it is: in the queue, on a thread, within the backend.
        self.queued = False
        self.on_lane = False
        self.in_flight = False
        # A build whose answer was lost; and whether it is looked for now.
        self.lost = False
        self.looking = False
        self.last_error: AmphoraComputeError | None = None
        _describe(operation, args)

    @property
    def next_call(self) -> Call:
        """The call that its next attempt makes."""
        return Call.FIND_BUILD if self.looking else self.call

    @property
    def traffic(self) -> Traffic:
        """The kind of thread that its next attempt needs."""
        return self.next_call.traffic

    def attempt_on(self, driver: AmphoraComputeDriver) -> Any:
        """Make its next attempt, as the caller who submitted it would."""
        return self.context.run(self._attempt_on, driver)

    def _attempt_on(self, driver: AmphoraComputeDriver) -> Any:
        if self.oslo_context is not None:
            self.oslo_context.update_store()
        with deadline_scope(self.operation.deadline):
            if self.work is not None:
                return self.work()
            if self.looking:
                return driver.perform(Call.FIND_BUILD, self.operation.build_key)
            return driver.perform(self.call, *self.args)

    # ---- what its caller is told ---------------------------------------------

    def verdict(self, error: BaseException) -> BaseException:
        """Return what an error amounts to, given all that happened before it."""
        if not self.lost or isinstance(error, BuildOutcomeUnknown | OperationCancelled):
            return error
        unknown = BuildOutcomeUnknown(
            f'Cannot tell whether {self.operation.subject} was built: {error}', **self._facts()
        )
        unknown.__cause__ = error
        return unknown

    def overdue(self) -> AmphoraComputeError:
        """Return the error of a deadline that has passed."""
        text = f'Cannot {self.operation.kind} {self.operation.subject}'.rstrip()
        facts = self._facts()
        if not self.in_flight:
            return self.last_error or OperationTimeout(
                f'{text}: no thread was free for it before its deadline.',
                outcome=Outcome.NOT_APPLIED,
                **facts,
            )
        text = f'{text}: {self.operation.backend!r} gave no answer before the deadline.'
        if self.call is Call.BUILD:
            return BuildOutcomeUnknown(text, **facts)
        if self.call is Call.DELETE:
            return DeleteTimeout(text, outcome=Outcome.UNKNOWN, **facts)
        return ServiceTimeout(text, **facts)

    def closed(self) -> OperationCancelled:
        """Return the error of an operation under which kiln was closed."""
        return OperationCancelled(
            f'Cannot {self.operation.kind} {self.operation.subject}: kiln was closed.',
            outcome=Outcome.UNKNOWN if self.in_flight or self.lost else Outcome.NOT_APPLIED,
            **self._facts(),
        )

    def _facts(self) -> dict[str, Any]:
        operation = self.operation
        return {
            'backend': operation.backend,
            'operation': operation.kind,
            'amphora_id': operation.amphora_id,
            'build_key': operation.build_key,
        }


def _describe(operation: Operation[Any], args: tuple[Any, ...]) -> None:
    subject = args[0] if args else None
    if isinstance(subject, BuildRequest):
        operation.subject = subject.name
        operation.build_key = subject.build_key
    elif isinstance(subject, str):
        operation.subject = subject
        if operation.kind in _ON_AMPHORA:
            operation.amphora_id = subject


def _oslo_context() -> Any:
    # A controller that has request contexts has imported the module; nobody
    # else needs to pay for it.
    module = sys.modules.get('oslo_context.context')
    return None if module is None else module.get_current()
