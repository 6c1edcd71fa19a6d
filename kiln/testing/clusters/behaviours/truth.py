"""Behaviours of polls: what a driver says of a node is what its machine answers."""

from __future__ import annotations

from typing import Any

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.readiness import WhenActive
from kiln.cluster_drivers.values import ReadyState
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import KilnError
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machines import AWAY, SILENT, Machine, lacking, made_ready


class Truth(ClusterFixture):
    """Truth."""

    def test_a_machine_that_does_not_answer_has_not_failed(self) -> None:
        opened, of = self._subject()
        node = of['node']
        for words, machine in AWAY.items():
            state = self._readiness(opened, of, machine)
            self.assertIsNot(
                ReadyState.FAILED, state,
                f'{node.name} is given up while its machine {words}: it can still come.',
            )  # fmt: skip

    def test_a_node_is_not_ready_before_its_machine_is(self) -> None:
        opened, of = self._subject()
        asks_nobody = type(opened).is_ready is NodeClusterDriver.is_ready and isinstance(
            opened.ready, WhenActive
        )
        if asks_nobody:
            return  # by its rule, each node whose machine runs is ready
        asked = False
        for words, machine in AWAY.items():
            state = self._readiness(opened, of, machine)
            asked = asked or bool(self.network.asked)
            if asked:
                self.assertIsNot(ReadyState.READY, state, f'ready while its machine {words}')
        ready = self._ready_machine(opened)
        if ready is None and self.machine_bench_class() is not None:
            return  # its cluster shows which nodes are part of it
        if ready is None:
            whom = self.network.asked[0] if self.network.asked else 'no machine'
            raise CannotBeShown(f'the driver asks {whom}; set ready_machine to what it answers')
        for words, less in lacking(ready):
            # Answers of other nodes say nothing about this one.
            state = self._readiness(opened, of, less, others=ready)
            self.assertIsNot(ReadyState.READY, state, f'ready while its machine {words}')
        self.assertIs(ReadyState.READY, self._readiness(opened, of, ready))

    def test_a_node_is_drained_once_it_serves_nothing_and_not_before(self) -> None:
        opened, of = self._subject()
        if type(opened).drain is NodeClusterDriver.drain:
            return  # it drains no node
        if self.serving_machine is None and self.machine_bench_class() is not None:
            return  # a node of its cluster serves while it is to go
        if self.serving_machine is None or self.drained_machine is None:
            raise CannotBeShown('set serving_machine and drained_machine to what they answer')
        for machine, done in ((self.serving_machine, False), (self.drained_machine, True)):
            with self.network.playing(machine):
                try:
                    found = opened.drain(**of).done
                except KilnError:
                    found = False
            self.assertIs(done, found, 'drained while it serves' if found else 'never drained')

    # ---- one poll -----------------------------------------------------------------

    def _subject(self) -> tuple[NodeClusterDriver, dict[str, Any]]:
        opened = self.nodes_driver()
        of = self.of_whole(self.a_whole(opened))
        return opened, {**of, 'node': of['context'].nodes[-1]}

    def _ready_machine(self, opened: NodeClusterDriver) -> Machine | None:
        if self.ready_machine is not None:
            return self.ready_machine
        own = type(opened).is_ready is not NodeClusterDriver.is_ready
        return None if own else made_ready(opened.ready)

    def _readiness(
        self,
        opened: NodeClusterDriver,
        of: dict[str, Any],
        machine: Machine,
        others: Machine = SILENT,
    ) -> ReadyState | None:
        """Return what one poll says; None for an error, which counts as not ready."""
        last = of['node'].address.rpartition('.')[2]
        with self.network.playing(others, **{f'_{last}': machine}):
            try:
                return opened.is_ready(**of).state
            except KilnError:
                return None
