"""Upkeep of a swarm between operations: changes are reverted and problems reported."""

from kiln.cluster_drivers.swarm_debian_v1 import tending
from kiln.cluster_drivers.swarm_debian_v1.tending import Unwell
from kiln.cluster_drivers.swarm_debian_v1.view import NoManager
from kiln.clusters.models import NodeState

from .case import SwarmCase


class Tending(SwarmCase):
    def setUp(self):
        super().setUp()
        self.managers, self.workers = self.whole()
        self.sim.log.clear()

    def tend(self):
        tending.tend(self.view())

    def peer_of(self, node):
        return self.sim.swarms[0].peers[self.sim.of(node).peer_id]

    def test_a_healthy_swarm_is_not_changed(self):
        self.tend()
        self.assertEqual([], self.sim.log)

    def test_the_dead_entry_of_a_deleted_node_is_removed(self):
        self.gone(self.workers[0])
        self.tend()
        self.assertEqual(set(self.nodes), set(self.listed()))
        self.sim.log.clear()
        self.tend()
        self.assertEqual([], self.sim.log)

    def test_manual_changes_are_reverted_and_labels_of_others_stay(self):
        spec = self.peer_of(self.workers[1])['Spec']
        spec['Availability'], spec['Labels'] = 'pause', {'mine': 'yes'}
        self.tend()
        found = self.listed()[self.workers[1].id]
        self.assertEqual('active', found.availability)
        self.assertEqual('workers', found.labels['kiln.group'])
        self.assertEqual('yes', found.labels['mine'])

    def test_a_worker_removed_from_the_swarm_is_back_after_two_rounds(self):
        del self.sim.swarms[0].peers[self.sim.of(self.workers[2]).peer_id]
        with self.assertRaisesRegex(Unwell, 'web-workers-12.*joined again'):
            self.tend()
        self.tend()
        self.assertEqual(set(self.nodes), set(self.listed()))

    def test_a_silent_engine_on_a_running_machine_is_reported(self):
        self.sim.of(self.workers[0]).up = False
        with self.assertRaisesRegex(Unwell, 'web-workers-10: nobody answers') as caught:
            self.tend()
        self.assertIn('replace a node', caught.exception.remedy)

    def test_silent_engines_of_dead_or_removed_nodes_are_not_reported(self):
        for number, state in enumerate((NodeState.UNHEALTHY, NodeState.FAILED)):
            self.change(self.workers[number], state=state)
            self.sim.of(self.workers[number]).up = False
        self.change(self.workers[2], doomed='asked for')
        self.sim.of(self.workers[2]).up = False
        self.tend()

    def test_a_quorum_that_one_more_failure_loses_is_reported(self):
        self.change(self.managers[1], state=NodeState.UNHEALTHY)
        self.sim.of(self.managers[1]).up = False
        with self.assertRaisesRegex(Unwell, '2 of 3 managers are reachable: one more failure'):
            self.tend()

    def test_a_lost_quorum_is_reported_with_its_remedy_and_no_swarm_is_founded(self):
        for node in self.managers[1:]:
            self.sim.of(node).up = False
        with self.assertRaisesRegex(NoManager, 'does not have a leader') as caught:
            self.tend()
        self.assertIn('recover', caught.exception.remedy)
        self.assertEqual([], self.sim.log)
        self.assertEqual(1, len(self.sim.swarms))

    def test_a_manager_that_lost_its_disk_joins_again_and_founds_no_swarm(self):
        self.sim.boot(self.managers[0])
        with self.assertRaisesRegex(Unwell, 'one more failure loses the quorum'):
            self.tend()
        # The manager has two entries now, and this round removes the old one.
        self.tend()
        self.assertEqual(1, len(self.sim.swarms))
        self.assertEqual(6, len(self.sim.swarms[0].peers))
        self.assertEqual(3, len(self.sim.swarms[0].managers))
