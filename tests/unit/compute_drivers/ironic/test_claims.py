"""Claims of nodes: what is left, and what is said, when a build or a delete goes wrong."""

import unittest

from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.exceptions import (
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    Outcome,
    ServiceUnavailable,
)
from kiln.models import AmphoraType, State
from tests.unit.compute_drivers.ironic.played import NONE_FREE, PlayedIronic, fault
from tests.unit.compute_drivers.ironic.written import written

IMAGE = f'http://h/i#sha256={"0" * 64}'
DEPLOY, CLAIMS = 'PUT /v1/nodes/n-1/states/provision', 'POST /v1/allocations'
NO_PORT = 'Failed to validate deploy or power info. Error: Node n-1 does not have any port.'


class Case(unittest.TestCase):
    def setUp(self):
        self.ironic = self.enterContext(PlayedIronic())
        conf = written(
            'auth_type = none', f'baremetal_endpoint_override = {self.ironic.url}',
            'flavor = bm', f'image = {IMAGE}', 'lock_wait = 0',
        )  # fmt: skip
        self.driver = IronicDriver.open(conf, name='metal', owner='site')
        self.addCleanup(self.driver.close)

    def build(self, **given):
        return self.driver.build(
            AmphoraType.BARE_METAL, **{'build_key': 'k-1', 'name': 'web-1', **given}
        )

    def refused(self, kind, said, **given):
        """Build, and return the error that refuses it."""
        with self.assertRaisesRegex(kind, said) as caught:
            self.build(**given)
        self.assertEqual('k-1', caught.exception.build_key)
        return caught.exception


class Builds(Case):
    def test_a_build_claims_a_node_and_deploys_it_with_what_was_requested(self):
        built = self.build(user_data='#!/bin/sh\n', metadata={'role': 'web'})
        self.assertEqual([built], [one['uuid'] for one in self.ironic.sent(CLAIMS)])
        (deploy,) = self.ironic.sent(DEPLOY)
        self.assertEqual('active', deploy['target'])
        self.assertEqual('#!/bin/sh\n', deploy['configdrive']['user_data'])
        self.assertEqual(built, deploy['configdrive']['meta_data']['uuid'])
        self.assertIs(State.BUILDING, self.driver.status(built).state)

    def test_traits_of_a_flavor_are_claimed(self):
        self.build(amphora_flavor='bm+CUSTOM_A')
        self.assertEqual(['CUSTOM_A'], self.ironic.sent(CLAIMS)[0]['traits'])

    def test_a_zone_is_claimed_by_the_free_nodes_in_it(self):
        self.build(availability_zone='east')
        self.assertEqual(['n-1'], self.ironic.sent(CLAIMS)[0]['candidate_nodes'])

    def test_a_zone_without_nodes_is_refused(self):
        self.refused(InvalidBuildRequest, "no node is in zone 'west'", availability_zone='west')
        self.assertEqual([], self.ironic.sent(CLAIMS))

    def test_a_node_that_ironic_cannot_deploy_is_free_again(self):
        self.ironic.refusals = [(DEPLOY, fault(400, NO_PORT))]
        error = self.refused(InvalidBuildRequest, 'does not have any port')
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)
        self.assertEqual({}, self.ironic.claims)

    def test_a_claim_that_cannot_be_given_back_is_said_to_be_left(self):
        self.ironic.refusals = [
            (DEPLOY, fault(400, NO_PORT)), ('DELETE .*', fault(500, 'the database is away')),
        ]  # fmt: skip
        error = self.refused(InvalidBuildRequest, 'does not have any port')
        self.assertIs(Outcome.UNKNOWN, error.outcome)
        self.assertIsNotNone(self.driver.find_build('k-1'))

    def test_a_class_without_free_nodes_is_a_lack_of_capacity(self):
        self.ironic.claim_errors = [NONE_FREE]
        error = self.refused(InsufficientCapacity, "no node of flavor 'bm' is free: no available")
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)
        self.assertEqual({}, self.ironic.claims)

    def test_a_class_that_no_node_has_is_a_wrong_request(self):
        self.ironic.claim_errors = ['no available nodes match the resource class huge']
        self.refused(InvalidBuildRequest, "no node has flavor 'huge'", amphora_flavor='huge')
        self.assertEqual({}, self.ironic.claims)

    def test_a_claim_that_other_claims_got_ahead_of_is_made_again(self):
        self.ironic.claim_errors = ['could not reserve any of 2 suitable nodes']
        self.build()
        self.assertEqual(2, len(self.ironic.sent(CLAIMS)))

    def test_a_claim_that_fails_in_ironic_is_not_a_lack_of_capacity(self):
        self.ironic.claim_errors = ['Unexpected exception during allocation: a deadlock']
        self.refused(ServiceUnavailable, 'Ironic failed to claim a node: .* a deadlock')
        self.assertEqual({}, self.ironic.claims)

    def test_a_failure_after_the_claim_says_that_something_is_left(self):
        self.ironic.refusals = [
            ('GET /v1/nodes/n-1', fault(503, 'no conductor')),
            ('GET /v1/nodes/n-1', fault(503, 'no conductor')),
        ]
        error = self.refused(ServiceUnavailable, 'no conductor')
        self.assertIs(Outcome.UNKNOWN, error.outcome)
        self.assertEqual(1, len(self.ironic.claims))

    def test_a_deploy_without_an_answer_is_found_by_its_key(self):
        self.ironic.refusals = [(DEPLOY, (502, {}, 'a page'))]
        self.refused(BuildOutcomeUnknown, 'in front of Ironic answered 502')
        self.assertEqual(self.build(), self.driver.find_build('k-1').id)

    def test_a_key_that_is_no_key_is_refused(self):
        self.refused(InvalidBuildRequest, 'give whole public keys', keys=['my-key'])


