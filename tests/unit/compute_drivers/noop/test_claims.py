"""Machines of nobody in the simulated cloud, and their claims."""

from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.exceptions import BuildConflict, InvalidBuildRequest, InvalidRequest
from kiln.models import State
from tests.unit.compute_drivers.noop.cloud_case import CloudCase


class Unowned(CloudCase):
    def test_a_machine_made_by_hand_runs_and_belongs_to_nobody(self):
        driver = self.driver()
        amphora_id = driver.cloud.make_unowned('by-hand', metadata={'rack': '7'})
        found = driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual(
            ('by-hand', State.ACTIVE, True, None, None),
            (found.name, found.state, found.served, found.owner, found.build_key),
        )
        self.assertEqual({'rack': '7'}, dict(found.metadata))
        self.assertEqual(1, len(found.addresses))
        self.assertEqual([], list(driver.list_amphorae()))
        self.assertEqual((), driver.changes().statuses)
        self.assertEqual([], list(driver.list_resources()))

    def test_two_can_have_one_name_and_what_does_not_exist_is_refused(self):
        cloud = self.driver(flavors=['small']).cloud
        self.assertNotEqual(cloud.make_unowned('by-hand'), cloud.make_unowned('by-hand'))
        with self.assertRaisesRegex(InvalidBuildRequest, 'flavor'):
            cloud.make_unowned('by-hand', flavor='huge')
        self.assertEqual(2, cloud.count())


class Claims(CloudCase):
    def test_a_claim_is_a_change(self):
        driver = self.driver()
        amphora_id = driver.cloud.make_unowned('by-hand')
        cursor = driver.changes().cursor
        driver.claim(amphora_id, 'k')
        self.assertEqual([amphora_id], [one.amphora_id for one in driver.changes(cursor).statuses])

    def test_a_repeated_claim_is_not_a_change(self):
        driver = self.driver()
        amphora_id = driver.cloud.make_unowned('by-hand')
        driver.claim(amphora_id, 'k')
        cursor = driver.changes().cursor
        driver.claim(amphora_id, 'k')
        self.assertEqual((), driver.changes(cursor).statuses)

    def test_a_twin_without_a_key_can_be_claimed(self):
        driver = self.driver()
        driver.cloud.faults.add(Fault(call='build', action=Action.DUPLICATE_NAME, times=1))
        driver.build(name='web', build_key='k')
        (twin,) = [one for one in driver.list_amphorae() if one.build_key is None]
        with self.assertRaises(BuildConflict):
            driver.claim(twin.id, 'k')
        driver.claim(twin.id, 'other')
        self.assertEqual(twin.id, driver.find_build('other').id)

    def test_of_two_sites_the_first_has_the_machine(self):
        driver = self.driver()
        other = self.driver(owner='other', cloud=driver.cloud)
        amphora_id = driver.cloud.make_unowned('by-hand')
        other.claim(amphora_id, 'k')
        with self.assertRaisesRegex(InvalidRequest, "it belongs to site 'other'"):
            driver.claim(amphora_id, 'k')
        self.assertEqual('other', driver.get_amphora(amphora_id=amphora_id).owner)
