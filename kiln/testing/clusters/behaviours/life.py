"""Lifecycle behaviours of clusters that the engine builds on a simulated cloud."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kiln.clusters.models import Node, NodeState, Operation, StepState
from kiln.db.store import Store
from kiln.testing.clusters import samples
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.clusters.simulation import operations
from kiln.testing.clusters.simulation.course import Course
from kiln.testing.clusters.simulation.operations import Row

_POLL_S = 0.01
_COUNT = 3


class Life(JourneyFixture):
    """Life of a cluster."""

    def test_a_cluster_is_created_and_every_node_is_one_machine(self) -> None:
        self.expect_a_cluster(first=True)
        self._become(operations.CREATE, _COUNT)

    def test_a_cluster_grows_and_no_other_node_is_touched(self) -> None:
        self._become(operations.CREATE, _COUNT)
        self._become(operations.GROW, _COUNT + 1)

    def test_a_named_node_is_removed_and_no_other_is_touched(self) -> None:
        self._become(operations.CREATE, _COUNT)
        self._become(operations.SHRINK, _COUNT - 1)

    def test_an_upgrade_replaces_every_node(self) -> None:
        self._become(operations.CREATE, _COUNT)
        before = {node.id for node in self._nodes()}
        self._become(operations.UPGRADE, _COUNT)
        self.assertEqual(set(), before & {node.id for node in self._nodes()})

    def test_a_named_node_is_replaced_and_no_other_is_touched(self) -> None:
        self._become(operations.CREATE, _COUNT)
        before = {node.id for node in self._nodes()}
        self._become(operations.REPLACE, _COUNT)
        self.assertEqual(len(before) - 1, len(before & {node.id for node in self._nodes()}))

    def test_a_reboot_resets_every_node_and_keeps_its_machine(self) -> None:
        self._become(operations.CREATE, _COUNT)
        self._all_reset(operations.REBOOT)

    def test_a_rebuild_rebuilds_every_machine_in_place(self) -> None:
        self._become(operations.CREATE, _COUNT)
        self._all_reset(operations.REBUILD)

    def test_a_deletion_leaves_nothing_but_a_receipt(self) -> None:
        self._become(operations.CREATE, _COUNT)
        with self.at.site.open_store() as store:
            cluster_id = self.at.id_(store)
        self._become(operations.DELETE, 0)
        with self.at.site.open_store() as store:
            receipt = store.receipts.get(cluster_id)
        self.assertEqual(_COUNT + sum(self.at.beside.values()), len(receipt.holdings))
        self.assertEqual((), receipt.abandoned)

    # ---- what is kept of it -----------------------------------------------------

    def test_outputs_are_known_once_all_nodes_are_ready(self) -> None:
        self._become(operations.CREATE, _COUNT)
        with self.at.site.open_store() as store:
            cluster_id = self.at.id_(store)
            outputs = store.clusters.get(cluster_id).outputs
            unknown = store.events.after(0, cluster_id=cluster_id, kind='outputs-unknown')
        self.assertEqual([], [event.message for event in unknown])
        roles = (None, self.at.role, *self.at.beside)
        declared = self.nodes_driver().template_definition.outputs
        expected = {name for name, one in declared.items() if one.role in roles}
        self.assertEqual(set(), expected - {name for name, one in outputs.items() if one})

    def test_the_store_has_no_secret_of_the_site(self) -> None:
        self._become(operations.CREATE, _COUNT)
        files = self.at.site.folder.glob('*.db*')
        leaks = [path.name for path in files if samples.SECRET.encode() in path.read_bytes()]
        self.assertEqual([], leaks, 'A secret of the site was stored.')

    # ---- helpers -----------------------------------------------------------------

    at: Course

    def setUp(self) -> None:
        super().setUp()
        self.at = self.course(self.new_folder(), _COUNT)

    def _all_reset(self, row: Row) -> None:
        operation = self._become(row, _COUNT)
        with self.at.site.open_store() as store:
            done = {
                step.node_id
                for step in store.journal.of(operation.id)
                if step.kind == row.kind.value and step.state is StepState.DONE
            }
        self.assertEqual({node.id for node in self._nodes()}, done)

    def _become(self, row: Row, count: int) -> Operation:
        """Run an operation, and check nodes, machines and the store afterwards."""
        self.needs(row)
        self.expect_a_cluster()
        with self.at.site.open_store() as store:
            before = self.at.nodes(store)
            operation = self.at.ask(store, row)
            with self.at.site.conducting(store):
                self._ended(store, operation)
            ending = self.at.ending(store, operation, before)
        self.assert_right(ending, row.title)
        count += sum(self.at.beside.values()) if count else 0
        self.assertEqual([NodeState.READY.value] * count, [node[3] for node in ending.nodes])
        self._spared(row, before)
        return operation

    def _spared(self, row: Row, before: Sequence[Node]) -> None:
        now = {node.id: node.compute_id for node in self._nodes()}
        spared = row.spared(before, samples.GROUP)
        touched = [
            node.name
            for node in before
            if node.id in spared and now.get(node.id) != node.compute_id
        ]
        self.assertEqual(
            [], touched, f'Operation "{row.title}" changed nodes that it must not change.'
        )

    def _nodes(self) -> list[Node]:
        with self.at.site.open_store() as store:
            return self.at.nodes(store)

    def _ended(self, store: Store, operation: Operation) -> None:
        end = time.monotonic() + self.within_s
        while not store.operations.get(operation.id).state.ended:
            self.assertLess(
                time.monotonic(),
                end,
                f'{operation.kind.value} did not end within {self.within_s:g} s',
            )
            time.sleep(_POLL_S)
