from kiln.cluster_drivers.swarm_debian_v1 import leaving
from kiln.cluster_drivers.swarm_debian_v1.line import Refused, Silent
from kiln.cluster_drivers.swarm_debian_v1.values import Role
from kiln.cluster_drivers.swarm_debian_v1.view import NoManager
from kiln.cluster_drivers.values import ReadyState

from .case import SwarmCase, a_cluster


class Founding(SwarmCase):
    def test_the_oldest_manager_founds_the_swarm_and_the_others_wait_for_it(self):
        young, old = self.born(2, 'managers'), self.born(1, 'managers')
        worker = self.born(11)
        self.assertEqual('web-managers-1 must found the swarm', self.ask(young).reason)
        self.assertIn('No manager answers', self.ask(worker).reason)
        self.join(old, young, worker)
        self.assertEqual(1, len(self.sim.swarms))
        self.assertEqual({'n-1', 'n-2', 'n-11'}, self.listed().keys())

    def test_a_founder_whose_answer_was_lost_is_found_in_its_swarm(self):
        node = self.born(1, 'managers')
        self.sim.lose_answer = True
        with self.assertRaises(Silent):
            self.ask(node)
        self.join(node)
        self.assertEqual(1, len(self.sim.swarms))

    def test_a_node_without_an_address_is_not_ready(self):
        node = self.born(1, 'managers', address=None)
        self.assertEqual('it has no address', self.ask(node).reason)

    def test_the_next_oldest_manager_founds_a_swarm_after_the_first_is_gone(self):
        first, second = self.born(1, 'managers'), self.born(2, 'managers')
        self.join(first)
        self.sim.of(first).up = False
        self.assertIn('must found', self.ask(second).reason)
        self.gone(first)
        self.join(second)
        self.assertEqual({'swarm-2'}, self.sim.living)

    def test_no_second_swarm_is_founded_in_a_cluster_that_was_once_complete(self):
        managers, _ = self.whole(1, 0)
        self.gone(managers[0])
        other = self.born(2, 'managers')
        self.assertIn('recover', self.ask(other).reason)
        self.assertEqual(1, len(self.sim.swarms))

    def test_no_swarm_is_founded_while_a_manager_is_in_one_without_quorum(self):
        first, second = (self.born(number, 'managers') for number in (1, 2))
        self.join(first, second)
        self.gone(first)
        third = self.born(3, 'managers')
        self.assertIn('is in a swarm, but cannot', self.ask(third).reason)

    def test_no_swarm_is_founded_while_a_ready_manager_does_not_answer(self):
        first, second = (self.born(number, 'managers') for number in (1, 2))
        self.join(first, second)
        self.sim.of(second).up = False
        self.gone(first)
        third = self.born(0, 'managers')
        self.assertIn('web-managers-2 does not answer', self.ask(third).reason)