class Repeats(Case):
    def test_a_claim_that_was_never_deployed_is_deployed_by_the_repeated_build(self):
        self.ironic.refusals = [(DEPLOY, (502, {}, 'a page'))]
        self.refused(BuildOutcomeUnknown, '502')
        self.assertIs(State.PENDING, self.driver.find_build('k-1').state)
        built = self.build()
        self.assertEqual(1, len(self.ironic.sent(CLAIMS)))
        self.assertIs(State.BUILDING, self.driver.status(built).state)

    def test_a_build_that_is_under_way_is_not_deployed_twice(self):
        self.assertEqual(self.build(), self.build())
        self.assertEqual(1, len(self.ironic.sent(DEPLOY)))

    def test_a_claim_without_a_node_is_made_again(self):
        self.ironic.claim_errors = [NONE_FREE]
        self.ironic.refusals = [('DELETE .*', fault(500, 'the database is away'))]
        self.refused(ServiceUnavailable, 'the database is away')
        self.assertIs(State.ERROR, self.driver.find_build('k-1').state)
        self.build()
        self.assertIs(State.BUILDING, self.driver.find_build('k-1').state)


class Deletes(Case):
    def test_a_delete_does_not_wait_for_the_cleaning(self):
        built = self.build()
        self.ironic.nodes[0]['provision_state'] = 'active'
        self.driver.delete(built)
        self.assertEqual('cleaning', self.ironic.nodes[0]['provision_state'])
        self.assertEqual([], list(self.driver.list_amphorae()))

    def test_a_claim_that_was_never_deployed_ends_at_once(self):
        self.ironic.refusals = [(DEPLOY, (502, {}, 'a page'))]
        self.refused(BuildOutcomeUnknown, '502')
        self.driver.delete(self.driver.find_build('k-1').id)
        self.assertEqual({}, self.ironic.claims)
        self.assertEqual('available', self.ironic.nodes[0]['provision_state'])

    def test_a_delete_in_the_middle_of_a_step_follows_it(self):
        built = self.build()
        self.driver.delete(built)
        self.assertIs(State.DELETING, self.driver.status(built).state)
        self.ironic.nodes[0]['provision_state'] = 'active'
        # At the next look, also one of another process.
        self.assertEqual([State.DELETING], [one.state for one in self.driver.list_amphorae()])
        self.assertEqual({}, self.ironic.claims)

    def test_what_belongs_to_no_site_is_not_acted_upon(self):
        built = self.build()
        self.ironic.claims[built]['extra'] = {'nova': {}}
        with self.assertRaisesRegex(DeleteFailed, 'it belongs to no site. Claim it first.') as bad:
            self.driver.delete(built)
        self.assertFalse(bad.exception.retryable)
        for act in (self.driver.suspend, self.driver.reboot, self.driver.rebuild):
            with self.assertRaisesRegex(InstanceStateConflict, 'Claim it first.'):
                act(built)
        self.assertEqual([built], list(self.ironic.claims))


class Rebuilds(Case):
    def test_a_rebuild_that_fails_is_known_to_have_run(self):
        built = self.build()
        self.ironic.nodes[0]['provision_state'] = 'active'
        self.driver.rebuild(built)
        self.ironic.nodes[0]['provision_state'] = 'deploy failed'
        found = self.driver.get_amphora(amphora_id=built)
        self.assertEqual((State.ERROR, True, None), (found.state, found.served, found.fault_code))

    def test_a_node_that_is_powered_off_is_neither_rebuilt_nor_rebooted(self):
        built = self.build()
        self.ironic.nodes[0] |= {'provision_state': 'active', 'power_state': 'power off'}
        for act in (self.driver.rebuild, self.driver.reboot):
            with self.assertRaisesRegex(InstanceStateConflict, 'powered off. Resume it'):
                act(built)
