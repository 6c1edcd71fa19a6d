"""One cluster that an engine of its driver's own builds, while this process holds its lease.

The driver is asked once for each operation, and then how far it has come, until it is
done. That it will be asked is written first, so that after a crash it is asked again:
what was started already, its contract says, is not started a second time.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.contract import driver_errors
from kiln.cluster_drivers.values import Context, Progress, StatusReport
from kiln.cluster_exceptions import MissingCapability
from kiln.cluster_models import (
    Cause,
    Cluster,
    Event,
    Lease,
    Operation,
    OperationKind,
    OperationState,
    Step,
    StepState,
)
from kiln.cluster_spec import ClusterTemplate, Strategy
from kiln.engine.lifecycle import cause_of, pause_s
from kiln.engine.news import News
from kiln.engine.parts import Parts
from kiln.exceptions import KilnError

#: Seconds between two questions how far an engine has come.
ASK_S = 5.0
_ASK = 'ask'

Ask = Callable[[Context, Cluster], StatusReport | None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    """What a driver said, and to which operation."""

    operation_id: str
    report: StatusReport | None


class ForeignWork:
    """Has a driver bring its cluster to what is wanted. All calls come from one thread.

    :raises ClusterNotFound: it was deleted meanwhile.
    """

    def __init__(
        self, parts: Parts, lease: Lease, driver: ClusterDriver, tell: Callable[[News], None]
    ) -> None:
        self.lease = lease
        #: Until when the lease is surely ours, by the monotonic clock.
        self.sure_until = math.inf
        self._parts = parts
        self._driver = driver
        self._tell = tell
        self._busy = False
        self._asked: str | None = None
        self._tries = 0
        self._not_before = 0.0
        self._cluster = parts.store.clusters.get(lease.scope)
        self._operation: Operation | None = None
        self.reload()

    # ---- what the conductor asks -------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done, and nothing is under way."""
        return (self._operation is None or self._cluster.paused) and not self._busy

    @property
    def due(self) -> float:
        """The moment, by the monotonic clock, at which there is something to do again."""
        return math.inf if self._busy or self._operation is None else self._not_before

    def reload(self) -> None:
        """See what others have written.

        :raises ClusterNotFound: it was deleted meanwhile.
        """
        store, scope = self._parts.store, self.lease.scope
        self._cluster = store.clusters.get(scope)
        found = store.operations.open(scope)
        fresh = found[0] if found else None
        if fresh is not None and (self._operation is None or fresh.id != self._operation.id):
            steps = store.journal.of(fresh.id)
            asked = any(one.kind == _ASK and one.state is StepState.DONE for one in steps)
            self._asked = fresh.id if asked else None
            self._tries, self._not_before = 0, 0.0
        self._operation = fresh

    def turn(self, news: Iterable[News]) -> None:
        """Take in what happened, and go on.

        :raises LeaseLost: somebody else has the cluster now; nothing was begun.
        """
        clock = self._parts.clock
        turn = _Turn(self._cluster, self._operation, now=clock.time())
        for one in news:
            self._busy = False
            self._learn(one, turn)
        launch = self._go_on(turn)
        turn.write(self._parts, self.lease)
        self._cluster, self._operation = turn.cluster, turn.operation
        if launch is not None:
            self._busy = True
            self._parts.run(launch)
        if self._operation is not None and self._operation.state.ended:
            self._operation = None
            if not turn.buried:
                self.reload()

    # ---- going on ------------------------------------------------------------------

    def _go_on(self, turn: _Turn) -> Callable[[], None] | None:
        """Return what to ask the driver now, if anything."""
        operation = turn.operation
        if operation is None or operation.state.ended or turn.cluster.paused:
            return None
        if operation.cancelled:
            turn.end(OperationState.CANCELLED)
            return None
        if operation.deadline_at and turn.now >= operation.deadline_at:
            turn.end(OperationState.FAILED, _too_late(turn.cluster, operation))
            return None
        if self._busy or self._parts.clock.monotonic() < self._not_before:
            return None
        if operation.id == self._asked or operation.kind is OperationKind.CHECK:
            ask: Ask = self._driver.update_cluster_status
        else:
            try:
                ask = _asking(self._driver, operation, turn.now)
            except MissingCapability as exc:
                turn.end(OperationState.FAILED, cause_of(exc))
                return None
            turn.begin()
        return functools.partial(self._ask, operation, turn.cluster, ask)

    def _ask(self, operation: Operation, cluster: Cluster, ask: Ask) -> None:
        context = Context(site=self._parts.site, defaults=self._parts.defaults)
        try:
            with driver_errors(self._driver.name, operation.kind.value):
                value = _Answer(operation.id, ask(context, cluster))
        except KilnError as exc:
            self._tell(News(cluster.id, error=exc))
        else:
            self._tell(News(cluster.id, value=value))

    # ---- what was said ---------------------------------------------------------------

    def _learn(self, news: News, turn: _Turn) -> None:
        operation, moment = turn.operation, self._parts.clock.monotonic()
        if operation is None:
            return
        if news.error is not None:
            self._tries += 1
            self._not_before = moment + pause_s(self._tries)
            cause = cause_of(news.error)
            asked = operation.id == self._asked
            if asked or getattr(news.error, 'retryable', False):
                # Who cannot say how far he is may be at work all the same.
                turn.wait(cause)
            else:
                turn.settle(StepState.FAILED, cause)
                turn.end(OperationState.FAILED, cause)
            return
        answer: _Answer = news.value
        if answer.operation_id != operation.id:
            return
        self._tries = 0
        self._not_before = moment + ASK_S
        if operation.id != self._asked:
            self._asked = operation.id
            turn.settle(StepState.DONE)
            if answer.report is None:
                # One who was only just asked may be done already.
                self._not_before = moment
        if answer.report is not None:
            turn.take(answer.report)
        if operation.kind is OperationKind.CHECK:
            turn.end(OperationState.SUCCEEDED)