class Joining(SwarmCase):
    def test_a_node_is_ready_when_the_swarm_lists_it_as_desired(self):
        self.cluster = a_cluster(labels={'tier': 'front'}, availability='pause')
        self.join(self.born(1, 'managers'), self.born(11))
        peers = self.listed()
        self.assertEqual((Role.MANAGER, 'active'), (peers['n-1'].role, peers['n-1'].availability))
        self.assertEqual((Role.WORKER, 'pause'), (peers['n-11'].role, peers['n-11'].availability))
        self.assertEqual(
            {'tier': 'front', 'kiln.node': 'n-11', 'kiln.group': 'workers', 'kiln.zone': 'az1'},
            peers['n-11'].labels,
        )

    def test_a_join_token_is_invalid_after_its_use(self):
        first = self.born(1, 'managers')
        self.join(first)
        swarm = self.sim.swarms[0]
        for node in (self.born(2, 'managers'), self.born(11)):
            before = dict(swarm.tokens)
            self.join(node)
            role = 'manager' if node.group == 'managers' else 'worker'
            self.assertNotEqual(before[role], swarm.tokens[role])
            self.assertNotIn(before[role], swarm.tokens.values())

    def test_a_used_token_is_rotated_after_the_answer_of_a_join_was_lost(self):
        self.join(self.born(1, 'managers'))
        worker, swarm = self.born(11), self.sim.swarms[0]
        used = swarm.tokens['worker']
        self.sim.lose_answer = True
        with self.assertRaises(Silent):
            self.ask(worker)
        self.assertEqual(used, swarm.tokens['worker'])
        self.join(worker)
        self.assertNotEqual(used, swarm.tokens['worker'])

    def test_a_node_whose_token_was_rotated_meanwhile_joins_with_a_new_one(self):
        self.join(self.born(1, 'managers'))
        worker, swarm = self.born(11), self.sim.swarms[0]
        self.sim.before = lambda: swarm.rotate('worker')
        self.join(worker)

    def test_a_token_is_rotated_despite_a_concurrent_change_of_the_swarm(self):
        self.join(self.born(1, 'managers'))
        worker, swarm = self.born(11), self.sim.swarms[0]
        with self.assertRaises(Silent):
            self.sim.lose_answer = True
            self.ask(worker)
        used, self.sim.before = swarm.tokens['worker'], lambda: swarm.rotate('manager')
        self.join(worker)
        self.assertNotEqual(used, swarm.tokens['worker'])

    def test_a_join_is_refused_while_the_swarm_changes_constantly(self):
        self.join(self.born(1, 'managers'))
        worker, swarm = self.born(11), self.sim.swarms[0]

        def busy():
            swarm.index += 1
            self.sim.before = busy

        self.sim.before = busy
        with self.assertRaises(Refused):
            self.ask(worker)

    def test_a_refusal_of_a_valid_token_is_raised_and_the_next_call_joins(self):
        self.join(self.born(1, 'managers'))
        worker, swarm = self.born(11), self.sim.swarms[0]
        refused = lambda: (_ for _ in ()).throw(Refused('no room'))  # noqa: E731
        self.sim.before = refused
        with self.assertRaises(Refused):
            self.ask(worker)
        self.join(worker)
        self.assertEqual(2, len(swarm.peers))

    def test_a_node_removed_from_the_swarm_joins_again(self):
        self.join(self.born(1, 'managers'))
        worker = self.born(11)
        self.join(worker)
        swarm = self.sim.swarms[0]
        del swarm.peers[self.sim.of(worker).peer_id]
        self.assertIn('joined again', self.ask(worker).reason)
        self.join(worker)

    def test_a_node_with_an_empty_disk_joins_again_and_leaves_no_second_entry(self):
        managers, _ = self.whole()
        for node in (managers[0], managers[2]):
            self.sim.boot(node)
            self.ask(node)
            self.join(node)
        self.assertEqual(6, len(self.sim.swarms[0].peers))
        self.assertEqual(3, len(self.sim.swarms[0].managers))

    def test_a_node_that_claims_the_entry_of_another_node_has_failed(self):
        self.join(self.born(1, 'managers'))
        honest, liar = self.born(11), self.born(12)
        self.join(honest)
        self.sim.of(liar).swarm = self.sim.swarms[0]
        self.sim.of(liar).peer_id = self.sim.of(honest).peer_id
        self.assertIs(ReadyState.FAILED, self.ask(liar).state)

    def test_a_manager_of_another_swarm_has_failed(self):
        first, second = (self.born(number, 'managers') for number in (1, 2))
        self.join(first)
        with self.sim.open(None, None, second) as engine:
            engine.found()
        found = self.ask(second)
        self.assertEqual((ReadyState.FAILED, 2), (found.state, len(self.sim.swarms)))

    def test_entries_of_deleted_nodes_are_removed_before_a_manager_joins(self):
        managers, _ = self.whole()
        self.gone(managers[1])
        self.join(self.born(4, 'managers'))
        self.assertEqual({'n-1', 'n-3', 'n-4'}, {
            node_id for node_id, peer in self.listed().items() if peer.role is Role.MANAGER
        })  # fmt: skip

    def test_nodes_that_others_have_added_are_left_alone(self):
        self.join(self.born(1, 'managers'))
        stranger = self.born(99)
        with self.sim.open(None, None, stranger) as engine, self.view().manager() as manager:
            engine.join(manager, manager.swarm().tokens['worker'])
        del self.nodes[stranger.id]
        self.join(self.born(11))
        self.assertIn('n-99', self.listed())

    def test_a_member_is_not_ready_while_no_manager_answers(self):
        managers, workers = self.whole()
        for node in managers:
            self.sim.of(node).up = False
        with self.assertRaises(NoManager):
            self.ask(workers[0])

    def test_a_node_that_the_swarm_does_not_report_as_ready_is_not_ready(self):
        _, workers = self.whole()
        told = self.sim._peer
        self.sim._peer = lambda *of: {**told(*of), 'Status': {'State': 'unknown'}}
        self.assertEqual('the swarm does not report it as ready', self.ask(workers[0]).reason)


