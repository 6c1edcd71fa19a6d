"""An operation and its plan on their way through queue, threads and backend."""

from __future__ import annotations

import contextvars
import sys
from typing import Any, Protocol

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Traffic
from kiln.wrappers.errand import Errand
from kiln.wrappers.plan import CallPlan
from kiln.wrappers.scheduler import Appointment


class Runner(Protocol):
    """Who has tasks worked on; each knows it, so it need not have callbacks."""

    def expire(self, task: Task) -> None:
        """Tell the caller of a task whose deadline has come."""

    def settled(self, task: Task) -> None:
        """Let go of a task whose operation has its outcome."""


class Task:
    """Where an operation is, and the caller's context to make its calls in."""

    __slots__ = (
        'context', 'deadline', 'ended', 'expiry', 'in_flight', 'key', 'operation', 'order',
        'oslo_context', 'plan', 'queued', 'runner',
    )  # fmt: skip

    def __init__(
        self,
        runner: Runner,
        operation: Errand[Any],
        plan: CallPlan,
        deadline: Deadline,
        *,
        key: str | None = None,
        context: contextvars.Context | None = None,
    ) -> None:
        self.runner = runner
        self.operation = operation
        self.plan = plan
        self.deadline = deadline
        # The build whose turn it needs before it may go.
        self.key = key
        self.context = context or contextvars.copy_context()
        self.oslo_context = _current_oslo_context()
        self.expiry: Appointment | None = None
        # Its place in the queue, where it was taken from there too early.
        self.order: int | None = None
        # Guarded by the executor's lock: whether it waits in the queue, whether
        # the backend has it, whether its operation has an outcome.
        self.queued = False
        self.in_flight = False
        self.ended = False

    @property
    def traffic(self) -> Traffic:
        """The kind of thread that its next call needs."""
        return self.plan.call.traffic

    def expire(self) -> None:
        """Tell the caller, as the deadline has come."""
        self.runner.expire(self)

    def settled(self, _: Errand[Any]) -> None:
        """Leave the runner, as there is an outcome, whoever gave it."""
        self.runner.settled(self)

    def send(self, driver: AmphoraComputeDriver) -> Any:
        """Make its next call, as the caller who submitted it would."""
        return self.context.run(self._send, driver)

    def _send(self, driver: AmphoraComputeDriver) -> Any:
        before = _current_oslo_context()
        _store_oslo_context(self.oslo_context)
        try:
            with deadline_scope(self.deadline):
                return self.plan.send(driver)
        finally:
            # Where the pool has no threads, this one is the caller's own.
            _store_oslo_context(before)


def _current_oslo_context() -> Any:
    # A controller that has request contexts has imported the module; nobody
    # else needs to pay for it.
    module = sys.modules.get('oslo_context.context')
    return None if module is None else module.get_current()


def _store_oslo_context(context: Any) -> None:
    if context is not None:
        context.update_store()
    elif _current_oslo_context() is not None:
        # It cannot be unset, so an empty one takes the place of a stranger's.
        sys.modules['oslo_context.context'].RequestContext(overwrite=True)
