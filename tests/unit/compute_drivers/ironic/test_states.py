"""Conditions of amphorae, by those of allocations and nodes."""

import unittest

from kiln.compute_drivers.ironic.claims import Claim
from kiln.compute_drivers.ironic.states import condition_of
from kiln.models import State

#: What the provision states of Ironic 39 stand for, once a node is claimed.
TABLE = {
    'available': (State.PENDING, None, False),
    'deploying': (State.BUILDING, 'deploying', False),
    'wait call-back': (State.BUILDING, 'wait call-back', False),
    'deploy hold': (State.BUILDING, 'deploy hold', False),
    'active': (State.ACTIVE, None, True),
    'rescue': (State.ACTIVE, 'rescue', True),
    'rescuing': (State.ACTIVE, 'rescuing', True),
    'rescue wait': (State.ACTIVE, 'rescue wait', True),
    'unrescuing': (State.ACTIVE, 'unrescuing', True),
    'servicing': (State.ACTIVE, 'servicing', True),
    'service wait': (State.ACTIVE, 'service wait', True),
    'service hold': (State.ACTIVE, 'service hold', True),
    'adopting': (State.ACTIVE, 'adopting', True),
    'deploy failed': (State.ERROR, None, False),
    'error': (State.ERROR, None, True),
    'rescue failed': (State.ERROR, None, True),
    'unrescue failed': (State.ERROR, None, True),
    'service failed': (State.ERROR, None, True),
    'adopt failed': (State.ERROR, None, True),
    'deleting': (State.DELETING, 'deleting', None),
    'cleaning': (State.DELETING, 'cleaning', None),
    'clean wait': (State.DELETING, 'clean wait', None),
    'clean failed': (State.DELETING, 'clean failed', None),
    'manageable': (State.UNKNOWN, None, None),
    'newly invented': (State.UNKNOWN, None, None),
}


def claim(state='active', node_uuid='n-1', **record):
    allocation = {
        'uuid': 'a-1', 'state': state, 'node_uuid': node_uuid, 'resource_class': 'metal',
        'last_error': 'no available nodes' if state == 'error' else None,
        'extra': {'kiln': {'draw': '1234abcd', **record}},
    }  # fmt: skip
    return Claim.read(allocation)


def node(at='active', **more):
    return {'uuid': 'n-1', 'provision_state': at, 'power_state': 'power on', **more}


def condition(found, of, age_s=1.0):
    return condition_of(found, of, age_s=age_s, claim_s=60.0)


class Conditions(unittest.TestCase):
    def test_each_provision_state_has_a_state_of_the_contract(self):
        for at, expected in TABLE.items():
            with self.subTest(at):
                found = condition(claim(), node(at))
                self.assertEqual(expected, (found.state, found.task, found.served))

    def test_a_failure_has_ironics_reason_on_one_line(self):
        found = condition(claim(), node('deploy failed', last_error='Timeout\nreached'))
        self.assertEqual('Timeout reached', found.fault)
        self.assertEqual('build_error', found.fault_code)

    def test_a_rebuild_that_fails_is_no_build_that_never_ran(self):
        found = condition(claim(rebuilt=True), node('deploy failed', last_error='x'))
        self.assertEqual((True, None), (found.served, found.fault_code))
        self.assertTrue(condition(claim(rebuilt=True), node('deploying')).served)

    def test_a_node_that_is_powered_off_is_suspended(self):
        self.assertIs(State.SUSPENDED, condition(claim(), node(power_state='power off')).state)

    def test_a_power_action_under_way_is_a_task(self):
        found = condition(claim(), node(target_power_state='power off'))
        self.assertEqual((State.ACTIVE, 'to power off'), (found.state, found.task))
        found = condition(claim(), node(power_state='power off', target_power_state='power on'))
        self.assertEqual((State.SUSPENDED, 'to power on'), (found.state, found.task))

    def test_a_controller_that_does_not_answer_makes_the_state_unknown(self):
        silent = node(power_state=None, maintenance=True, fault='power failure',
                      maintenance_reason='BMC timeout')  # fmt: skip
        found = condition(claim(), silent)
        self.assertEqual(
            (State.UNKNOWN, 'power failure: BMC timeout', True),
            (found.state, found.fault, found.served),
        )
        self.assertIs(State.UNKNOWN, condition(claim(), node(power_state='error')).state)

    def test_maintenance_alone_changes_nothing(self):
        kept = node(maintenance=True, maintenance_reason='new disks')
        self.assertIs(State.ACTIVE, condition(claim(), kept).state)

    def test_a_claim_without_a_node_waits_for_one(self):
        found = condition(claim('allocating', None), None)
        self.assertEqual((State.PENDING, False), (found.state, found.served))

    def test_a_claim_that_nobody_deploys_is_in_error_after_its_time(self):
        for found in (
            condition(claim('allocating', None), None, age_s=61.0),
            condition(claim(), node('available'), age_s=61.0),
        ):
            self.assertEqual((State.ERROR, False), (found.state, found.served))
            self.assertIn('Build again with its key', found.fault)

    def test_a_claim_that_found_no_node_lacks_capacity(self):
        found = condition(claim('error', None), None)
        self.assertEqual(
            (State.ERROR, 'no available nodes', 'insufficient_capacity'),
            (found.state, found.fault, found.fault_code),
        )

    def test_an_accepted_delete_shows_before_ironic_takes_it(self):
        found = condition(claim(deleting=True), node('deploying'))
        self.assertIs(State.DELETING, found.state)

    def test_a_node_that_cannot_be_seen_is_not_taken_for_gone(self):
        self.assertIs(State.UNKNOWN, condition(claim(), None).state)


class Claims(unittest.TestCase):
    def test_an_allocation_of_others_is_no_claim(self):
        for extra in (None, {}, {'kiln': None}, {'kiln': {}}, {'kiln': 'x'}, 'x'):
            with self.subTest(extra=extra):
                self.assertIsNone(Claim.read({'uuid': 'a', 'state': 'active', 'extra': extra}))

    def test_a_record_of_wrong_types_is_read_without_an_error(self):
        found = claim(place={'addresses': [1, {'address': 2}]}, metadata=[1])
        self.assertEqual(('2',), tuple(one.address for one in found.addresses))
        self.assertEqual({}, found.metadata)
