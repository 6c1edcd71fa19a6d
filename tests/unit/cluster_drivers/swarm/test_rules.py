import dataclasses
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.cluster_drivers.swarm_debian_v1 import rules
from kiln.cluster_drivers.swarm_debian_v1.values import EngineInfo, Membership, Peer, Role
from kiln.clusters.models import NodeState

from .case import a_cluster, a_node


def a_peer(number, role='worker', **more):
    given = {
        'id': f'p-{number}', 'index': 1, 'spec': {'Role': role}, 'node_id': f'n-{number}',
        'hostname': '', 'ready': True, 'reachable': role == 'manager', 'leader': False,
        'cpus': 1.0, 'memory_bytes': 1.0, 'created_at': 0.0,
    }  # fmt: skip
    return Peer(**given | more)


class Founding(unittest.TestCase):
    def why_not(self, node, *others, cluster=None, nodes=(), **seen):
        managers = [node, *others]
        infos = {
            key.replace('_', '-'): EngineInfo(one, '', False, '') for key, one in seen.items()
        }
        every = [*managers, *nodes]
        return rules.why_not_found(cluster or a_cluster(), node, managers, every, infos)

    def test_the_oldest_manager_can_found_the_swarm(self):
        self.assertEqual('', self.why_not(a_node(1), a_node(2), n_2=Membership.INACTIVE))

    def test_no_manager_can_found_while_one_that_might_have_joined_is_silent(self):
        self.assertIn('does not answer', self.why_not(a_node(1), a_node(2)))
        for state in rules._NEVER_ASKED:
            self.assertEqual('', self.why_not(a_node(1), a_node(2, state=state)))
        self.assertEqual('', self.why_not(a_node(1), a_node(2, address=None)))

    def test_a_younger_manager_cannot_found_the_swarm(self):
        self.assertIn('web-workers-1', self.why_not(a_node(2), a_node(1)))

    def test_one_of_two_managers_created_at_once_counts_as_the_oldest(self):
        first, second = a_node(1, created_at=5.0), a_node(2, created_at=5.0)
        none = Membership.INACTIVE
        said = [self.why_not(first, second, n_2=none), self.why_not(second, first, n_1=none)]
        self.assertEqual(['', 'web-workers-1 must found the swarm'], said)

    def test_no_manager_can_found_after_an_operation_has_succeeded(self):
        cluster = a_cluster()
        whole = dataclasses.replace(cluster, former=cluster.spec)
        self.assertIn('recover', self.why_not(a_node(1), cluster=whole))

    def test_no_manager_can_found_while_a_node_exists_that_was_ever_ready(self):
        for state in set(NodeState) - rules._NEW:
            self.assertIn(
                'n-9', self.why_not(a_node(1), nodes=[a_node(9, state=state, name='n-9')])
            )
        for state in rules._NEW:
            self.assertEqual('', self.why_not(a_node(1), nodes=[a_node(9, state=state)]))

    def test_no_manager_can_found_while_another_is_in_a_swarm_or_joining(self):
        for state in set(Membership) - {Membership.INACTIVE}:
            self.assertIn('is in a swarm', self.why_not(a_node(1), a_node(2), n_2=state))
        self.assertEqual('', self.why_not(a_node(1), a_node(2), n_2=Membership.INACTIVE))


class Quorum(unittest.TestCase):
    @given(up=st.integers(0, 7), down=st.integers(0, 7))
    def test_a_manager_is_demoted_only_if_a_majority_remains(self, up, down):
        mine = a_peer(100, 'manager')
        others = [a_peer(number, 'manager') for number in range(up)]
        others += [a_peer(50 + number, 'manager', reachable=False) for number in range(down)]
        may = not rules.why_not_demoted([mine, *others, a_peer(200)], mine)
        self.assertEqual(up > down, may)

    def test_a_warning_names_a_quorum_that_one_more_failure_loses(self):
        managers = [a_peer(number, 'manager') for number in range(3)]
        self.assertEqual('', rules.lost_quorum(managers))
        managers[0] = a_peer(0, 'manager', reachable=False)
        self.assertIn('one more failure loses', rules.lost_quorum(managers))


class Strays(unittest.TestCase):
    def test_only_dead_entries_of_kiln_are_removed_and_workers_first(self):
        peers = [
            a_peer(1, 'manager', ready=False), a_peer(2, ready=False), a_peer(3),
            a_peer(4, ready=False), a_peer(5, ready=False, node_id=''),
        ]  # fmt: skip
        found = rules.strays(peers, {'n-4'})
        self.assertEqual(['p-2', 'p-1'], [one.id for one in found])

    def test_the_dead_duplicate_of_an_entry_is_removed(self):
        peers = [a_peer(1, ready=False), a_peer(2, node_id='n-1')]
        self.assertEqual(['p-1'], [one.id for one in rules.strays(peers, {'n-1'})])


class Specs(unittest.TestCase):
    def test_labels_of_others_stay_and_those_of_kiln_are_replaced(self):
        peer = a_peer(1, spec={'Role': 'worker', 'Labels': {'own': '1', 'kiln.zone': 'old'}})
        wanted = {'role': Role.WORKER, 'availability': 'active', 'labels': {'kiln.node': 'n-1'}}
        spec = rules.changed_spec(peer, **wanted)
        self.assertEqual({'own': '1', 'kiln.node': 'n-1'}, spec['Labels'])
        same = dataclasses.replace(peer, spec=spec)
        self.assertIsNone(rules.changed_spec(same, **wanted))
        self.assertEqual(
            'manager', rules.changed_spec(same, **wanted | {'role': Role.MANAGER})['Role']
        )

    def test_a_manager_is_ready_when_it_is_reachable(self):
        self.assertEqual('', rules.why_not_ready(a_peer(1, 'manager')))
        self.assertIn('reach', rules.why_not_ready(a_peer(1, 'manager', reachable=False)))
        self.assertIn('as ready', rules.why_not_ready(a_peer(1, ready=False)))