class _Turn:
    """What one turn writes."""

    def __init__(self, cluster: Cluster, operation: Operation | None, *, now: float) -> None:
        self.now = now
        self.cluster, self._cluster_before = cluster, cluster
        self.operation, self._operation_before = operation, operation
        self.buried = False
        self._step: Step | None = None
        self._events: list[Event] = []

    def begin(self) -> None:
        """Say that the driver is about to be asked."""
        operation = self._now()
        if operation.state is OperationState.QUEUED:
            self._change(state=OperationState.RUNNING, started_at=self.now)
            self._say('operation-started', f'{operation.kind.value} has begun')
        self.settle(StepState.INTENT)

    def settle(self, state: StepState, cause: Cause | None = None) -> None:
        """Say what became of asking."""
        operation = self._now()
        self._step = Step(
            id=f'{operation.id}.{_ASK}',
            operation_id=operation.id,
            cluster_id=self.cluster.id,
            kind=_ASK,
            state=state,
            started_at=self.now,
            ended_at=None if state is StepState.INTENT else self.now,
            cause=cause,
        )

    def wait(self, cause: Cause) -> None:
        """Say why it waits."""
        self._change(state=OperationState.WAITING, cause=cause)

    def take(self, report: StatusReport) -> None:
        """Take in what the driver says of the cluster."""
        changes: dict[str, Any] = {}
        if report.driver_handle is not None:
            changes['driver_handle'] = report.driver_handle
        if report.driver_state is not None:
            changes['driver_state'] = report.driver_state
        if changes:
            self.cluster = dataclasses.replace(self.cluster, **changes)
        cause = Cause(code='engine', message=report.reason) if report.reason else None
        if report.progress is Progress.COMPLETE:
            self.end(OperationState.SUCCEEDED)
        elif report.progress is Progress.FAILED:
            failed = Cause(code='engine_failed', message=report.reason or 'It does not say why.')
            self.end(OperationState.FAILED, failed)
        elif report.progress is Progress.UNKNOWN:
            self.wait(cause or Cause(code='engine', message='Its engine cannot be asked now.'))
        else:
            self._change(state=OperationState.RUNNING, cause=cause)

    def end(self, state: OperationState, cause: Cause | None = None) -> None:
        """End the operation."""
        operation = self._now()
        self._change(state=state, ended_at=self.now, cause=cause)
        self._say('operation-ended', f'{operation.kind.value} {state.value}')
        if state is not OperationState.SUCCEEDED:
            return
        if operation.kind is OperationKind.DELETE:
            self.buried = True
        else:
            self.cluster = dataclasses.replace(self.cluster, former=self.cluster.spec)

    def write(self, parts: Parts, lease: Lease) -> None:
        """Write all of it in one commit, if there is anything."""
        moved = self.cluster != self._cluster_before
        changed = self.operation != self._operation_before
        if not (moved or changed or self._step or self._events):
            return
        with parts.store.writing(lease) as batch:
            if moved:
                batch.cluster(self.cluster)
            if self._step is not None:
                batch.step(self._step)
            for event in self._events:
                batch.event(event)
            if changed and self.operation is not None:
                batch.operation(self.operation)
            if self.buried:
                batch.bury()

    def _now(self) -> Operation:
        assert self.operation is not None
        return self.operation

    def _change(self, **changes: Any) -> None:
        self.operation = dataclasses.replace(self._now(), **changes)

    def _say(self, kind: str, message: str) -> None:
        self._events.append(
            Event(
                cluster_id=self.cluster.id, kind=kind, message=message, at=self.now,
                operation_id=self._now().id,
            )
        )  # fmt: skip


def _too_late(cluster: Cluster, operation: Operation) -> Cause:
    return Cause(
        code='deadline',
        message=f'Cannot {operation.kind.value} cluster {cluster.name} by its deadline: its '
        f'engine has not said that it is done.',
        hint='See the cause, then repeat it: it goes on from what there is.',
        because=operation.cause,
    )


def _asking(driver: ClusterDriver, operation: Operation, now: float) -> Ask:
    """Return what has the driver start an operation.

    :raises MissingCapability: it cannot do such a thing.
    """
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
    if kind is OperationKind.ROTATE:
        return driver.rotate_credential
    raise MissingCapability(
        f'Cluster driver {driver.name} has an engine of its own, which knows no {kind.value}.'
    )


def _upgrade(driver: ClusterDriver, context: Context, cluster: Cluster) -> StatusReport | None:
    spec = cluster.spec
    template = ClusterTemplate(
        name=spec.template or spec.name, coe=spec.coe, machine=spec.machine, groups=spec.groups
    )
    strategy = spec.groups[0].strategy if spec.groups else Strategy()
    return driver.upgrade_cluster(
        context, cluster, cluster_template=template, nodegroups=spec.groups, strategy=strategy
    )
