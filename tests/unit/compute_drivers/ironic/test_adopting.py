"""Instances that others have deployed: seen as nobody's, and claimed for this site."""

from kiln.compute_drivers.ironic.building.claims import name_of
from kiln.exceptions import (
    BuildConflict,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    ServiceUnavailable,
)
from kiln.models import State
from tests.unit.compute_drivers.ironic.played import fault
from tests.unit.compute_drivers.ironic.test_claims import CLAIMS, IMAGE, Case

THEIRS = '11111111-2222-4333-8444-555555555555'
URL, DIGEST = IMAGE.split('#sha256=')
DEPLOYED = {
    'instance_uuid': THEIRS,
    'provision_state': 'active',
    'provision_updated_at': '2026-11-01T10:00:00+00:00',
    'instance_info': {
        'display_name': 'db-1', 'traits': ['CUSTOM_A'], 'image_source': URL,
        'image_os_hash_algo': 'sha256', 'image_os_hash_value': DIGEST,
    },
}  # fmt: skip


class Adopting(Case):
    def setUp(self):
        super().setUp()
        self.ironic.nodes[0] |= DEPLOYED

    def refused(self, kind, said, key='k-1'):
        with self.assertRaisesRegex(kind, said) as caught:
            self.driver.claim(THEIRS, key)
        self.assertEqual(THEIRS, caught.exception.amphora_id)
        return caught.exception

    def allocated(self, **more):
        """Have an allocation for the instance, as another program made it."""
        self.ironic.claims[THEIRS] = {
            'uuid': THEIRS, 'name': 'db-1', 'state': 'active', 'node_uuid': 'n-1', 'traits': [],
            'resource_class': 'bm', 'last_error': None, 'extra': {'theirs': 1},
            'created_at': '2026-10-01T10:00:00+00:00', **more,
        }  # fmt: skip

    def test_an_instance_of_nobody_is_shown_with_what_its_node_tells(self):
        seen = self.driver.get_amphora(amphora_id=THEIRS)
        self.assertEqual(
            (THEIRS, 'db-1', State.ACTIVE, None, None, 'bm+CUSTOM_A', IMAGE),
            (seen.id, seen.name, seen.state, seen.owner, seen.build_key, seen.flavor,
             seen.image_id),
        )  # fmt: skip
        self.assertEqual([], list(self.driver.list_amphorae()))

    def test_a_claim_makes_an_allocation_of_its_node_with_all_facts(self):
        before = self.driver.get_amphora(amphora_id=THEIRS)
        self.driver.claim(THEIRS, 'k-1')
        (sent,) = self.ironic.sent(CLAIMS)
        self.assertEqual(
            (THEIRS, 'n-1', name_of('site', 'k-1')), (sent['uuid'], sent['node'], sent['name'])
        )
        (after,) = self.driver.list_amphorae()
        self.assertEqual(('site', 'k-1'), (after.owner, after.build_key))
        for fact in ('name', 'state', 'flavor', 'image_id', 'created_at', 'addresses'):
            self.assertEqual(getattr(before, fact), getattr(after, fact), fact)
        self.assertEqual([], self.ironic.sent('P.* /v1/nodes/.*'))

    def test_an_allocation_of_others_keeps_what_they_have_written(self):
        self.allocated()
        self.driver.claim(THEIRS, 'k-1')
        self.assertEqual([], self.ironic.sent(CLAIMS))
        found = self.ironic.claims[THEIRS]
        self.assertEqual((1, name_of('site', 'k-1')), (found['extra']['theirs'], found['name']))
        self.assertEqual(THEIRS, self.driver.find_build('k-1').id)

    def test_a_server_of_nova_is_left_to_nova(self):
        self.ironic.nodes[0]['instance_info'] = {'nova_host_id': 'cmp-1'}
        error = self.refused(InvalidRequest, 'server of Nova: claim it in a backend with driver')
        self.assertFalse(error.retryable)
        self.assertEqual([], self.ironic.sent(CLAIMS))

    def test_an_instance_that_is_still_deployed_is_not_claimed(self):
        self.ironic.nodes[0]['provision_state'] = 'deploying'
        self.assertTrue(self.refused(InstanceStateConflict, 'it is building').retryable)
        self.assertEqual([], self.ironic.sent(CLAIMS))

    def test_an_id_that_no_node_has_is_not_found(self):
        self.ironic.nodes[0]['instance_uuid'] = None
        self.refused(InstanceNotFoundError, 'no node with this instance')

    def test_a_claim_that_ironic_refuses_leaves_no_allocation(self):
        self.ironic.claim_errors.append('Resource class gold does not match')
        self.refused(ServiceUnavailable, 'does not match')
        self.assertEqual({}, self.ironic.claims)
        self.driver.claim(THEIRS, 'k-1')
        self.assertEqual(THEIRS, self.driver.find_build('k-1').id)

    def test_a_refused_claim_that_was_killed_before_it_was_taken_back_is_repeated(self):
        facts = {'kiln': {'owner': 'site', 'build_key': 'k-1'}}
        self.allocated(state='error', node_uuid=None, extra=facts, name=name_of('site', 'k-1'))
        self.driver.claim(THEIRS, 'k-1')
        self.assertEqual('active', self.ironic.claims[THEIRS]['state'])

    def test_a_build_that_found_no_node_is_claimed_with_its_own_key(self):
        self.ironic.nodes[0]['instance_uuid'] = None
        facts = {'kiln': {'owner': 'site', 'build_key': 'k-1'}}
        self.allocated(state='error', node_uuid=None, extra=facts, name=name_of('site', 'k-1'))
        self.driver.claim(THEIRS, 'k-1')
        self.assertEqual('error', self.ironic.claims[THEIRS]['state'])

    def test_a_claim_that_another_process_has_made_meanwhile_is_a_success(self):
        taken = fault(409, f'An allocation with UUID {THEIRS} already exists.')
        self.ironic.refusals.append((CLAIMS, taken))
        facts = {'kiln': {'owner': 'site', 'build_key': 'k-1', 'name': 'db-1'}}
        # After the look for the key, and before the request.
        look = f'GET /v1/allocations/{name_of("site", "k-1")}'
        self.ironic.refusals.append((look, fault(404, 'Allocation k could not be found.')))
        self.allocated(extra=facts, name=name_of('site', 'k-1'))
        self.ironic.refusals.append(
            (f'GET /v1/allocations/{THEIRS}', fault(404, 'Allocation x could not be found.'))
        )
        self.driver.claim(THEIRS, 'k-1')

    def test_the_key_of_another_amphora_is_refused(self):
        self.allocated(
            uuid='a-2', extra={'kiln': {'owner': 'site', 'build_key': 'k-1'}},
            name=name_of('site', 'k-1'),
        )  # fmt: skip
        self.ironic.claims = {'a-2': self.ironic.claims.pop(THEIRS)}
        error = self.refused(BuildConflict, 'amphora a-2 of this site has build key')
        self.assertFalse(error.retryable)

    def test_a_claimed_instance_is_undeployed_when_it_is_deleted(self):
        self.driver.claim(THEIRS, 'k-1')
        self.driver.delete(THEIRS)
        (sent,) = self.ironic.sent('PUT /v1/nodes/n-1/states/provision')
        self.assertEqual('deleted', sent['target'])
