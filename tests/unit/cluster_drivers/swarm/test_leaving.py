from kiln.cluster_drivers.swarm_debian_v1.line import Refused
from kiln.cluster_drivers.swarm_debian_v1.values import Role
from kiln.cluster_drivers.swarm_debian_v1.view import NoManager
from kiln.clusters.models import NodeState

from .case import SwarmCase
from .sim import task


class Leaving(SwarmCase):
    def test_a_worker_leaves_once_its_tasks_have_stopped(self):
        _, workers = self.whole()
        mine = self.sim.of(workers[1])
        self.sim.tasks['web'] = [task(mine.peer_id), task(mine.peer_id, 'shutdown')]
        self.assertEqual('1 tasks on it have not stopped.', self.drain(workers[1]).reason)
        self.assertEqual('drain', self.listed()['n-11'].availability)
        self.sim.tasks.clear()
        self.assertTrue(self.drain(workers[1]).done)
        self.assertNotIn('n-11', self.listed())
        self.assertTrue(self.drain(workers[1]).done)

    def test_a_worker_that_does_not_answer_is_removed_from_the_swarm(self):
        _, workers = self.whole()
        self.sim.of(workers[0]).up = False
        self.sim.tasks['web'] = [task(self.sim.of(workers[0]).peer_id)]
        self.assertTrue(self.drain(workers[0]).done)
        self.assertNotIn('n-10', self.listed())

    def test_a_manager_is_demoted_before_it_leaves(self):
        managers, _ = self.whole()
        self.assertTrue(self.drain(managers[0]).done or self.drain(managers[0]).done)
        self.assertEqual({'n-2', 'n-3'}, {
            one.node_id for one in self.listed().values() if one.role is Role.MANAGER
        })  # fmt: skip

    def test_the_only_manager_does_not_leave(self):
        managers, _ = self.whole(1, 1)
        second = self.born(2, 'managers')
        self.assertIn('No manager answers', self._refusal(managers[0]))
        self.join(second)
        self.assertTrue(self.drain(managers[0]).done or self.drain(managers[0]).done)

    def _refusal(self, node):
        with self.assertRaises(NoManager) as caught:
            self.drain(node)
        return str(caught.exception)

    def test_a_manager_stays_while_too_few_others_are_reachable(self):
        managers, _ = self.whole(5, 0)
        for node in managers[3:]:
            self.sim.of(node).up = False
        self.assertEqual(
            'It stays a manager: without it 2 of 4 managers could be reached, and 3 are needed.',
            self.drain(managers[0]).reason,
        )
        self.assertTrue(self.sim.of(managers[0]).manages)
        # The entries of the dead managers are removed, so the rest has a majority again.
        for node in managers[3:]:
            self.gone(node)
        self.join(self.born(6, 'managers'))
        self.assertTrue(self.drain(managers[0]).done or self.drain(managers[0]).done)

    def test_a_drained_manager_cannot_found_a_swarm_but_can_join_again(self):
        managers, _ = self.whole()
        while not self.drain(managers[0]).done:
            pass
        with self.sim.open(None, None, managers[0]) as engine, self.assertRaises(Refused):
            engine.found()
        self.assertIn('joined again', self.ask(managers[0]).reason)
        self.join(managers[0])
        self.assertEqual(6, len(self.listed()))

    def test_no_node_leaves_a_swarm_that_is_deleted(self):
        managers, workers = self.whole()
        for node in managers:
            self.change(node, doomed='the cluster is to go', state=NodeState.DRAINING)
        before = len(self.sim.log)
        for node in (*managers, *workers):
            self.assertTrue(self.drain(node).done)
        self.assertEqual(before, len(self.sim.log))

    def test_two_managers_of_three_leave_and_the_swarm_stays(self):
        managers, _ = self.whole()
        for node in managers[1:]:
            while not self.drain(node).done:
                pass
            self.gone(node)
        self.assertEqual(['n-1'], [one.node_id for one in self.listed().values()
                                   if one.role is Role.MANAGER])  # fmt: skip