class Errors(SwarmCase):
    def test_a_node_whose_engine_is_pending_or_locked_is_not_ready(self):
        node = self.born(1, 'managers')
        self.assertIn('web', node.name)
        for state in ('pending', 'locked'):
            self.sim._info = lambda machine, state=state: {
                'Swarm': {'LocalNodeState': state, 'Error': 'so it is'}
            }
            self.assertEqual(
                f'its engine is {state} in the swarm: so it is', self.ask(node).reason
            )

    def test_an_engine_that_could_not_join_leaves_and_joins_again(self):
        self.join(self.born(1, 'managers'))
        worker = self.born(11)
        told, left = self.sim._info, self.sim._leave

        def failed(machine):
            said = told(machine)['Swarm']
            broken = machine.address == worker.address and not machine.swarm
            return {'Swarm': {**said, 'LocalNodeState': 'error'} if broken else said}

        self.sim._info = failed
        self.sim._leave = lambda machine, force: None
        self.join(worker)
        self.sim._leave = left

    def test_an_engine_that_loses_its_manager_during_the_join_joins_by_another(self):
        managers, _ = self.whole(3, 0)
        worker = self.born(11)
        told, waiting = self.sim._info, True

        def pending(machine):
            said = told(machine)['Swarm']
            if waiting and machine.address == worker.address:
                said['LocalNodeState'] = 'pending'
                said['RemoteManagers'] = [{'NodeID': '', 'Addr': f'{managers[2].address}:2377'}]
            return {'Swarm': said}

        def leave(machine, force):
            nonlocal waiting
            waiting = False

        self.sim._info, self.sim._leave = pending, leave
        self.assertEqual('its engine is pending in the swarm', self.ask(worker).reason)
        self.gone(managers[2])
        self.join(worker)
        self.assertFalse(waiting)

    def test_the_entry_of_an_abandoned_join_is_removed_after_two_minutes(self):
        self.whole(1, 0)
        told, said = self.sim._told, self.sim._info
        nameless = {
            'ID': 'p-0', 'Version': {'Index': 1}, 'Spec': {'Role': 'worker'},
            'CreatedAt': '2026-11-25T02:43:10.568849067Z', 'Status': {'State': 'unknown'},
            'Description': {'Platform': {}, 'Resources': {}, 'Engine': {}, 'TLSInfo': {}},
        }  # fmt: skip
        self.sim._told = lambda swarm, what, query: (
            [*told(swarm, what, query), nameless] if what == 'nodes' else told(swarm, what, query)
        )
        removed = []
        self.sim._remove = lambda swarm, peer_id: removed.append(peer_id)
        for now, gone in (('02:45:09.9+00:00', []), ('02:45:11.123456789Z', ['p-0'])):
            self.sim._info = lambda machine, now=now: (
                said(machine) | {'SystemTime': f'2026-11-25T{now}'}
            )
            with self.subTest(now), self.view().manager() as engine:
                leaving.reap(self.view(), engine, engine.peers())
                self.assertEqual(gone, removed)

    def test_an_engine_that_could_not_join_waits_for_a_manager(self):
        worker = self.born(11)
        self.sim._info = lambda machine: {'Swarm': {'LocalNodeState': 'error', 'Error': 'no'}}
        self.assertIn('No manager', self.ask(worker).reason)
        manager = self.born(1, 'managers')
        self.assertIn('could not join: no', self.ask(manager).reason)
