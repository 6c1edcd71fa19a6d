"""Translation of Ironic's allocations and nodes to kiln's values."""

import dataclasses
import unittest

from kiln.compute_drivers.ironic import translate
from kiln.exceptions import AmphoraBuildError, InsufficientCapacity
from kiln.models import Address, AmphoraType, State

ID = '0f0c2c8e-3a6f-4a3c-9c53-3a1f1a9f7a10'
CLAIM = {
    'uuid': ID,
    'name': 'kiln-0',
    'state': 'active',
    'node_uuid': 'n-1',
    'resource_class': 'large',
    'traits': ['CUSTOM_GPU'],
    'last_error': None,
    'created_at': '2026-11-28T07:03:31.227314+00:00',
    'extra': {
        'kiln': {
            'owner': 'site', 'build_key': 'k-1', 'name': 'web-1', 'flavor': None, 'image': None,
            'source': 'http://h/i#sha256=0', 'zone': None, 'metadata': {'a': 'b'},
        }
    },
}  # fmt: skip
NODE = {
    'uuid': 'n-1',
    'instance_uuid': ID,
    'provision_state': 'active',
    'power_state': 'power on',
    'target_power_state': None,
    'conductor_group': '',
    'properties': {'rack': 'r1'},
    'network_data': {
        'links': [{'id': 'l', 'ethernet_mac_address': '52:54:00:00:00:01'}],
        'networks': [
            {'link': 'l', 'ip_address': '192.0.2.7/24'},
            {'link': 'm', 'ip_address': '2001:db8::7'},
            {'link': 'l', 'type': 'ipv4_dhcp'},
        ],
    },
}
#: The provision state of a node with the claim, and the state of the amphora.
STATES = {
    'available': State.PENDING,
    'deploying': State.BUILDING,
    'wait call-back': State.BUILDING,
    'deploy hold': State.BUILDING,
    'active': State.ACTIVE,
    'rescue': State.ACTIVE,
    'rescuing': State.ACTIVE,
    'rescue wait': State.ACTIVE,
    'unrescuing': State.ACTIVE,
    'servicing': State.ACTIVE,
    'service wait': State.ACTIVE,
    'service hold': State.ACTIVE,
    'deploy failed': State.ERROR,
    'error': State.ERROR,
    'adopt failed': State.ERROR,
    'rescue failed': State.ERROR,
    'unrescue failed': State.ERROR,
    'service failed': State.ERROR,
    'deleting': State.DELETING,
    'cleaning': State.DELETING,
    'clean failed': State.DELETING,
    'a state of tomorrow': State.UNKNOWN,
}


def amphora(claim=(), node=(), **more):
    """Return the amphora of the claim and the node above, with changes."""
    facts = {**CLAIM, **dict(claim)}
    return translate.amphora_of(facts, None if node is None else {**NODE, **dict(node)}, **more)


def marked(**facts):
    """Return the extra of the claim with more facts."""
    return {'extra': {'kiln': {**CLAIM['extra']['kiln'], **facts}}}


class States(unittest.TestCase):
    def test_each_provision_state_is_a_state_of_the_contract(self):
        for word, state in STATES.items():
            with self.subTest(word):
                self.assertIs(amphora(node={'provision_state': word}).state, state)

    def test_a_claim_without_a_node_is_pending(self):
        found = amphora({'state': 'allocating', 'node_uuid': None}, None)
        self.assertEqual((State.PENDING, 'allocating'), (found.state, found.task_state))

    def test_a_claim_that_found_no_node_is_in_error_for_want_of_capacity(self):
        told = {'state': 'error', 'last_error': 'no available nodes match the resource class x'}
        found = amphora({**told, 'node_uuid': None}, None)
        self.assertEqual((State.ERROR, told['last_error']), (found.state, found.fault))
        self.assertEqual(InsufficientCapacity.code, found.fault_code)

    def test_a_node_that_is_powered_off_is_a_suspended_amphora(self):
        self.assertIs(amphora(node={'power_state': 'power off'}).state, State.SUSPENDED)

    def test_a_node_whose_power_is_not_known_is_in_an_unknown_state(self):
        for power in (None, 'error'):
            self.assertIs(amphora(node={'power_state': power}).state, State.UNKNOWN)

    def test_a_node_that_was_read_before_its_claim_is_pending(self):
        node = {'instance_uuid': None, 'provision_state': 'available'}
        self.assertIs(amphora(node=node).state, State.PENDING)

    def test_a_node_that_has_left_its_claim_is_deleting(self):
        for word in ('deleting', 'cleaning', 'clean failed'):
            node = {'instance_uuid': None, 'provision_state': word}
            self.assertIs(amphora(node=node).state, State.DELETING, word)

    def test_an_accepted_delete_shows_whatever_the_node_does(self):
        for word in STATES:
            self.assertIs(
                amphora(marked(deleting=True), {'provision_state': word}).state, State.DELETING
            )


class Tasks(unittest.TestCase):
    def test_a_node_at_rest_has_no_task(self):
        self.assertIsNone(amphora().task_state)
        self.assertTrue(amphora().status(0.0).ready)

    def test_a_change_of_power_is_a_task(self):
        self.assertEqual(
            'to power off', amphora(node={'target_power_state': 'power off'}).task_state
        )

    def test_an_amphora_that_is_serviced_or_rescued_is_not_ready(self):
        for word in ('rescue', 'servicing', 'service wait'):
            self.assertFalse(amphora(node={'provision_state': word}).status(0.0).ready, word)


