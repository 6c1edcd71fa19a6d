"""What a hook is told: one JSON document, with nothing secret in it; pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.cluster_models import Cluster, Node, Operation
from kiln.cluster_spec import NodeGroupSpec

#: Raised when what is there gets another meaning; more may be added any time.
VERSION = 1


class Outcome(enum.StrEnum):
    """What became of what the point is after."""

    SUCCEEDED = 'succeeded'
    #: A hook before it failed, so it was not done.
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """What is happening while hooks are called."""

    site: str
    cluster: Cluster
    operation: Operation
    node: Node | None = None

    def document(self) -> Mapping[str, Any]:
        """Return what every hook is told of it."""
        operation = self.operation
        return {
            'version': VERSION,
            'site': self.site,
            'operation': {
                'id': operation.id,
                'kind': operation.kind.value,
                'generation': operation.generation,
                'created_at': operation.created_at,
                'deadline_at': operation.deadline_at,
            },
            'cluster': _of_cluster(self.cluster),
            'node': _of_node(self.node, self.cluster) if self.node else None,
        }


def _of_cluster(cluster: Cluster) -> Mapping[str, Any]:
    # What owners write for templates stays out: it may name secrets, or be one.
    return {
        'id': cluster.id,
        'name': cluster.name,
        'generation': cluster.generation,
        'template': cluster.spec.template,
        'coe': cluster.spec.coe,
        'driver': {'name': cluster.pin.name, 'version': cluster.pin.version},
        'groups': [_of_group(group) for group in cluster.spec.groups],
    }


def _of_group(group: NodeGroupSpec) -> Mapping[str, Any]:
    return {'name': group.name, 'role': group.role, 'count': group.shape.count}


def _of_node(node: Node, cluster: Cluster) -> Mapping[str, Any]:
    group = cluster.spec.group(node.group)
    return {
        'id': node.id,
        'name': node.name,
        'group': node.group,
        'role': group.role if group else None,
        'backend': node.backend,
        'flavor': node.place.flavor,
        'zone': node.place.zone,
        'attempt': node.attempt,
        'compute_id': node.compute_id,
        'address': node.address,
        'reason': node.doomed,
    }
