"""Base fixture of the kit for cluster drivers: a driver, and a cluster to try it."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kiln.clock import SYSTEM_CLOCK
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.expectations import Change, Expectations, Least
from kiln.cluster_drivers.values import Bootstrap, Context
from kiln.clusters.models import Cluster, Node, OperationState
from kiln.clusters.spec import MachineSpec
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from kiln.testing.clusters.engine_bench import EngineBench, engine_bench_of
from kiln.testing.clusters.machine_bench import MachineBench
from kiln.testing.clusters.named_bench import named_bench
from kiln.testing.clusters.road.machines import Machine
from kiln.testing.clusters.road.network import Network
from kiln.testing.clusters.simulation.course import Course, Ending
from kiln.testing.clusters.simulation.operations import Row
from kiln.testing.clusters.simulation.site import Site
from kiln.testing.clusters.subjects import find_driver
from kiln.testing.runner import Behaviours

_IN_MEMORY = '/dev/shm'  # noqa: S108  # for folders with names of their own


class ClusterFixture(Behaviours):
    """The attributes of the kit that an author sets: the driver, and options."""

    #: A directory, ``module:Class``, or the name of an installed driver.
    driver: str = ''
    #: Values of parameters that need more than a value that fits the declaration.
    parameters: Mapping[str, Any] = MappingProxyType({})
    #: Machine specification, for a backend that is not simulated.
    machine: MachineSpec = MachineSpec()
    #: The role of the nodes, where the driver needs another than the default.
    role: str = 'worker'
    #: The nodes of each role in clusters of several groups. If an author sets them, because the
    #: driver needs others, every cluster of the kit has them; the last group grows and shrinks.
    groups: Mapping[str, int] = samples.COUNTS
    #: What a machine of the driver answers once it is a ready node; None if the kit can tell
    #: by its rule. The kit then shows that a node is not ready before.
    ready_machine: Machine | None = None
    #: What machines answer while the node to drain still serves, and once it does not.
    serving_machine: Machine | None = None
    drained_machine: Machine | None = None
    #: By role: the nodes that must stay ready while others go, in a cluster of ``groups``.
    least: Mapping[str, Least] = MappingProxyType({})
    #: Clusters that the driver refuses, by the nodes of each role.
    refused_groups: Sequence[Mapping[str, int]] = ()
    #: Values of parameters that the driver refuses, each alone.
    refused: Sequence[Mapping[str, Any]] = ()
    #: Values of parameters that the driver takes, each alone.
    accepted: Sequence[Mapping[str, Any]] = ()
    #: Verbs, each with arguments that it refuses without asking a machine.
    refused_arguments: Sequence[tuple[str, Mapping[str, Any]]] = ()
    #: What differs after an upgrade.
    other: MachineSpec = MachineSpec(image='kit-2')
    #: The bench of the driver's engine, or of its machines; None is the bench that it names.
    bench_class: type[EngineBench] | type[MachineBench] | None = None
    soon_rule = 'poll once, never wait.'
    #: Deadline in seconds that a poll is given; a poll that gets no answer waits this long.
    look_s: float = 2.5
    #: Seconds within which an operation must end.
    within_s: float = 60.0

    driver_class: type[ClusterDriver]

    def setUp(self) -> None:
        super().setUp()
        if not self.driver:
            raise NotImplementedError(
                f'{type(self).__name__} must set driver to the driver that it judges.'
            )
        self.driver_class = find_driver(self.driver)
        self._take_from_bench()
        self.network = Network()
        # What a driver waits for in the kit takes virtual time.
        self.clocks = (SYSTEM_CLOCK, self.network.clock)

    def _take_from_bench(self) -> None:
        """Take what the author has told in the driver's bench, where this class says nothing."""
        expected = self._expectations()
        if expected.groups and not self._own_groups:
            self.groups = expected.groups
        self.least = self.least or expected.least
        self.refused_groups = self.refused_groups or expected.refused_groups
        self.refused = self.refused or expected.refused
        self.accepted = self.accepted or expected.accepted
        self.refused_arguments = self.refused_arguments or expected.refused_arguments

    def _expectations(self) -> type[Expectations]:
        """Return what the author expects of the driver; nothing for an engine of its own."""
        if not issubclass(self.driver_class, NodeClusterDriver):
            return Expectations
        if self.bench_class is not None:
            assert issubclass(self.bench_class, Expectations)
            return self.bench_class
        return named_bench(self.driver_class, Expectations) or Expectations

    def machine_bench_class(self) -> type[MachineBench] | None:
        """Return the bench that plays the machines of the driver; None without one."""
        found = self._expectations()
        return found if issubclass(found, MachineBench) else None

    def engine_bench_class(self) -> type[EngineBench]:
        """Return the bench of the driver's own engine."""
        if self.bench_class is not None:
            assert issubclass(self.bench_class, EngineBench)
            return self.bench_class
        return engine_bench_of(self.driver_class)

    @property
    def _own_groups(self) -> bool:
        """True if an author has set groups: then no cluster of the kit goes without them."""
        return self.groups is not samples.COUNTS

    # ---- what only an author knows; each answer is about the nodes of one cluster -------

    def staying(self, nodes: Sequence[Node]) -> Collection[Node] | None:
        """Return the nodes that never go, while all others can; None if that is not known."""
        return self._expectations().staying(nodes)

    def refused_changes(self, cluster: Cluster, nodes: Sequence[Node]) -> Sequence[Change]:
        """Return changes that the driver refuses."""
        return self._expectations().refused_changes(cluster, nodes)

    def accepted_changes(self, cluster: Cluster, nodes: Sequence[Node]) -> Sequence[Change]:
        """Return changes that the driver accepts."""
        return self._expectations().accepted_changes(cluster, nodes)

    def expected_outputs(self, nodes: Sequence[Node]) -> Mapping[str, Any] | None:
        """Return the outputs of a cluster; None if that is not known."""
        return self._expectations().expected_outputs(nodes)

    def expected_readings(self, nodes: Sequence[Node]) -> Mapping[str, float | None] | None:
        """Return what a monitor that asks no machine measures; None if that is not known."""
        return self._expectations().expected_readings(nodes)

    def expected_answers(
        self, nodes: Sequence[Node]
    ) -> Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
        """Return verbs that ask no machine, with arguments, and what they answer."""
        return self._expectations().expected_answers(nodes)

    # ---- subjects of calls -------------------------------------------------------

    def any_driver(self) -> ClusterDriver:
        """Return the driver; one with an engine of its own is opened by its bench."""
        if issubclass(self.driver_class, NodeClusterDriver):
            return self.driver_class.open()
        folder = self.new_folder()
        bench = self.engine_bench_class()(self.driver_class, folder, VirtualClock())
        self.addCleanup(bench.close)
        return bench.open()

    def nodes_driver(self) -> NodeClusterDriver:
        """Return the driver, if it is a NodeClusterDriver; other behaviours judge the rest."""
        opened = self.driver_class.open()
        if not isinstance(opened, NodeClusterDriver):
            self.not_for_this_driver('the driver has an engine of its own')
        return opened

    def filled_machine(self, opened: ClusterDriver, **parameters: Any) -> MachineSpec:
        """Return a machine specification with all that the driver requires."""
        given = {**self.machine.parameters, **self.parameters, **parameters}
        return samples.filled(opened, dataclasses.replace(self.machine, parameters=given))

    def a_cluster(self, opened: ClusterDriver, **parameters: Any) -> Cluster:
        """Return a cluster as the store would return it."""
        machine = self.filled_machine(opened, **parameters)
        made = samples.cluster(self.driver_class, machine, 3, role=self.role)
        return samples.with_roles(made, self.groups) if self._own_groups else made

    def asked(self, opened: ClusterDriver) -> Mapping[str, Any]:
        """Return the arguments that every method takes: context and cluster."""
        given: Context = samples.context(*(samples.node('kit-1', i) for i in (1, 2, 3)))
        return {'context': given, 'cluster': self.a_cluster(opened)}

    def a_whole(self, opened: ClusterDriver, **parameters: Any) -> Cluster:
        """Return a cluster with a group for each role."""
        return samples.with_roles(self.a_cluster(opened, **parameters), self.groups)

    def of_whole(self, cluster: Cluster, *nodes: Node) -> dict[str, Any]:
        """Return the context and the cluster of a call; by default all nodes are ready."""
        there = nodes or samples.nodes_of(cluster)
        context = samples.context(*there, console=self.network.console)
        return {'context': context, 'cluster': cluster}

    def given_to(
        self, opened: NodeClusterDriver, cluster: Cluster, node: Node, nodes: Sequence[Node] = ()
    ) -> Bootstrap:
        """Return what a node of a cluster is given; by default all nodes are ready."""
        with self.network.playing():
            return opened.bootstrap(**self.of_whole(cluster, *nodes), node=node)

    # ---- where clusters are built ------------------------------------------------

    def site(self, folder: Path) -> Site:
        """Return the site where clusters are built; override it for another backend."""
        return Site(folder=folder, driver=self.driver)

    def course(self, folder: Path, count: int) -> Course:
        """Return the course of a cluster of ``count`` nodes at a site of its own."""
        opened = self.nodes_driver()
        machine = self.filled_machine(opened, **samples.secrets_of(opened))
        role, beside = self.role, {}
        if self._own_groups:
            *others, role = self.groups
            beside = {one: self.groups[one] for one in others}
        return Course(
            site=self.site(folder), driver_class=self.driver_class, machine=machine,
            other=self.other, count=count, within_s=self.within_s, role=role, beside=beside,
        )  # fmt: skip

    def needs(self, *rows: Row) -> None:
        """Skip the behaviour if the driver lacks the capability for an operation."""
        for row in rows:
            if row.cap is not None and row.cap not in self.driver_class.capabilities:
                raise CannotBeShown(f'the driver cannot {row.cap.value}')

    def assert_right(self, ending: Ending, label: str) -> None:
        """Fail unless an operation has ended correctly."""
        succeeded = (OperationState.SUCCEEDED.value, '')
        self.assertEqual(succeeded, (ending.operation, ending.cause), label)
        self.assertEqual((), ending.wrongs, label)

    def new_folder(self) -> Path:
        """Return a folder that is removed after the behaviour."""
        made = tempfile.TemporaryDirectory(prefix='kiln-kit-', dir=in_memory())
        return Path(self.enterContext(made))


def in_memory() -> str | None:
    """Return a folder in memory, where commits wait for no disk; None without one."""
    usable = 'TMPDIR' not in os.environ and os.access(_IN_MEMORY, os.W_OK | os.X_OK)
    return _IN_MEMORY if usable else None