class Served(unittest.TestCase):
    def test_an_amphora_has_served_once_its_deploy_has_ended(self):
        for word in ('active', 'error', 'rescue failed'):
            self.assertIs(True, amphora(node={'provision_state': word}).served, word)
        for word in ('available', 'deploying', 'wait call-back', 'deploy failed'):
            self.assertIs(False, amphora(node={'provision_state': word}).served, word)

    def test_a_failed_rebuild_is_not_a_failed_build(self):
        failed = amphora(marked(served=True), {'provision_state': 'deploy failed'})
        self.assertEqual((True, None), (failed.served, failed.fault_code))
        failed = amphora(node={'provision_state': 'deploy failed'})
        self.assertEqual((False, AmphoraBuildError.code), (failed.served, failed.fault_code))


class Faults(unittest.TestCase):
    def test_a_failure_has_the_reason_of_the_history_before_the_last_error(self):
        node = {'provision_state': 'deploy failed', 'last_error': 'the power is lost'}
        self.assertEqual('no boot device', amphora(node=node, fault='no boot device').fault)
        self.assertEqual('the power is lost', amphora(node=node).fault)
        self.assertEqual('no reason given', amphora(node={**node, 'last_error': None}).fault)

    def test_a_node_that_is_not_well_says_why_and_stays_active(self):
        found = amphora(node={'maintenance': True, 'fault': 'power failure', 'last_error': 'mute'})
        self.assertEqual((State.ACTIVE, 'power failure: mute'), (found.state, found.fault))
        found = amphora(node={'maintenance': True, 'maintenance_reason': 'new fans'})
        self.assertEqual('in maintenance: new fans', found.fault)

    def test_the_reason_is_the_newest_error_since_the_claim(self):
        since = translate.seconds_of(CLAIM['created_at'])
        events = [
            {'created_at': '2026-11-28T07:05:00+00:00', 'severity': 'ERROR', 'event': 'second'},
            {'created_at': '2026-11-28T07:04:00+00:00', 'severity': 'ERROR', 'event': 'first'},
            {'created_at': '2026-11-28T07:06:00+00:00', 'severity': 'INFO', 'event': 'a note'},
            {
                'created_at': '2026-11-28T07:07:00+00:00', 'severity': 'ERROR',
                'event': "Deployment aborted at step 'deploy'", 'event_type': 'deployment_end',
            },
        ]  # fmt: skip
        self.assertEqual('second', translate.reason_of(events, since))
        old = {
            'created_at': '2026-11-27T00:00:00+00:00',
            'severity': 'ERROR',
            'event': 'of others',
        }
        self.assertIsNone(translate.reason_of([old], since))


class Facts(unittest.TestCase):
    def test_an_amphora_has_the_facts_of_its_claim(self):
        found = amphora()
        self.assertEqual(
            (ID, 'web-1', 'site', 'k-1', AmphoraType.BARE_METAL, {'a': 'b'}),
            (found.id, found.name, found.owner, found.build_key, found.amphora_type,
             dict(found.metadata)),
        )  # fmt: skip

    def test_a_flavor_and_an_image_of_defaults_are_shown_and_not_compared(self):
        found, built = amphora(), translate.as_built(CLAIM)
        self.assertEqual(
            ('large+CUSTOM_GPU', 'http://h/i#sha256=0'), (found.flavor, found.image_id)
        )
        self.assertEqual((None, None), (built.flavor, built.image_id))

    def test_a_flavor_and_an_image_are_shown_in_the_words_of_the_request(self):
        found = amphora(marked(flavor='large', image='an-image'))
        self.assertEqual(('large', 'an-image'), (found.flavor, found.image_id))

    def test_the_zone_is_a_property_or_the_conductor_group_or_the_default_one(self):
        self.assertEqual('r1', amphora(zone_property='rack').availability_zone)
        self.assertEqual('g', amphora(node={'conductor_group': 'g'}).availability_zone)
        self.assertEqual('default', amphora().availability_zone)
        self.assertEqual('default', amphora(zone_property='row').availability_zone)

    def test_the_addresses_are_those_of_the_network_data(self):
        self.assertEqual(
            (
                Address(address='192.0.2.7', mac='52:54:00:00:00:01'),
                Address(address='2001:db8::7'),
            ),
            amphora().addresses,
        )
        for data in (None, {}, 'nonsense'):
            self.assertEqual((), amphora(node={'network_data': data}).addresses)

    def test_a_claim_of_others_has_no_facts(self):
        for extra in (None, {}, {'kiln': 'nonsense'}, {'nova': {}}):
            claim = {**CLAIM, 'extra': extra}
            self.assertEqual({}, translate.facts_of(claim))
            self.assertFalse(translate.is_of(claim, 'site'))

    def test_owners_and_keys_are_compared_with_their_capitals(self):
        self.assertTrue(translate.is_of(CLAIM, 'site', 'k-1'))
        self.assertFalse(translate.is_of(CLAIM, 'Site', 'k-1'))
        self.assertFalse(translate.is_of(CLAIM, 'site', 'K-1'))

    def test_raw_has_nothing_that_was_deployed(self):
        node = {'instance_info': {'configdrive': 'secret'}, 'driver_info': {'password': 'secret'}}
        found = amphora(node=node)
        self.assertNotIn('secret', repr(dataclasses.asdict(found)))
        self.assertEqual('active', found.raw['node']['provision_state'])

    def test_a_moment_that_cannot_be_read_is_none(self):
        for text in (None, '', 'yesterday'):
            self.assertIsNone(translate.seconds_of(text))
        self.assertEqual(
            translate.seconds_of('2026-11-28T07:03:31+00:00'),
            translate.seconds_of('2026-11-28T07:03:31'),
        )
