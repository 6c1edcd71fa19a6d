"""Behaviours of scale managers: the nodes that can go, and those that stay."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node, NodeState
from kiln.clusters.spec import NodeGroupSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.engine.nodes.scale_choice import has_scale_manager
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machines import REFUSING

#: What a node can be while others go.
_STATES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {'ready': {}, 'unhealthy': {'state': NodeState.UNHEALTHY}, 'leaving': {'doomed': 'asked for'}}
)


class Choice(ClusterFixture):
    """Choice of nodes."""

    def test_only_nodes_of_the_question_are_named(self) -> None:
        opened, cluster, nodes = self._all()
        for group, members in _by_group(cluster, nodes):
            for some in (members, members[1:], members[:1]):
                for method in ('order', 'replacement_order'):
                    order = self._answer(opened, cluster, nodes, method, group, some)
                    self.assertLessEqual(
                        {node.name for node in order}, {node.name for node in some},
                        f'{method} was asked about group {group.name}',
                    )  # fmt: skip

    def test_no_more_nodes_go_than_were_asked_for(self) -> None:
        opened, cluster, nodes = self._all()
        for group, members in _by_group(cluster, nodes):
            for number in range(1, len(members) + 1):
                scale = opened.get_scale_manager(**self.of_whole(cluster, *nodes))
                try:
                    with self.network.playing(REFUSING):
                        gone = scale.victims(group, members, number)
                except ClusterDriverError:
                    continue  # the driver lets fewer go
                ids = {node.id for node in gone}
                self.assertEqual((number, number), (len(gone), len(ids)), group.name)
                self.assertLessEqual(ids, {node.id for node in members})

    def test_nodes_that_go_already_count(self) -> None:
        opened, cluster, nodes = self._all()
        for group, members in _by_group(cluster, nodes):
            at_once = len(self._answer(opened, cluster, nodes, 'order', group, members))
            there, left, one_by_one = list(nodes), list(members), 0
            while order := self._answer(opened, cluster, there, 'order', group, left):
                first, one_by_one = order[0], one_by_one + 1
                if first not in left:
                    return  # another behaviour shows what is wrong with that
                left = [node for node in left if node.id != first.id]
                going = dataclasses.replace(first, doomed='chosen to go')
                there = [going if node.id == first.id else node for node in there]
            self.assertLessEqual(
                one_by_one, at_once,
                f'{at_once} nodes of group {group.name} can go at once, and {one_by_one} one '
                f'after the other: a node in context.nodes that goes already is doomed.',
            )  # fmt: skip

    def test_nodes_that_must_stay_are_kept(self) -> None:
        opened = self.nodes_driver()
        if not has_scale_manager(opened):
            return  # it lets every node go
        self._never_go()
        if not self.least and self.staying(()) is None:
            raise CannotBeShown('neither least nor staying() tells which nodes must stay')
        for role, least in self.least.items():
            for more in (0,) if isinstance(least, int) else (0, 1, 2):
                count = self.groups[role] + more
                cluster = samples.with_roles(self.a_cluster(opened), {**self.groups, role: count})
                most = least if isinstance(least, int) else least(count)
                self._kept(opened, cluster, role, most)

    def _never_go(self) -> None:
        """Fail if a node can go that has to stay, or if another one cannot."""
        opened, cluster, nodes = self._all()
        stay = self.staying(nodes)
        if stay is None:
            return
        kept = {node.id for node in stay}
        for group, members in _by_group(cluster, nodes):
            for some in (members, members[1:], members[:1]):
                order = self._answer(opened, cluster, nodes, 'order', group, some)
                self.assertEqual(
                    {node.name for node in some if node.id not in kept},
                    {node.name for node in order},
                    f'Nodes of group {group.name} that can go.',
                )

    def _kept(self, opened: NodeClusterDriver, cluster: Cluster, role: str, least: int) -> None:
        """Fail if too few ready nodes of a role would be left, whatever the others are."""
        nodes = samples.nodes_of(cluster)
        for group, members in _by_group(cluster, nodes):
            for states in itertools.product(_STATES, repeat=len(members)):
                if group.role != role:
                    break
                changed = [
                    dataclasses.replace(node, **_STATES[state])
                    for node, state in zip(members, states, strict=True)
                ]
                others = [node for node in nodes if node.group != group.name]
                asked = [node for node in changed if not node.doomed]
                order = self._answer(opened, cluster, [*changed, *others], 'order', group, asked)
                gone = {node.id for node in order}
                ready = [node for node in asked if node.state is NodeState.READY]
                kept = sum(node.id not in gone for node in ready)
                self.assertGreaterEqual(
                    kept, min(least, len(ready)),
                    f'Nodes of group {group.name} are {", ".join(states)}.',
                )  # fmt: skip

    def _all(self) -> tuple[ClusterDriver, Cluster, tuple[Node, ...]]:
        opened = self.nodes_driver()
        cluster = self.a_whole(opened)
        return opened, cluster, samples.nodes_of(cluster)

    def _answer(
        self,
        opened: ClusterDriver,
        cluster: Cluster,
        nodes: Sequence[Node],
        method: str,
        group: NodeGroupSpec,
        asked: Sequence[Node],
    ) -> Sequence[Node]:
        # Answers for what no machine can say are answers, too.
        with self.network.playing(REFUSING):
            scale = opened.get_scale_manager(**self.of_whole(cluster, *nodes))
            return list(getattr(scale, method)(group, asked))


def _by_group(
    cluster: Cluster, nodes: Sequence[Node]
) -> Iterator[tuple[NodeGroupSpec, list[Node]]]:
    for group in cluster.spec.groups:
        yield group, [node for node in nodes if node.group == group.name]
