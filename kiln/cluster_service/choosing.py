"""The nodes that a driver's scale manager chooses when a group shrinks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from kiln.cluster_drivers.scale import ScaleManager
from kiln.clusters.models import Node
from kiln.clusters.spec import NodeGroupSpec, Place
from kiln.engine.plan.changes import going
from kiln.engine.plan.diff import Resize


def chosen(
    scale: ScaleManager,
    group: NodeGroupSpec,
    members: Iterable[Node],
    found: Resize,
    named: Mapping[str, str],
) -> Resize:
    """Return a resize with the nodes to remove chosen by the driver.

    The number of nodes removed from each flavor and zone stays as the group's rules have
    it, and named nodes are removed in any case.

    :raises ClusterDriverError: the driver releases too few nodes.
    """
    free = [node for node in members if not going(node) and node.id not in named]
    # In the order of the rules, so the nodes that the rules would remove are first.
    free.sort(key=lambda node: (node.id not in found.victims, -node.created_at))
    places: dict[Place, list[Node]] = {}
    for node in free:
        places.setdefault(node.place, []).append(node)
    victims = {one: why for one, why in found.victims.items() if one in named}
    for nodes in places.values():
        reasons = [found.victims[node.id] for node in nodes if node.id in found.victims]
        for node, why in zip(scale.victims(group, nodes, len(reasons)), reasons, strict=True):
            victims[node.id] = why
    return dataclasses.replace(found, victims=victims)
