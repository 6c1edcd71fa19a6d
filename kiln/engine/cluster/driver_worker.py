"""The rounds of a cluster that its driver builds with an engine of its own.

The driver is called once for each operation, then polled for progress until the
operation is done. The intent to call it is written first, so that the call is repeated
after a crash: the driver contract requires that nothing is started twice.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from kiln.clusters.models import (
    Cause,
    Cluster,
    OperationKind,
    OperationState,
    StepState,
)
from kiln.engine.cluster.delete import TRIES
from kiln.engine.cluster.driver_calls import (
    CALL,
    DriverCall,
    call_step,
    first_call,
    was_called,
)
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.outputs import NotedSecrets, Outputs, noting
from kiln.engine.cluster.reasons import why_late, why_undone
from kiln.engine.cluster.rollback import leads_back, rollback_of
from kiln.engine.cluster.worker import Worker
from kiln.engine.context import Parts
from kiln.engine.nodes.cluster_state import CallSoon, ClusterState
from kiln.engine.nodes.hook_gate import HookGate
from kiln.engine.plan.lifecycle import cause_of, pause_s
from kiln.engine.plan.reset_rounds import refusal
from kiln.foreign.text import plain

#: Seconds between two polls for progress.
POLL_S = 5.0
#: Seconds between two polls that the driver itself asks for, at least.
SOON_S = 0.5
#: In the result of that step: there is nothing left to poll for.
_COMPLETE = 'complete'

#: The longest text of an event that a driver reports, in characters.
LONGEST_EVENT = 1000

_SILENT = 'It gives no reason.'
#: Operations on single nodes, which a driver with its own engine does not report.
_UNKNOWN = frozenset({OperationKind.REPLACE, OperationKind.ADOPT})


class DriverWorker(Worker):
    """Calls a driver to bring its cluster to the desired state."""

    def __init__(
        self, parts: Parts, held: HeldLease, driver: ClusterDriver, call_soon: CallSoon
    ) -> None:
        # kiln has no records of its nodes, so the node table has timers and no members.
        self._state = state = ClusterState(parts, held.lease, driver, call_soon)
        self._driver = driver
        self._outputs = Outputs(state)
        #: True while a call of the driver is under way.
        self._calling = False
        #: True if the driver has received the operation, and if it has completed it.
        self._called = self._complete = False
        #: True if a forced deletion does not wait for the driver.
        self._abandoned = False
        #: Why the operation is rolled back, if it is.
        self._undone: Cause | None = None
        self._tries = 0
        self._not_before = 0.0
        #: True if the driver has asked to be polled since it was called last, and from when on
        #: that is possible.
        self._soon = False
        self._soon_at = 0.0
        super().__init__(state, held, HookGate(state))

    @property
    def _busy(self) -> bool:
        return self._calling

    def reload(self) -> None:
        store, tx = self._parts.store, self._tx
        cluster = store.clusters.get(tx.cluster.id)
        found = store.operations.open(tx.cluster.id)
        fresh = found[0] if found else None
        if fresh is not None and (tx.operation is None or fresh.id != tx.operation.id):
            steps = store.journal.of(fresh.id)
            back = rollback_of(fresh, steps)
            self._undone = back.cause if back else None
            since = back.started_at if back else -math.inf
            self._complete = any(
                step.result.get(_COMPLETE)
                for step in steps
                if step.kind == CALL and step.started_at > since
            )
            self._abandoned = any(
                step.cause is not None and step.state is StepState.DONE
                for step in steps
                if step.kind == CALL
            )
            self._called = was_called(fresh, steps, since)
            self._tries, self._not_before, self._soon = 0, 0.0, False
        tx.load(cluster, fresh)
        self._hooks.reload()

    # ---- going on ------------------------------------------------------------------

    def _refusal(self) -> Cause | None:
        kind = self._tx.under_way.kind
        refused = refusal(kind, self._driver, (), self._tx.under_way.args)
        if refused is None and kind in _UNKNOWN:
            refused = MissingCapability(
                f'Cluster driver {self._driver.name} has an engine of its own, which does '
                f'not support {kind.value}.'
            )
        return cause_of(refused) if refused else None

    def _go_on(self) -> None:
        if self._complete:
            if self._hooks.may_end():
                self._arrive()
        elif not self._calling and self._tx.monotonic >= self._not_before:
            self._calling = True
            self._tx.launches.append(functools.partial(self._launch, *self._next_call()))

    def _next_call(self) -> tuple[str, DriverCall]:
        """Return the next method to call, and its call."""
        kind = self._tx.under_way.kind
        if self._called or kind is OperationKind.CHECK:
            return 'update_cluster_status', self._driver.update_cluster_status
        self._settle(StepState.INTENT)
        if self._tx.cluster.driver_handle is None:
            # From now on resources can exist that only the driver knows.
            self._tx.cluster = dataclasses.replace(self._tx.cluster, driver_handle='')
        back = self._undone is not None
        return first_call(self._driver, self._tx.under_way, self._tx.now, back=back)

    def _launch(self, method: str, call: DriverCall) -> None:
        operation = self._tx.under_way
        context, noted = noting(self._state.context())
        soon = functools.partial(self._poll_soon, operation.id)
        context = dataclasses.replace(
            context, poll_soon=functools.partial(self._state.call_soon, soon)
        )
        self._soon = False
        # A driver that returned no handle gets none.
        handle = self._tx.cluster.driver_handle or None
        cluster = dataclasses.replace(self._tx.cluster, driver_handle=handle)
        made = functools.partial(
            call_driver,
            self._driver.name,
            method,
            functools.partial(call, context=context, cluster=cluster),
        )
        self._state.call(made, functools.partial(self._take_report, operation.id, noted))

    def _arrive(self) -> None:
        tx, cluster = self._tx, self._tx.cluster
        if self._undone is not None:
            cause = why_undone(tx.under_way, cluster.name, self._undone)
            tx.end(OperationState.ROLLED_BACK, cause)
            return
        tx.end(OperationState.SUCCEEDED)
        if self._tx.under_way.kind is OperationKind.DELETE:
            if not self._abandoned:
                tx.confirm_engine_done()
            tx.remove_cluster(forced=self._tx.under_way.forced)
        elif self._tx.under_way.kind is not OperationKind.CHECK:
            tx.cluster = dataclasses.replace(cluster, former=cluster.aim, updated_at=tx.now)

    def _miss(self) -> None:
        tx, operation = self._tx, self._tx.under_way
        if operation.forced and (self._calling or self._called):
            self._abandon()
            tx.end(OperationState.SUCCEEDED)
            tx.remove_cluster(forced=True)
            return
        left = 'its engine has not reported that it is done'
        if self._complete:
            left = 'its hooks are not done'
        self._end_failed(why_late(operation, tx.cluster.name, left, undone=self._undone))

    def _end_failed(self, cause: Cause) -> None:
        """End the operation, or roll it back if its user asked for that."""
        if self._undone is not None or not leads_back(self._tx, cause):
            self._tx.end(OperationState.FAILED, cause)

    # ---- results ---------------------------------------------------------------------

    def _take_report(
        self,
        operation_id: str,
        noted: NotedSecrets,
        report: StatusReport | None,
        error: BaseException | None,
    ) -> None:
        self._calling = False
        if self._tx.operation is None or self._tx.operation.id != operation_id:
            # What the driver has to know of its engine is true all the same.
            if report is not None:
                self._keep(report)
            return
        if report is not None:
            self._outputs.take(report.outputs, noted)
            for text in report.events:
                self._tx.event('engine', plain(noted.masked(text))[:LONGEST_EVENT])
        if error is not None:
            self._fail(error)
        elif self._tx.under_way.forced and report and report.progress is Progress.FAILED:
            # Polling for progress would return the same failure again.
            self._called = False
            self._fail(ClusterDriverError(report.reason or _SILENT))
        else:
            self._progress(report)

    def _poll_soon(self, operation_id: str) -> None:
        """Poll the driver before its time, as it has asked for."""
        operation = self._tx.operation
        if operation is None or operation.id != operation_id:
            return
        self._soon = True
        # After a failure its pause is kept.
        if not self._calling and not self._tries:
            self._rest_until(min(self._not_before, self._soon_at))

    def _fail(self, error: BaseException) -> None:
        self._tries += 1
        self._rest_until(self._tx.monotonic + pause_s(self._tries))
        cause = cause_of(error)
        if self._tx.under_way.forced:
            self._give_up(cause)
        # A driver that cannot report progress can still be at work.
        elif self._called or getattr(error, 'retryable', False):
            self._tx.wait_for(cause)
        else:
            self._settle(StepState.FAILED, cause)
            self._end_failed(cause)

    def _give_up(self, cause: Cause) -> None:
        """End a forced deletion without the resources that its engine does not delete."""
        self._tx.wait_for(cause)
        if self._tries < TRIES:
            return
        self._complete = True
        self._settle(StepState.DONE, cause)
        self._abandon()

    def _abandon(self) -> None:
        self._abandoned = True
        self._tx.abandon_engine()

    def _progress(self, report: StatusReport | None) -> None:
        self._tries = 0
        just_called, self._called = not self._called, True
        # A driver that was only just called can be done already.
        at_once = just_called and report is None
        rest_s = 0.0 if at_once else SOON_S if self._soon else POLL_S
        self._soon_at = self._tx.monotonic + SOON_S
        self._rest_until(self._tx.monotonic + rest_s)
        checked = self._tx.under_way.kind is OperationKind.CHECK
        progress = report.progress if report is not None else None
        # A driver that does not report has nothing for a check to find.
        self._complete = progress is Progress.COMPLETE or (checked and progress is None)
        done = self._complete
        if checked and progress is None:
            name = self._driver.name
            self._tx.event('not-checked', f'{name} reports no progress: nothing was checked')
        if not checked and (just_called or done):
            self._settle(StepState.DONE)
        if report is not None:
            self._keep(report)
            if not self._complete:
                self._record(report)

    def _rest_until(self, monotonic: float) -> None:
        self._not_before = monotonic
        self._nodes.wake_at(monotonic)

    def _keep(self, report: StatusReport) -> None:
        """Write the handle and state that the driver wants to be passed again."""
        changes: dict[str, Any] = {}
        if report.driver_handle is not None:
            changes['driver_handle'] = report.driver_handle
        if report.driver_state is not None:
            changes['driver_state'] = report.driver_state
        if changes:
            self._tx.cluster = dataclasses.replace(self._tx.cluster, **changes)

    def _record(self, report: StatusReport) -> None:
        """Record the progress of an engine that is not done."""
        cause = Cause(code='engine', message=report.reason) if report.reason else None
        if report.progress is Progress.FAILED:
            failed = Cause(code='engine_failed', message=report.reason or _SILENT)
            self._end_failed(failed)
        elif report.progress is Progress.UNKNOWN:
            unknown = cause or Cause(code='engine', message='Its engine cannot be reached now.')
            if self._tx.under_way.kind is OperationKind.CHECK:
                # The purpose of a check is an answer.
                self._tx.end(OperationState.FAILED, _unknown(self._tx.cluster, unknown))
            else:
                self._tx.wait_for(unknown)
        else:
            self._tx.operation = dataclasses.replace(
                self._tx.under_way, state=OperationState.RUNNING, cause=cause
            )

    def _settle(self, state: StepState, cause: Cause | None = None) -> None:
        """Write the result of calling the driver."""
        result = {_COMPLETE: True} if self._complete else {}
        self._tx.journal(call_step(self._tx.under_way, state, self._tx.now, result, cause))


def _unknown(cluster: Cluster, because: Cause) -> Cause:
    return Cause(
        code='engine_unknown',
        message=f'The state of cluster {cluster.name} is unknown to its driver, '
        f'{cluster.pin.name}.',
        hint='Check that the engine of the driver can be reached.',
        because=because,
    )
