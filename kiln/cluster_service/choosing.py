"""The nodes that a driver's scale manager lets go before a change is submitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kiln.clusters.models import Node
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Place, Shape
from kiln.engine.nodes.scale_choice import ScaleChoice
from kiln.engine.plan.changes import going
from kiln.engine.plan.choice import Question
from kiln.engine.plan.diff import Resize


def chosen(
    scale: ScaleChoice,
    group: NodeGroupSpec,
    members: Iterable[Node],
    found: Resize,
    named: Mapping[str, str],
    *,
    forced: bool = False,
) -> Resize:
    """Return a resize with the nodes to remove chosen by the driver.

    The number of nodes removed from each flavor and zone stays as the group's rules have
    it. The driver is asked about named nodes too, unless the request is forced.

    :raises RemovalRefused: the driver lets too few nodes go.
    """
    there = [node for node in members if not going(node)]
    asked = [node for node in there if node.id in named]
    if asked and not forced:
        scale.victims(group, asked, len(asked))
    free = [node for node in there if node.id not in named]
    # In the order of the rules, so the nodes that the rules would remove are first.
    free.sort(key=lambda node: (node.id not in found.victims, -node.created_at))
    places: dict[Place, list[Node]] = {}
    for node in free:
        places.setdefault(node.place, []).append(node)
    victims = {one: why for one, why in found.victims.items() if one in named}
    for nodes in places.values():
        reasons = [found.victims[node.id] for node in nodes if node.id in found.victims]
        if not reasons:
            continue
        for node, why in zip(scale.victims(group, nodes, len(reasons)), reasons, strict=True):
            victims[node.id] = why
    return dataclasses.replace(found, victims=MappingProxyType(victims))


def removals(
    scale: ScaleChoice, spec: ClusterSpec, questions: Iterable[Question]
) -> tuple[str, ...]:
    """Return the ids of the nodes that go without a successor, as the driver chooses them.

    Nodes that are replaced are not chosen here: the engine asks about each in its turn.

    :raises RemovalRefused: the driver lets too few nodes go.
    """
    removed: list[str] = []
    for one in questions:
        if not one.replaced:
            # A group that is dropped is empty then.
            group = spec.group(one.group) or NodeGroupSpec(name=one.group, shape=Shape(count=0))
            removed += (node.id for node in scale.victims(group, one.nodes, one.number))
    return tuple(removed)
