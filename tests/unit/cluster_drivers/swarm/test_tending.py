"""A swarm on which nobody works is kept as it is wanted, and its troubles are told."""

from kiln.cluster_drivers.swarm_debian_v1 import tending
from kiln.cluster_drivers.swarm_debian_v1.tending import Unwell
from kiln.cluster_drivers.swarm_debian_v1.view import NoManager
from kiln.clusters.models import NodeState

from .case import Swarming


class Tending(Swarming):
    def setUp(self):
        super().setUp()
        self.managers, self.workers = self.whole()
        self.sim.log.clear()

    def tend(self):
        tending.tend(self.view())

    def peer_of(self, node):
        return self.sim.swarms[0].peers[self.sim.of(node).peer_id]

    def test_nothing_is_changed_where_all_is_right(self):
        self.tend()
        self.assertEqual([], self.sim.log)

    def test_the_dead_row_of_a_node_that_is_gone_is_taken_off_the_list(self):
        self.gone(self.workers[0])
        self.tend()
        self.assertEqual(set(self.nodes), set(self.listed()))
        self.sim.log.clear()
        self.tend()
        self.assertEqual([], self.sim.log)

    def test_what_people_have_changed_is_as_it_was_wanted_again(self):
        spec = self.peer_of(self.workers[1])['Spec']
        spec['Availability'], spec['Labels'] = 'pause', {'mine': 'yes'}
        self.tend()
        found = self.listed()[self.workers[1].id]
        self.assertEqual('active', found.availability)
        self.assertEqual('workers', found.labels['kiln.group'])
        self.assertEqual('yes', found.labels['mine'])

    def test_a_worker_that_was_taken_off_the_list_is_back_after_two_looks(self):
        del self.sim.swarms[0].peers[self.sim.of(self.workers[2]).peer_id]
        with self.assertRaisesRegex(Unwell, 'web-workers-12.*joined again'):
            self.tend()
        self.tend()
        self.assertEqual(set(self.nodes), set(self.listed()))

    def test_an_engine_that_is_silent_while_its_machine_runs_is_told(self):
        self.sim.of(self.workers[0]).up = False
        with self.assertRaisesRegex(Unwell, 'web-workers-10: nobody answers') as caught:
            self.tend()
        self.assertIn('replace a node', caught.exception.remedy)

    def test_what_the_backend_says_is_dead_is_the_affair_of_others(self):
        for number, state in enumerate((NodeState.UNHEALTHY, NodeState.FAILED)):
            self.change(self.workers[number], state=state)
            self.sim.of(self.workers[number]).up = False
        self.change(self.workers[2], doomed='asked for')
        self.sim.of(self.workers[2]).up = False
        self.tend()

    def test_that_no_more_managers_may_fail_is_told(self):
        self.change(self.managers[1], state=NodeState.UNHEALTHY)
        self.sim.of(self.managers[1]).up = False
        with self.assertRaisesRegex(Unwell, '2 of 3 managers are reachable: one more failure'):
            self.tend()

    def test_a_quorum_that_is_lost_is_told_with_the_way_back_and_nothing_is_founded(self):
        for node in self.managers[1:]:
            self.sim.of(node).up = False
        with self.assertRaisesRegex(NoManager, 'does not have a leader') as caught:
            self.tend()
        self.assertIn('recover', caught.exception.remedy)
        self.assertEqual([], self.sim.log)
        self.assertEqual(1, len(self.sim.swarms))

    def test_a_manager_that_has_lost_its_disk_joins_again_and_founds_nothing(self):
        self.sim.boot(self.managers[0])
        with self.assertRaisesRegex(Unwell, 'one more failure loses the quorum'):
            self.tend()
        # By now it is there twice, and its old entry goes.
        self.tend()
        self.assertEqual(1, len(self.sim.swarms))
        self.assertEqual(6, len(self.sim.swarms[0].peers))
        self.assertEqual(3, len(self.sim.swarms[0].managers))
