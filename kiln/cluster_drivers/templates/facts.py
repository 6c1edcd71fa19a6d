"""Facts for templates: values of the site, the cluster and the node; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.templates.language import UrlHost
from kiln.cluster_drivers.values import Context, join_token
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.clusters.spec import MachineSpec

#: The one fact that is a secret.
JOIN_TOKEN = 'node.join_token'  # noqa: S105  # the name of one

_NODE_FACTS = ('node.id', 'node.name', 'node.flavor', 'node.zone', 'node.image', JOIN_TOKEN)
_CLUSTER_FACTS = ('site', 'cluster.id', 'cluster.name', 'cluster.coe', 'group.name', 'group.role')
#: The facts that every template can use.
FACTS = frozenset((*_NODE_FACTS, *_CLUSTER_FACTS))
#: The facts about a ready node that the text of an output can use, beside the
#: parameters that are not secret.
OUTPUT_FACTS = FACTS - {JOIN_TOKEN} | {'node.address', 'node.host'}


def facts(
    context: Context, cluster: Cluster, node: Node, machine: MachineSpec, *, joins: bool
) -> Mapping[str, Any]:
    """Return the facts for the templates of one node, with a join token if ``joins``.

    :raises ClusterDriverError: the site has no key for tokens.
    """
    group = context.group(cluster, node.group)
    found = {
        'site': context.site,
        'cluster.id': cluster.id,
        'cluster.name': cluster.name,
        'cluster.coe': cluster.spec.coe,
        'group.name': group.name,
        'group.role': group.role,
        'node.id': node.id,
        'node.name': node.name,
        'node.flavor': node.place.flavor or machine.flavor,
        'node.zone': node.place.zone,
        'node.image': machine.image,
        'node.address': node.address,
        'node.host': UrlHost(node.host) if node.host else None,
    }
    if joins:
        found[JOIN_TOKEN] = join_token(context, node)
    return found


def ready_nodes(context: Context, cluster: Cluster, role: str | None) -> list[Node]:
    """Return the ready nodes of a role that have an address, the oldest first."""
    return sorted(
        (
            node
            for node in context.nodes
            if node.state is NodeState.READY
            and node.address
            and role in (None, context.group(cluster, node.group).role)
        ),
        key=lambda node: (node.created_at, node.id),
    )
