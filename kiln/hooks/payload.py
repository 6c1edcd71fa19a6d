"""Hook payload: one JSON object without secrets; no I/O."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from kiln.clusters.models import Cluster, Node, Operation

#: Incremented when a field changes its meaning; new fields do not change it.
VERSION = 1


class Outcome(enum.StrEnum):
    """Result of the action that the point follows."""

    SUCCEEDED = 'succeeded'
    #: A hook before the action failed, so the action was not done.
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Occasion:
    """Operation, cluster and node for which hooks are called."""

    site: str
    cluster: Cluster
    operation: Operation
    node: Node | None = None

    def document(self) -> Mapping[str, Any]:
        """Return the part of the payload that is the same for every hook."""
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
    # Template parameters are left out: they can contain secrets.
    return {
        'id': cluster.id,
        'name': cluster.name,
        'generation': cluster.generation,
        'template': cluster.spec.template,
        'coe': cluster.spec.coe,
        'driver': {'name': cluster.pin.name, 'version': cluster.pin.version},
        'groups': [
            {'name': group.name, 'role': group.role, 'count': group.shape.count}
            for group in cluster.spec.groups
        ],
    }


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
        'addresses': list(node.addresses),
        'reason': node.doomed,
    }
