"""The Ironic driver on the real Ironic, checked through kiln and through Ironic's API."""

from kiln.compute.goals import Until
from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.exceptions import InsufficientCapacity, InvalidBuildRequest
from kiln.models import State
from tests.functional.ironic.site import CLASS, PROPERTY, TRAIT, IronicCase


class Driver(IronicCase):
    def setUp(self):
        super().setUp()
        self.driver = self.open_driver()

    def active(self, **given):
        amphora_id = self.driver.build('bare_metal', **given)
        self.addCleanup(self.driver.delete, amphora_id)
        self.settled(self.driver, amphora_id)
        return amphora_id

    def test_a_node_has_everything_that_the_build_names(self):
        amphora_id = self.active(
            amphora_flavor=f'{CLASS}+{TRAIT}', keys=['ssh-ed25519 AAAA one'], name='wéb-1',
            config_drive_files={'/etc/kiln.conf': ('planted', 0o600, 'root')},
            user_data='#!/bin/sh\ntrue\n', build_key='k1', availability_zone='az1',
            metadata={'colour': 'grün'},
        )  # fmt: skip
        node, amphora = self.node_of(amphora_id), self.driver.get_amphora('wéb-1')
        self.assertEqual('az1', node['properties'][PROPERTY])
        self.assertEqual('wéb-1', node['instance_info']['display_name'])
        self.assertEqual('******', node['instance_info']['configdrive'])
        self.assertEqual([TRAIT], node['traits'])
        self.assertEqual({'colour': 'grün'}, dict(amphora.metadata))
        self.assertEqual(node['extra']['addresses'], [one.address for one in amphora.addresses])
        self.assertNotIn('planted', repr(amphora.raw))

    def test_a_node_is_powered_off_and_on_rebooted_and_rebuilt(self):
        amphora_id = self.active()
        self.driver.suspend(amphora_id)
        self.settled(self.driver, amphora_id, State.SUSPENDED)
        self.assertEqual('power off', self.node_of(amphora_id)['power_state'])
        for act in (self.driver.resume, self.driver.reboot, self.driver.rebuild):
            act(amphora_id)
            self.settled(self.driver, amphora_id)
        self.driver.reboot(amphora_id, hard=True)
        self.settled(self.driver, amphora_id)

    def test_what_does_not_exist_is_named_and_claims_nothing(self):
        for given, words in (
            ({'amphora_flavor': 'huge'}, 'no node has the resource class huge'),
            ({'availability_zone': 'az9'}, "zone 'az9' does not exist"),
            ({'image_id': '00000000-0000-0000-0000-000000000000'}, 'Glance has none'),
        ):
            with self.subTest(words), self.assertRaisesRegex(InvalidBuildRequest, words):
                self.driver.build('bare_metal', **given)
        self.assertEqual([], self.claims())

    def test_a_lack_of_nodes_leaves_no_claim(self):
        for uuid in self.nodes:
            self.ask('PUT', f'/nodes/{uuid}/maintenance', json={'reason': 'the test'})
            self.addCleanup(self.ask, 'DELETE', f'/nodes/{uuid}/maintenance')
        with self.assertRaises(InsufficientCapacity):
            self.driver.build('bare_metal')
        self.assertEqual([], self.claims())

    def test_a_deployment_that_fails_has_ironics_reason(self):
        compute = self.open_compute()
        build = compute.build('bare_metal', until=Until.ACTIVE, build_key='k1')
        self.assertIsNone(build.exception(120))
        amphora_id = build.result(1)
        self.addCleanup(self.driver.delete, amphora_id)
        standing = {one.amphora_id: one.standing for one in self.driver.machines()}
        self.assertIs(Standing.CLAIMED, standing[amphora_id])
        node = self.node_of(amphora_id)
        # A step that no interface has.
        steps = [{'interface': 'deploy', 'step': 'nonesuch', 'priority': 90, 'args': {}}]
        body = {'target': 'rebuild', 'deploy_steps': steps}
        self.ask('PUT', f'/nodes/{node["uuid"]}/states/provision', json=body)
        self.eventually(lambda: self.driver.status(amphora_id).state is not State.BUILDING)
        status = self.driver.status(amphora_id)
        if status.state is State.ERROR:
            self.assertIn('nonesuch', status.fault)
