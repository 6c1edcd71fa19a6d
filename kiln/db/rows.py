"""Values as rows of their tables, and back; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kiln.cluster_exceptions import StoreError
from kiln.cluster_models import (
    Aim,
    Cause,
    Cluster,
    DriverPin,
    Event,
    Holding,
    Lease,
    Node,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
    Secret,
    Step,
    StepState,
)
from kiln.cluster_spec import ClusterSpec, ClusterTemplate, Place
from kiln.db.codec import dumps, loads

_T = TypeVar('_T')
Row = dict[str, Any]
_Facts = Mapping[str, Any]


def read(make: Callable[[Any], _T], rows: Iterable[Any]) -> tuple[_T, ...]:
    """Return the values of rows.

    :raises StoreError: one holds what this version of kiln does not know.
    """
    row = None
    try:
        return tuple([make(row) for row in rows])
    except ValueError as exc:
        raise StoreError(
            f'Cannot read {row[0] if row else "a row"} in the store: {exc}. Use the version of '
            f'kiln that wrote it.'
        ) from exc


def text(words: str) -> str:
    """Return words as every database takes them: a backend may send any bytes."""
    if words.isascii() and '\0' not in words:
        return words
    return words.replace('\0', '\ufffd').encode('utf-8', 'replace').decode('utf-8')


def _mapping(facts: _Facts) -> str | None:
    return dumps(facts, _Facts) if facts else None


def _facts(value: str | None) -> _Facts:
    facts: _Facts = loads(_Facts, value or '{}')
    return facts


def _cause(value: str | None) -> Cause | None:
    return loads(Cause, value) if value else None


def _dumped(value: Any) -> str | None:
    return None if value is None else dumps(value)


# ---- templates and clusters --------------------------------------------------


def template_row(template: ClusterTemplate, at: float) -> Row:
    """Return the row of a template."""
    return {'name': template.name, 'spec': dumps(template), 'updated_at': at}


def template_of(row: Any) -> ClusterTemplate:
    """Return the template of a row."""
    template: ClusterTemplate = loads(ClusterTemplate, row.spec)
    return template


def cluster_row(cluster: Cluster) -> Row:
    """Return the whole row of a cluster."""
    return {
        'id': cluster.id,
        'name': cluster.name,
        'paused': cluster.paused,
        'created_at': cluster.created_at,
        **wish_row(cluster.spec, cluster.generation),
        **pin_row(cluster.pin, cluster.decision),
        **progress_row(cluster),
    }


def wish_row(spec: ClusterSpec, generation: int) -> Row:
    """Return what changes where something else is wanted of a cluster."""
    return {'spec': dumps(spec), 'template': spec.template, 'generation': generation}


def pin_row(pin: DriverPin, decision: _Facts) -> Row:
    """Return what changes where a cluster moves to another driver."""
    return {
        'driver_name': pin.name,
        'driver_version': pin.version,
        'driver_origin': pin.origin,
        'driver_digest': pin.digest,
        'decision': _mapping(decision),
    }


def progress_row(cluster: Cluster) -> Row:
    """Return what an engine writes of a cluster."""
    return {
        'former': _dumped(cluster.former),
        'driver_handle': cluster.driver_handle,
        'driver_state': _mapping(cluster.driver_state),
        'trouble': _dumped(cluster.trouble),
        'updated_at': cluster.updated_at,
    }


def cluster_of(row: Any) -> Cluster:
    """Return the cluster of a row."""
    return Cluster(
        id=row.id,
        name=row.name,
        spec=loads(ClusterSpec, row.spec),
        generation=row.generation,
        pin=DriverPin(
            name=row.driver_name,
            version=row.driver_version,
            origin=row.driver_origin,
            digest=row.driver_digest,
        ),
        decision=_facts(row.decision),
        former=loads(Aim, row.former) if row.former else None,
        driver_handle=row.driver_handle,
        driver_state=_facts(row.driver_state),
        trouble=_cause(row.trouble),
        paused=row.paused,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


# ---- nodes, operations, steps ------------------------------------------------


def node_row(node: Node) -> Row:
    """Return the row of a node."""
    return {
        'id': node.id,
        'cluster_id': node.cluster_id,
        'node_group': node.group,
        'name': node.name,
        'flavor': node.place.flavor,
        'zone': node.place.zone,
        'backend': node.backend,
        'state': node.state.value,
        'made_with': node.made_with,
        'attempt': node.attempt,
        'compute_id': node.compute_id,
        'address': node.address,
        'doomed': text(node.doomed),
        'cause': _dumped(node.cause),
        'created_at': node.created_at,
        'since': node.since,
    }


def node_of(row: Any) -> Node:
    """Return the node of a row."""
    return Node(
        id=row.id,
        cluster_id=row.cluster_id,
        group=row.node_group,
        name=row.name,
        place=Place(row.flavor, row.zone),
        backend=row.backend,
        state=NodeState(row.state),
        made_with=row.made_with,
        attempt=row.attempt,
        compute_id=row.compute_id,
        address=row.address,
        doomed=row.doomed,
        cause=_cause(row.cause),
        created_at=row.created_at,
        since=row.since,
    )


def operation_row(operation: Operation) -> Row:
    """Return the whole row of an operation."""
    return {
        'id': operation.id,
        'cluster_id': operation.cluster_id,
        'kind': operation.kind.value,
        'args': _mapping(operation.args),
        'generation': operation.generation,
        'created_at': operation.created_at,
        'cancelled': operation.cancelled,
        'deadline_at': operation.deadline_at,
        **headway_row(operation),
    }


def headway_row(operation: Operation) -> Row:
    """Return what an engine writes of an operation."""
    return {
        'state': operation.state.value,
        'started_at': operation.started_at,
        'ended_at': operation.ended_at,
        'cause': _dumped(operation.cause),
    }


def operation_of(row: Any) -> Operation:
    """Return the operation of a row."""
    return Operation(
        id=row.id,
        cluster_id=row.cluster_id,
        kind=OperationKind(row.kind),
        state=OperationState(row.state),
        args=_facts(row.args),
        generation=row.generation,
        deadline_at=row.deadline_at,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        cause=_cause(row.cause),
        cancelled=row.cancelled,
    )


def step_row(step: Step) -> Row:
    """Return the row of a step."""
    return {
        'id': step.id,
        'operation_id': step.operation_id,
        'cluster_id': step.cluster_id,
        'kind': step.kind,
        'state': step.state.value,
        'node_id': step.node_id,
        'attempt': step.attempt,
        'token': step.token,
        'started_at': step.started_at,
        'deadline_at': step.deadline_at,
        'ended_at': step.ended_at,
        'result': _mapping(step.result),
        'cause': _dumped(step.cause),
    }


def step_of(row: Any) -> Step:
    """Return the step of a row."""
    return Step(
        id=row.id,
        operation_id=row.operation_id,
        cluster_id=row.cluster_id,
        kind=row.kind,
        state=StepState(row.state),
        node_id=row.node_id,
        attempt=row.attempt,
        token=row.token,
        started_at=row.started_at,
        deadline_at=row.deadline_at,
        ended_at=row.ended_at,
        result=_facts(row.result),
        cause=_cause(row.cause),
    )


# ---- leases, events, holdings, secrets ---------------------------------------


def lease_of(row: Any) -> Lease:
    """Return the lease of a row."""
    return Lease(scope=row.scope, owner=row.owner, epoch=row.epoch, expires_at=row.expires)


def event_row(event: Event, at: float) -> Row:
    """Return the row of an event, but for its number; ``at`` is for one that has no time."""
    return {
        'cluster_id': event.cluster_id,
        'kind': event.kind,
        'message': text(event.message),
        'at': event.at or at,
        'operation_id': event.operation_id,
        'node_id': event.node_id,
        'facts': _mapping(event.facts),
    }


def event_of(row: Any) -> Event:
    """Return the event of a row."""
    return Event(
        cluster_id=row.cluster_id,
        kind=row.kind,
        message=row.message,
        seq=row.seq,
        at=row.at,
        operation_id=row.operation_id,
        node_id=row.node_id,
        facts=_facts(row.facts),
    )


def holding_row(holding: Holding) -> Row:
    """Return the row of a holding."""
    return {
        'cluster_id': holding.cluster_id,
        'backend': holding.backend,
        'kind': holding.kind,
        'id': holding.id,
        'node_id': holding.node_id,
        'seen_at': holding.seen_at,
        'gone_at': holding.gone_at,
    }


def holding_of(row: Any) -> Holding:
    """Return the holding of a row."""
    return Holding(
        cluster_id=row.cluster_id,
        backend=row.backend,
        kind=row.kind,
        id=row.id,
        node_id=row.node_id,
        seen_at=row.seen_at,
        gone_at=row.gone_at,
    )


def secret_row(secret: Secret, token: str) -> Row:
    """Return the row of a secret; the token is its value, encrypted."""
    return {'cluster_id': secret.cluster_id, 'name': secret.name, 'value': token}
