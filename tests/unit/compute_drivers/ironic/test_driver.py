"""Requests of the driver beside claims: checks, power, and the nodes for their operator."""

from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.exceptions import (
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    ResourceNotFoundError,
)
from tests.unit.compute_drivers.ironic.test_claims import IMAGE, Case
from tests.unit.compute_drivers.ironic.written import written

POWER = 'PUT /v1/nodes/n-1/states/power'
MAINTENANCE = 'PUT /v1/nodes/n-1/maintenance'
LEFT = 'DELETE /v1/nodes/n-1/maintenance'
PROVISION = 'PUT /v1/nodes/n-1/states/provision'


class Checks(Case):
    def opened(self, *lines):
        url = f'baremetal_endpoint_override = {self.ironic.url}'
        driver = IronicDriver.open(
            written('auth_type = none', url, *lines), name='metal', owner='site'
        )
        self.addCleanup(driver.close)
        return driver

    def test_a_check_passes_where_nodes_have_the_defaults(self):
        health = self.opened('flavor = bm+CUSTOM_A', f'image = {IMAGE}').check()
        self.assertTrue(health.healthy)
        self.assertIn('microversion', health.detail)

    def test_a_check_needs_no_defaults(self):
        self.assertTrue(self.opened().check().healthy)

    def test_a_default_flavor_that_no_node_has_is_named(self):
        with self.assertRaisesRegex(InvalidRequest, "option flavor: no node has flavor 'gold'"):
            self.opened('flavor = gold').check()

    def test_a_default_zone_that_no_node_is_in_is_refused_with_those_that_there_are(self):
        with self.assertRaisesRegex(InvalidRequest, 'there are: east'):
            self.opened('availability_zone = north').check()

    def test_flavors_and_zones_are_those_of_the_nodes(self):
        self.driver.validate_flavor('bm')
        for wrong in ('gold', 'bm+CUSTOM_B'):
            with self.assertRaises(InvalidRequest):
                self.driver.validate_flavor(wrong)
        (zone,) = self.driver.list_zones()
        self.driver.validate_zone(zone)
        with self.assertRaises(InvalidRequest):
            self.driver.validate_zone('north')

    def test_a_build_without_a_flavor_or_an_image_is_refused_before_a_claim(self):
        for lines, lacking in ((('flavor = bm',), 'image'), ((f'image = {IMAGE}',), 'flavor')):
            self.driver = self.opened(*lines)
            with self.assertRaisesRegex(InvalidBuildRequest, f'it has no {lacking}'):
                self.build()
        self.assertEqual([], self.ironic.sent('POST /v1/allocations'))

    def test_a_name_of_a_key_pair_is_refused(self):
        with self.assertRaisesRegex(InvalidBuildRequest, 'Ironic keeps no key pairs'):
            self.build(keys=('mine',))


class Power(Case):
    def active(self, **node):
        built = self.build()
        self.ironic.nodes[0] |= {'provision_state': 'active', **node}
        return built

    def test_a_node_is_powered_off_once_and_on_again(self):
        built = self.active()
        self.driver.suspend(built)
        self.ironic.nodes[0]['power_state'] = 'power off'
        self.driver.suspend(built)
        self.driver.resume(built)
        targets = [one['target'] for one in self.ironic.sent(POWER)]
        self.assertEqual(['power off', 'power on'], targets)

    def test_what_runs_cannot_be_resumed(self):
        with self.assertRaises(NotSuspendedError):
            self.driver.resume(self.active())

    def test_what_is_being_powered_off_is_resumed_later(self):
        built = self.active(target_power_state='power off')
        with self.assertRaisesRegex(InstanceStateConflict, 'still being powered off') as caught:
            self.driver.resume(built)
        self.assertTrue(caught.exception.retryable)

    def test_a_reboot_is_soft_or_hard(self):
        built = self.active()
        self.driver.reboot(built)
        self.driver.reboot(built, hard=True)
        targets = [one['target'] for one in self.ironic.sent(POWER)]
        self.assertEqual(['soft rebooting', 'rebooting'], targets)

    def test_a_rebuild_from_another_image_writes_that_first(self):
        built = self.active()
        self.driver.rebuild(built, image_id=f'http://h/other#sha256={"1" * 64}')
        self.assertEqual('rebuild', self.ironic.sent(PROVISION)[-1]['target'])
        written = self.ironic.sent('PATCH /v1/nodes/n-1')[-1]
        self.assertIn('http://h/other', [one['value'] for one in written])

    def test_a_rebuild_from_an_iso_leaves_nothing_of_the_image_before(self):
        self.driver.rebuild(self.active(), image_id='http://h/live.iso')
        written = self.ironic.sent('PATCH /v1/nodes/n-1')[-1]
        values = {one['path'].rpartition('/')[2]: one['value'] for one in written}
        self.assertEqual('http://h/live.iso', values.pop('boot_iso'))
        self.assertEqual(
            dict.fromkeys(('image_source', 'image_os_hash_algo', 'image_os_hash_value')), values
        )


class Nodes(Case):
    def test_a_node_goes_into_maintenance_with_a_reason_and_back(self):
        self.driver.maintain('node-1', 'new disks')
        self.assertEqual([{'reason': 'new disks'}], self.ironic.sent(MAINTENANCE))
        self.driver.maintain('node-1', None)
        self.assertIn(LEFT, [what for what, _, _ in self.ironic.asked])

    def test_a_node_whose_cleaning_failed_is_given_back(self):
        self.ironic.nodes[0] |= {'provision_state': 'clean failed', 'maintenance': True}
        self.driver.release('node-1')
        self.assertTrue(self.ironic.sent(PROVISION))
        self.assertIn(LEFT, [what for what, _, _ in self.ironic.asked])

    def test_a_node_in_use_is_not_given_back(self):
        built = self.build()
        self.ironic.nodes[0]['provision_state'] = 'active'
        with self.assertRaisesRegex(InstanceStateConflict, f'in use as {built}'):
            self.driver.release('node-1')

    def test_a_node_at_work_is_given_back_later(self):
        self.ironic.nodes[0]['provision_state'] = 'cleaning'
        with self.assertRaisesRegex(InstanceStateConflict, 'it is cleaning') as caught:
            self.driver.release('node-1')
        self.assertTrue(caught.exception.retryable)

    def test_a_node_that_cannot_be_has_no_request(self):
        with self.assertRaises(ResourceNotFoundError):
            self.driver.maintain('a/../b', 'x')
