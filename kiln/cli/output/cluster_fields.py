"""Output fields of clusters, nodes, operations, events and receipts; pure functions."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kiln.cli.output.views import moment
from kiln.cluster_service.views import ClusterView
from kiln.clusters.models import (
    Cause,
    Condition,
    Event,
    Holding,
    Node,
    NodeState,
    Operation,
    Tombstone,
)
from kiln.exceptions import redact


def cluster_fields(view: ClusterView) -> dict[str, Any]:
    """Return the fields of a cluster in a list."""
    cluster, operation = view.cluster, view.operation
    return {
        'name': cluster.name,
        'state': view.state,
        # Only its driver knows the nodes that an engine of the driver's own builds.
        'ready': None if cluster.built_elsewhere else f'{view.ready}/{view.wanted}',
        'driver': f'{cluster.pin.name} {cluster.pin.version}',
        'operation': operation.kind.value if operation else None,
        'created_at': moment(cluster.created_at),
        'id': cluster.id,
        'generation': cluster.generation,
        'paused': cluster.paused,
    }


#: The columns that fit on a narrow terminal.
BRIEF = ('name', 'state', 'ready', 'driver', 'operation', 'created_at')


def cluster_details(view: ClusterView, conditions: Iterable[Condition]) -> dict[str, Any]:
    """Return all fields of a cluster that can be shown."""
    cluster = view.cluster
    return {
        **cluster_fields(view),
        'conditions': [
            {'kind': one.kind.value, 'cause': chain_fields(one.cause)} for one in conditions
        ],
        'operation': operation_fields(view.operation, cluster.name) if view.operation else None,
        'driver': dataclasses.asdict(cluster.pin),
        'groups': [
            {
                'name': group.name,
                'role': group.role,
                'count': group.shape.count,
                'nodes': {
                    state.value: count
                    for state in NodeState
                    if (count := _count(view, group.name, state))
                },
            }
            for group in cluster.spec.groups
        ],
        'outputs': dict(cluster.outputs),
        'updated_at': moment(cluster.updated_at or cluster.created_at),
    }


def output_lines(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outputs of a cluster for people, one on each line."""
    for name, value in outputs.items():
        values = value if isinstance(value, list) else [value]
        yield f'{name}: {", ".join(map(_output, values)) or "-"}'


def _output(value: Any) -> str:
    if value is None:
        return '-'
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # A node or an engine can send characters that a terminal obeys.
    return ' '.join(''.join(one if one.isprintable() else ' ' for one in text).split())


def _count(view: ClusterView, group: str, state: NodeState) -> int:
    return sum(node.group == group and node.state is state for node in view.nodes or ())


def node_fields(node: Node) -> dict[str, Any]:
    """Return all fields of a node that can be shown, brief columns first."""
    return {
        'name': node.name,
        'group': node.group,
        'state': node.state.value,
        'address': node.address,
        'flavor': node.place.flavor,
        # Where the cluster names none, the backend chose one.
        'zone': node.place.zone or node.found_zone,
        'since': moment(node.since or None),
        'id': node.id,
        'addresses': list(node.addresses),
        'backend': node.backend,
        'compute_id': node.compute_id,
        'attempt': node.attempt,
        'doomed': node.doomed or None,
        'cause': chain_fields(node.cause),
        'created_at': moment(node.created_at or None),
    }


NODE_BRIEF = ('name', 'group', 'state', 'address', 'flavor', 'zone', 'since')


def operation_fields(operation: Operation, cluster: str) -> dict[str, Any]:
    """Return the fields of an operation."""
    return {
        'id': operation.id,
        'cluster': cluster,
        'kind': operation.kind.value,
        'state': operation.state.value,
        'generation': operation.generation,
        'created_at': moment(operation.created_at),
        'started_at': moment(operation.started_at),
        'ended_at': moment(operation.ended_at),
        'deadline_at': moment(operation.deadline_at or None),
        'cancelled': operation.cancelled,
        'cause': chain_fields(operation.cause),
    }


def chain_fields(cause: Cause | None) -> list[dict[str, str]]:
    """Return a chain of causes, with the message of the provider last."""
    found = []
    while cause is not None:
        found.append(
            {'code': cause.code, 'message': redact(cause.message), 'hint': redact(cause.hint)}
        )
        cause = cause.because
    return found


def event_fields(event: Event, cluster: str) -> dict[str, Any]:
    """Return an event in version 1 of the stream format.

    Keys can be added to a version; they are never removed or redefined.
    """
    return {
        'v': 1,
        'seq': event.seq,
        'at': moment(event.at),
        'kind': event.kind,
        'cluster': cluster,
        'cluster_id': event.cluster_id,
        'operation_id': event.operation_id,
        'node_id': event.node_id,
        'message': redact(event.message),
        'facts': dict(event.facts),
    }


def receipt_fields(receipt: Tombstone) -> dict[str, Any]:
    """Return the fields of the receipt of a deleted cluster."""
    return {
        'cluster': receipt.name,
        'cluster_id': receipt.cluster_id,
        'deleted_at': moment(receipt.deleted_at),
        'gone': [
            {**_held(one), 'gone_at': moment(one.gone_at), 'confirmed_by': confirmed_by(one)}
            for one in receipt.holdings
        ],
        'abandoned': [_held(one) for one in receipt.abandoned],
    }


def confirmed_by(one: Holding) -> str:
    """Return the source of the proof that a resource does not exist."""
    return 'driver' if one.of_engine else 'backend'


def _held(one: Holding) -> dict[str, Any]:
    return {
        'kind': one.kind,
        'id': one.id,
        'backend': one.backend,
        'node': one.node_name,
        'node_id': one.node_id,
    }
