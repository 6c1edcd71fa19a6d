"""Fixture of drivers with an engine of their own: changes, and what stands after them."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.cluster_drivers.values import Cap
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Cluster, OperationState
from kiln.clusters.spec import MachineSpec, NodeGroupSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clusters.behaviours.own_engine_played import Played
from kiln.testing.clusters.engine_bench import EngineBench, EngineNode

Nodes = Mapping[str, EngineNode]


class OwnEngine(Played):
    """A site with an engine of the driver's own, and what stands in it."""

    # ---- changes -------------------------------------------------------------------------

    def has(self, cap: Cap) -> None:
        """Go on if the driver claims a capability."""
        if cap not in self.driver_class.capabilities:
            self.not_for_this_driver(f'the driver cannot {cap.value}')

    def resized(self, there: Cluster, group: NodeGroupSpec, more: int) -> None:
        """Resize a group by a number of nodes, or by two of them if one is refused."""
        counts = [group.shape.count + by for by in (more, 2 * more)]
        for count in (counts := [one for one in counts if one > 0]):
            try:
                with self.unless_refused():
                    self.done(requests.Resize(cluster=there.name, group=group.name, count=count))
            except CannotBeShown:
                if count == counts[-1]:
                    raise
            else:
                return

    def is_refused(self, request: requests.Request) -> None:
        """Fail unless a request is refused, at once or by the driver."""
        try:
            ended = self.played.run(self.played.ask(request))
        except KilnError:
            return
        self.no_defect()
        self.assertIs(
            OperationState.FAILED, ended.state,
            'The user named a node that does not exist: raise a ClusterDriverError.',
        )  # fmt: skip

    # ---- what stands -------------------------------------------------------------------

    @property
    def shows_nodes(self) -> bool:
        """True if the bench can list what stands."""
        return type(self.bench).nodes is not EngineBench.nodes

    def nodes(self, cluster: Cluster) -> Nodes:
        """Return what stands of a cluster, by name; not shown if the bench cannot list it."""
        return {one.name: one for one in self.bench.nodes(cluster)}

    def stored(self) -> Cluster:
        """Return the cluster as the store has it."""
        return self.store.clusters.get(self.name)

    def now(self) -> Nodes:
        """Return what stands of the stored cluster."""
        return self.nodes(self.stored())

    def others(self, there: Cluster, group: str) -> Nodes:
        """Return what stands of a cluster in all groups but one."""
        return {name: one for name, one in self.nodes(there).items() if one.group != group}

    def kept(self, before: Nodes) -> None:
        """Fail unless nodes stand as they did before a change."""
        now = self.now()
        touched = [name for name, one in before.items() if now.get(name) != one]
        self.none_of(touched, 'Nodes that the change is not about were touched.')

    def wrongs(self, cluster: Cluster) -> list[str]:
        """Return how what stands differs from what ``cluster.spec`` asks for."""
        found = list(self.bench.nodes(cluster))
        names = [group.name for group in cluster.spec.groups]
        wrong = [f'node {one.name} is in group {one.group}, which is not declared'
                 for one in found if one.group not in names]  # fmt: skip
        for group in cluster.spec.groups:
            members = [one for one in found if one.group == group.name]
            if len(members) != group.shape.count:
                wrong.append(f'group {group.name} has {len(members)} nodes, '
                             f'{group.shape.count} are asked for')  # fmt: skip
            machine = self.context().effective(cluster, group.name).machine
            wrong += [text for one in members for text in _differences(one, machine)]
        return wrong

    def assert_stands(self, name: str) -> Cluster:
        """Fail unless what stands is what the cluster of a name asks for; return the cluster."""
        cluster = self.store.clusters.get(name)
        self.none_of(self.wrongs(cluster), 'What was asked for is not what stands.')
        return cluster

    def assert_gone(self, cluster: Cluster, before: set[str]) -> None:
        """Fail if the store has a cluster, or the engine has more than before it."""
        with self.assertRaises(ClusterNotFound):
            self.store.clusters.get(cluster.name)
        left = set(self.bench.resources()) - before
        self.none_of(left, 'The cluster was reported as deleted, and this is left.')


def _differences(node: EngineNode, machine: MachineSpec) -> list[str]:
    return [
        f'node {node.name} has {name} {found!r}, {asked!r} is asked for'
        for name, found, asked in (
            ('image', node.image, machine.image),
            ('flavor', node.flavor, machine.flavor),
            ('parameters', node.parameters, dict(machine.parameters)),
        )
        if found is not None and found != asked
    ]
