"""Sample payload for 'kiln hook test'; no I/O."""

from __future__ import annotations

import uuid

from kiln.clusters.models import Cluster, DriverPin, Node, Operation, OperationKind
from kiln.clusters.spec import ClusterSpec, Place
from kiln.hooks.hook import Hook
from kiln.hooks.invocation import Call
from kiln.hooks.payload import Occasion, Outcome
from kiln.hooks.points import after, before


def sample_cluster(spec: ClusterSpec) -> Cluster:
    """Return a cluster that exists only as a declaration."""
    pin = DriverPin(name=spec.driver or '', version='', origin='', digest='')
    return Cluster(id=str(uuid.uuid4()), name=spec.name, spec=spec, generation=1, pin=pin)


def sample(hook: Hook, cluster: Cluster, *, site: str, now: float) -> tuple[Call, Occasion]:
    """Return a realistic call of a hook, with a key that no real call has."""
    operation = Operation(
        id=str(uuid.uuid4()),
        cluster_id=cluster.id,
        kind=_kind(hook),
        generation=cluster.generation,
        created_at=now,
        deadline_at=now + hook.deadline_s,
    )
    outcome = None if hook.point.before else Outcome.SUCCEEDED
    node = _node(cluster) if hook.point.per_node else None
    occasion = Occasion(site=site, cluster=cluster, operation=operation, node=node)
    return Call(hook, str(uuid.uuid4()), 1, outcome), occasion


def _kind(hook: Hook) -> OperationKind:
    """Return a kind of operation that calls the hook."""
    kinds = hook.kinds or tuple(OperationKind)
    fitting = (kind for kind in kinds if hook.point in (before(kind), after(kind)))
    return next(fitting, kinds[0])


def _node(cluster: Cluster) -> Node:
    group = cluster.spec.groups[0].name if cluster.spec.groups else 'sample'
    return Node(
        id=str(uuid.uuid4()),
        cluster_id=cluster.id,
        group=group,
        name=f'{cluster.name}-{group}-sample',
        place=Place(),
        backend='sample',
        compute_id=str(uuid.uuid4()),
        address='192.0.2.1',
    )
