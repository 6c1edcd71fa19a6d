"""The rotate operation: the driver renews credentials or the certificate authority."""

from __future__ import annotations

import functools

from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.models import Cause, OperationState, StepState
from kiln.engine.cluster.driver_calls import (
    DriverCall,
    call_step,
    rotation,
    was_called,
)
from kiln.engine.cluster.operation import NodeOperation
from kiln.engine.cluster.reasons import why_late
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import LONGEST_POLL_S, ActionKind, cause_of, pause_s
from kiln.engine.plan.reset_rounds import refusal


class Rotate(NodeOperation):
    """Calls the driver once, then polls it for as long as it reports to be at work.

    The intent is written before the call, so a call of unknown outcome is repeated.
    """

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        operation = self._tx.under_way
        self._called = was_called(operation, state.parts.store.journal.of(operation.id))
        self._calling = self._done = False
        self._tries = 0
        self._not_before = 0.0

    @property
    def busy(self) -> bool:
        return self._calling

    def refusal(self) -> Cause | None:
        operation = self._tx.under_way
        refused = refusal(operation.kind, self._state.driver, (), operation.args)
        return cause_of(refused) if refused else None

    def step(self) -> bool:
        if not self._done and not self._calling and self._tx.monotonic >= self._not_before:
            self._calling = True
            self._tx.launches.append(functools.partial(self._launch, *self._next_call()))
        return self._done

    def next_action(self, member: Member) -> ActionKind:
        return ActionKind.REST

    def finish(self) -> None:
        if self._state.hooks.may_end():
            self._tx.end(OperationState.SUCCEEDED)

    def miss(self) -> None:
        operation, cluster = self._tx.under_way, self._tx.cluster
        late = why_late(operation, cluster.name, 'its driver has not reported that it is done')
        self._tx.end(OperationState.FAILED, late)

    # ---- calls of the driver -----------------------------------------------------

    def _next_call(self) -> tuple[str, DriverCall]:
        """Return the next method to call, and its call."""
        if self._called:
            return 'update_cluster_status', self._state.driver.update_cluster_status
        self._settle(StepState.INTENT)
        return rotation(self._state.driver, self._tx.under_way)

    def _launch(self, method: str, call: DriverCall) -> None:
        state, operation = self._state, self._tx.under_way
        with_arguments = functools.partial(call, context=state.context(), cluster=self._tx.cluster)
        made = functools.partial(call_driver, state.driver.name, method, with_arguments)
        state.call(made, functools.partial(self._take, operation.id))

    def _take(
        self, operation_id: str, report: StatusReport | None, error: BaseException | None
    ) -> None:
        self._calling = False
        if self._tx.operation is None or self._tx.operation.id != operation_id:
            return
        if error is not None:
            self._failed(error)
            return
        self._tries = 0
        if not self._called:
            self._called = True
            self._settle(StepState.DONE)
        progress = report.progress if report else None
        reason = report.reason if report else ''
        if progress is Progress.FAILED:
            message = reason or 'The driver gives no reason.'
            self._tx.end(OperationState.FAILED, Cause(code='engine_failed', message=message))
        elif progress in (Progress.IN_PROGRESS, Progress.UNKNOWN):
            self._tx.wait_for(Cause(code='engine', message=reason) if reason else None)
            self._rest(LONGEST_POLL_S)
        else:
            self._done = True

    def _failed(self, error: BaseException) -> None:
        self._tries += 1
        cause = cause_of(error)
        if self._called or getattr(error, 'retryable', False):
            self._tx.wait_for(cause)
            self._rest(pause_s(self._tries))
        else:
            self._settle(StepState.FAILED, cause)
            self._tx.end(OperationState.FAILED, cause)

    def _settle(self, state: StepState, cause: Cause | None = None) -> None:
        self._tx.journal(call_step(self._tx.under_way, state, self._tx.now, {}, cause))

    def _rest(self, seconds: float) -> None:
        self._not_before = self._tx.monotonic + seconds
        self._nodes.wake_at(self._not_before)
