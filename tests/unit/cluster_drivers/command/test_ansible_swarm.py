"""What the program of ansible_swarm_v1 decides before any playbook runs."""

import runpy
import types
import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_layering import ROOT

PROGRAM = ROOT / 'doc/examples/cluster_drivers/ansible_swarm_v1/program'


program = types.SimpleNamespace(**runpy.run_path(str(PROGRAM)))


def asked(managers=1, workers=2, *, state=None, remove=(), request='r1'):
    groups = [('managers', 'control', managers), ('workers', None, workers)]
    return {
        'cluster': {'id': 'c-1', 'name': 'web'},
        'driver_state': state or {},
        'request_id': request,
        'remove': {'nodes': list(remove)},
        'desired': {
            'groups': [
                {'name': name, 'role': role, 'count': count, 'flavors': {}, 'image': 'i',
                 'flavor': 'small', 'server_type': 'vm', 'networks': [], 'sec_groups': [],
                 'zones': {'names': ['a', 'b']}}
                for name, role, count in groups
            ]
        },
    }  # fmt: skip


class Numbers(unittest.TestCase):
    def test_nodes_have_names_and_keys_of_their_cluster(self):
        call = asked()
        nodes = program.wanted(call, program.numbered(call))
        self.assertEqual(
            ['web-managers-1', 'web-workers-1', 'web-workers-2'], [one['name'] for one in nodes]
        )
        self.assertEqual('c-1.workers.2', nodes[-1]['key'])
        self.assertEqual(['manager', 'worker', 'worker'], [one['role'] for one in nodes])

    def test_the_named_node_goes_and_its_number_does_not_come_back(self):
        state = program.numbered(asked())
        state = program.numbered(
            asked(workers=1, state=state, remove=['web-workers-1'], request='r2')
        )
        self.assertEqual([2], state['numbers']['workers'])
        state = program.numbered(asked(workers=2, state=state, request='r3'))
        self.assertEqual([2, 3], state['numbers']['workers'])

    def test_a_request_that_is_repeated_removes_nothing_twice(self):
        state = program.numbered(asked())
        call = asked(workers=1, state=state, remove=['web-workers-1'], request='r2')
        once = program.numbered(call)
        self.assertEqual(once, program.numbered({**call, 'driver_state': once}))

    def test_a_node_that_does_not_exist_is_refused_by_name(self):
        call = asked(state=program.numbered(asked()), remove=['web-workers-9'], request='r2')
        with self.assertRaises(program.Ended) as caught:
            program.numbered(call)
        status, message = caught.exception.args
        self.assertEqual(program.REFUSED, status)
        self.assertIn('no node web-workers-9; it has web-managers-1, web-workers-1', message)

    @given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    def test_no_number_is_given_twice(self, counts):
        state, given_before, had = {}, set(), set()
        for index, count in enumerate(counts):
            state = program.numbered(asked(workers=count, state=state, request=f'r{index}'))
            now = set(state['numbers']['workers'])
            self.assertEqual(count, len(now))
            self.assertFalse((now - had) & given_before)
            given_before |= now
            had = now


class Refusals(unittest.TestCase):
    def test_a_manager_has_to_stay(self):
        state = program.numbered(asked())
        call = asked(state=state, remove=['web-managers-1'], request='r2')
        with self.assertRaises(program.Ended) as caught:
            program.check_managers(call, program.numbered(call))
        self.assertIn('no manager would stay', caught.exception.args[1])

    def test_most_managers_can_go_if_one_stays(self):
        state = program.numbered(asked(managers=3))
        call = asked(managers=1, state=state, request='r2')
        program.check_managers(call, program.numbered(call))

    def test_a_cluster_needs_an_odd_number_of_managers(self):
        self.assertEqual([], program.validate(asked())['problems'])
        (problem,) = program.validate(asked(managers=2))['problems']
        self.assertEqual('nodegroups[0].count', problem['path'])

    def test_one_group_has_the_managers(self):
        call = asked()
        call['desired']['groups'][0]['role'] = None
        (problem,) = program.validate(call)['problems']
        self.assertIn('role: control', problem['message'])
