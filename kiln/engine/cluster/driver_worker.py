"""The rounds of a cluster that its driver builds with an engine of its own.

The driver is called once for each operation, then polled for progress until the
operation is done. The intent to call it is written first, so that the call is repeated
after a crash: the driver contract requires that nothing is started twice.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.contract import driver_errors
from kiln.cluster_drivers.values import Context, Progress, StatusReport
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from kiln.clusters.models import (
    Cause,
    Cluster,
    Lease,
    Node,
    Operation,
    OperationKind,
    OperationState,
    Step,
    StepState,
)
from kiln.clusters.spec import ClusterTemplate, Strategy
from kiln.engine.cluster.delete import TRIES
from kiln.engine.cluster.hook_gate import HookGate
from kiln.engine.cluster.reasons import why_late
from kiln.engine.cluster.worker import Worker
from kiln.engine.context import Parts
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.lifecycle import cause_of, pause_s
from kiln.engine.plan.reset_rounds import refusal
from kiln.engine.results import ActionResult
from kiln.exceptions import KilnError

#: Seconds between two polls for progress.
ASK_S = 5.0
_ASK = 'ask'
#: In the result of that step: there is nothing left to poll for.
_COMPLETE = 'complete'

_SILENT = 'It gives no reason.'
#: Operations on single nodes, which a driver with its own engine does not report.
_UNKNOWN = frozenset({OperationKind.REPLACE, OperationKind.ADOPT})

Ask = Callable[[Context, Cluster], StatusReport | None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    """What a driver returned, and for which operation; no report if the call failed."""

    operation_id: str
    report: StatusReport | None = None


class DriverWorker(Worker):
    """Calls a driver to bring its cluster to the desired state."""

    def __init__(
        self,
        parts: Parts,
        lease: Lease,
        driver: ClusterDriver,
        tell: Callable[[ActionResult], None],
    ) -> None:
        # kiln has no records of its nodes, so the node table has timers and no members.
        super().__init__(parts, lease, NodeTable(()), tell)
        self._driver = driver
        self._hooking = HookGate(parts, driver, self._nodes, self._context, tell)
        #: True while a call of the driver is under way.
        self._busy = False
        #: True if the driver has received the operation, and if it has completed it.
        self._asked = self._complete = False
        self._tries = 0
        self._not_before = 0.0
        self.reload()

    @property
    def _under_way(self) -> bool:
        return self._busy

    def reload(self) -> None:
        """Read what others have written: the operation, and the desired state."""
        store, scope = self._parts.store, self.lease.scope
        self._cluster = store.clusters.get(scope)
        found = store.operations.open(scope)
        fresh = found[0] if found else None
        if fresh is not None and (self._operation is None or fresh.id != self._operation.id):
            asked = [
                step
                for step in store.journal.of(fresh.id)
                if step.kind == _ASK and step.state is StepState.DONE
            ]
            self._complete = any(step.result.get(_COMPLETE) for step in asked)
            # A call that failed is repeated if the operation is retried.
            self._asked = any(step.started_at > fresh.retried_at for step in asked)
            self._tries, self._not_before = 0, 0.0
        self._operation = fresh
        self._hooking.reload(fresh, self._cluster)

    # ---- going on ------------------------------------------------------------------

    def _go_on(self, tx: Transaction, due: list[Member]) -> None:
        operation = tx.operation
        assert operation is not None
        if not self._has_begun(tx, operation):
            return
        if self._complete:
            self._arrive(tx, operation)
        elif not self._busy and tx.moment >= self._not_before:
            self._busy = True
            ask = self._next_question(tx, operation)
            cluster = tx.cluster or self._cluster
            run = functools.partial(self._ask, operation, cluster, ask)
            tx.launches.append(functools.partial(self._parts.run, run))

    def _has_begun(self, tx: Transaction, operation: Operation) -> bool:
        """Begin the operation if it has not begun; return whether it can continue."""
        if operation.state is OperationState.QUEUED:
            tx.begin()
            refused = refusal(operation.kind, self._driver, ())
            if refused is None and operation.kind in _UNKNOWN:
                refused = MissingCapability(
                    f'Cluster driver {self._driver.name} has an engine of its own, which does '
                    f'not support {operation.kind.value}.'
                )
            if refused is not None:
                tx.end(OperationState.FAILED, cause_of(refused))
                return False
        return self._hooking.may_begin(tx)

    def _next_question(self, tx: Transaction, operation: Operation) -> Ask:
        if self._asked or operation.kind is OperationKind.CHECK:
            return self._driver.update_cluster_status
        self._settle(tx, operation, StepState.INTENT)
        return _asking(self._driver, operation, tx.now)

    def _arrive(self, tx: Transaction, operation: Operation) -> None:
        if not self._hooking.may_end(tx):
            return
        tx.end(OperationState.SUCCEEDED)
        if operation.kind is OperationKind.DELETE:
            tx.bury(forced=operation.forced)
        elif operation.kind is not OperationKind.CHECK:
            cluster = tx.cluster or self._cluster
            tx.cluster = dataclasses.replace(cluster, former=cluster.aim, updated_at=tx.now)

    def _miss(self, tx: Transaction, operation: Operation) -> None:
        if operation.forced and (self._busy or self._asked):
            self._abandon(tx)
            tx.end(OperationState.SUCCEEDED)
            tx.bury(forced=True)
            return
        left = 'its engine has not reported that it is done'
        if self._complete:
            left = 'its hooks are not done'
        tx.end(OperationState.FAILED, why_late(operation, self._cluster.name, left))

    def _ask(self, operation: Operation, cluster: Cluster, ask: Ask) -> None:
        try:
            with driver_errors(self._driver.name, operation.kind.value):
                answer = _Answer(operation.id, ask(self._context(), cluster))
        except KilnError as exc:
            self._tell(ActionResult(cluster.id, value=_Answer(operation.id), error=exc))
        else:
            self._tell(ActionResult(cluster.id, value=answer))

    def _context(self, _: tuple[Node, ...] = ()) -> Context:
        return Context(site=self._parts.site, defaults=self._parts.defaults)

    # ---- results ---------------------------------------------------------------------

    def _learn(self, news: Iterable[ActionResult], tx: Transaction) -> None:
        for one in news:
            if one.invocation:
                self._hooking.learn(one, tx)
                continue
            self._busy = False
            operation, answer = tx.operation, one.value
            if operation is None or operation.id != answer.operation_id:
                continue
            if one.error is not None:
                self._fail(tx, operation, one.error)
            else:
                self._hear(tx, operation, answer.report)

    def _fail(self, tx: Transaction, operation: Operation, error: BaseException) -> None:
        self._tries += 1
        self._rest(tx.moment + pause_s(self._tries))
        cause = cause_of(error)
        if operation.forced:
            self._give_up(tx, operation, cause)
            return
        # A driver that cannot report progress can still be at work.
        if self._asked or getattr(error, 'retryable', False):
            tx.say(cause)
        else:
            self._settle(tx, operation, StepState.FAILED, cause)
            tx.end(OperationState.FAILED, cause)

    def _give_up(self, tx: Transaction, operation: Operation, cause: Cause) -> None:
        """End a forced deletion without the resources that its engine does not delete."""
        tx.say(cause)
        if self._tries < TRIES:
            return
        self._complete = True
        self._settle(tx, operation, StepState.DONE, cause)
        self._abandon(tx)

    def _abandon(self, tx: Transaction) -> None:
        if (handle := self._cluster.driver_handle) is not None:
            tx.abandon(self._cluster.pin.name, 'handle', handle)

    def _hear(self, tx: Transaction, operation: Operation, report: StatusReport | None) -> None:
        if operation.forced and report is not None and report.progress is Progress.FAILED:
            # Polling for progress would return the same failure again.
            self._asked = False
            self._fail(tx, operation, ClusterDriverError(report.reason or _SILENT))
            return
        self._tries = 0
        just_asked, self._asked = not self._asked, True
        # A driver that was only just called can be done already.
        at_once = just_asked and report is None
        self._rest(tx.moment if at_once else tx.moment + ASK_S)
        checked = operation.kind is OperationKind.CHECK
        done = report is not None and report.progress is Progress.COMPLETE
        self._complete = checked or done
        if not checked and (just_asked or done):
            self._settle(tx, operation, StepState.DONE)
        if report is not None:
            self._keep(tx, report)
            if not self._complete:
                _say(tx, operation, report)

    def _rest(self, moment: float) -> None:
        self._not_before = moment
        self._nodes.wake_at(moment)

    def _keep(self, tx: Transaction, report: StatusReport) -> None:
        """Write the handle and state that the driver wants to be passed again."""
        changes: dict[str, Any] = {}
        if report.driver_handle is not None:
            changes['driver_handle'] = report.driver_handle
        if report.driver_state is not None:
            changes['driver_state'] = report.driver_state
        if changes:
            tx.cluster = dataclasses.replace(self._cluster, **changes)

    def _settle(
        self, tx: Transaction, operation: Operation, state: StepState, cause: Cause | None = None
    ) -> None:
        """Write the result of calling the driver."""
        tx.journal(
            Step(
                id=f'{operation.id}.{_ASK}',
                operation_id=operation.id,
                cluster_id=operation.cluster_id,
                kind=_ASK,
                state=state,
                started_at=tx.now,
                ended_at=None if state is StepState.INTENT else tx.now,
                result={_COMPLETE: True} if self._complete else {},
                cause=cause,
            )
        )


def _say(tx: Transaction, operation: Operation, report: StatusReport) -> None:
    """Record the progress of an engine that is not done."""
    cause = Cause(code='engine', message=report.reason) if report.reason else None
    if report.progress is Progress.FAILED:
        failed = Cause(code='engine_failed', message=report.reason or _SILENT)
        tx.end(OperationState.FAILED, failed)
    elif report.progress is Progress.UNKNOWN:
        tx.say(cause or Cause(code='engine', message='Its engine cannot be reached now.'))
    else:
        tx.operation = dataclasses.replace(operation, state=OperationState.RUNNING, cause=cause)


def _asking(driver: ClusterDriver, operation: Operation, now: float) -> Ask:
    """Return the driver call that starts an operation."""
    kind, args = operation.kind, operation.args
    if kind is OperationKind.CREATE:
        timeout_s = max(0.0, operation.deadline_at - now)
        return lambda context, cluster: driver.create_cluster(context, cluster, timeout_s)
    if kind is OperationKind.UPDATE:
        return lambda context, cluster: driver.update_cluster(
            context, cluster, scale_manager=driver.get_scale_manager(context, cluster)
        )
    if kind is OperationKind.DELETE:
        return driver.delete_cluster
    if kind is OperationKind.RESIZE:
        return lambda context, cluster: driver.resize_cluster(
            context,
            cluster,
            nodegroup=context.group(cluster, args['group']),
            node_count=context.group(cluster, args['group']).shape.count,
        )
    if kind is OperationKind.UPGRADE:
        return functools.partial(_upgrade, driver)
    if kind is OperationKind.REBUILD:
        return driver.rebuild_cluster
    if kind is OperationKind.REBOOT:
        return functools.partial(driver.reboot_cluster, hard=bool(args.get('hard')))
    assert kind is OperationKind.ROTATE
    return driver.rotate_credential


def _upgrade(driver: ClusterDriver, context: Context, cluster: Cluster) -> StatusReport | None:
    spec = cluster.spec
    template = ClusterTemplate(
        name=spec.template or spec.name, coe=spec.coe, machine=spec.machine, groups=spec.groups
    )
    strategy = spec.groups[0].strategy if spec.groups else Strategy()
    return driver.upgrade_cluster(
        context, cluster, cluster_template=template, nodegroups=spec.groups, strategy=strategy
    )
