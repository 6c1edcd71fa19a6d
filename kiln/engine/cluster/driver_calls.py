"""The calls with which an operation starts in a driver, and the step that records them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.contract import driver_errors
from kiln.cluster_drivers.values import Cap, Context, StatusReport
from kiln.clusters.models import Cause, Cluster, Operation, OperationKind, Step, StepState
from kiln.clusters.spec import ClusterTemplate, Strategy
from kiln.engine.plan.reset_rounds import rotated

#: The kind of the step that records the call of the driver.
CALL = 'ask'

#: Takes ``context`` and ``cluster``; drivers are called by keyword.
DriverCall = Callable[..., StatusReport | None]


def run_call(
    driver: ClusterDriver, operation: Operation, method: DriverCall, **arguments: Any
) -> StatusReport | None:
    """Call a method of a driver, and return its report; any defect is an error of the driver."""
    with driver_errors(driver.name, operation.kind.value):
        report = method(**arguments)
        if report is not None and not isinstance(report, StatusReport):
            raise TypeError(f'a StatusReport or None is required, not {report!r}')
    return report


def was_called(operation: Operation, steps: Iterable[Step], since: float = -math.inf) -> bool:
    """Return whether the driver has received an operation, after a time."""
    # A call that failed is repeated if the operation is retried.
    return any(
        step.kind == CALL
        and step.state is StepState.DONE
        and step.started_at > max(since, operation.retried_at)
        for step in steps
    )


def call_step(
    operation: Operation,
    state: StepState,
    now: float,
    result: Mapping[str, Any],
    cause: Cause | None = None,
) -> Step:
    """Return the step that records the call, before it or with its result."""
    return Step(
        id=f'{operation.id}.{CALL}',
        operation_id=operation.id,
        cluster_id=operation.cluster_id,
        kind=CALL,
        state=state,
        started_at=now,
        ended_at=None if state is StepState.INTENT else now,
        result=result,
        cause=cause,
    )


def first_call(
    driver: ClusterDriver, operation: Operation, now: float, *, back: bool = False
) -> DriverCall:
    """Return the driver call that starts an operation, or its way back."""
    kind, args = operation.kind, operation.args
    if back:
        return functools.partial(_update, driver, True)
    if kind is OperationKind.CREATE:
        timeout_s = max(0.0, operation.deadline_at - now)
        return functools.partial(driver.create_cluster, cluster_create_timeout=timeout_s)
    if kind is OperationKind.UPDATE:
        return functools.partial(_update, driver, bool(args.get('back')))
    if kind is OperationKind.DELETE:
        return driver.delete_cluster
    if kind is OperationKind.RESIZE:
        return functools.partial(_resize, driver, args['group'], _named(args, 'remove') or ())
    if kind is OperationKind.UPGRADE:
        return functools.partial(_upgrade, driver, args.get('groups', ()))
    if kind is OperationKind.REBUILD:
        return functools.partial(driver.rebuild_cluster, nodes=_named(args, 'nodes'))
    if kind is OperationKind.REBOOT:
        return functools.partial(
            driver.reboot_cluster, hard=bool(args.get('hard')), nodes=_named(args, 'nodes')
        )
    assert kind is OperationKind.ROTATE
    return rotation(driver, operation)


def rotation(driver: ClusterDriver, operation: Operation) -> DriverCall:
    """Return the driver call that starts a rotation."""
    if rotated(operation.args) is Cap.ROTATE_CA_CERTIFICATE:
        return driver.rotate_ca_certificate
    return driver.rotate_credential


def _named(args: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return the nodes that a user named; only the driver's own engine knows them."""
    words = args.get(name)
    return None if words is None else tuple(words)


def _update(
    driver: ClusterDriver, back: bool, context: Context, cluster: Cluster
) -> StatusReport | None:
    scale_manager = driver.get_scale_manager(context=context, cluster=cluster)
    return driver.update_cluster(
        context=context, cluster=cluster, scale_manager=scale_manager, rollback=back
    )


def _resize(
    driver: ClusterDriver,
    name: str,
    removed: tuple[str, ...],
    context: Context,
    cluster: Cluster,
) -> StatusReport | None:
    group = context.group(cluster, name)
    return driver.resize_cluster(
        context=context,
        cluster=cluster,
        nodegroup=group,
        node_count=group.shape.count,
        nodes_to_remove=removed,
    )


def _upgrade(
    driver: ClusterDriver, names: Sequence[str], context: Context, cluster: Cluster
) -> StatusReport | None:
    spec = cluster.spec
    groups = tuple(one for one in spec.groups if not names or one.name in names)
    template = ClusterTemplate(
        name=spec.template or spec.name, coe=spec.coe, machine=spec.machine, groups=spec.groups
    )
    strategy = groups[0].strategy if groups else Strategy()
    return driver.upgrade_cluster(
        context=context,
        cluster=cluster,
        cluster_template=template,
        nodegroups=groups,
        strategy=strategy,
    )
