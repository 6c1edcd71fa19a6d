"""Heat compute driver on the real Heat, checked through kiln and through the services."""

import base64
import time
import uuid

from kiln.compute_drivers.heat.building.names import stack_name
from kiln.compute_drivers.heat.translate import LOST
from kiln.exceptions import (
    AuthenticationFailed,
    BuildConflict,
    BuildDiffers,
    BuildOutcomeUnknown,
    InstanceStateConflict,
    InvalidBuildRequest,
    ServiceUnavailable,
)
from kiln.models import State
from tests.functional.heat.compute_site import HeatCase

WAIT_S = 300
NOVA = {'endpoint_filter': {'service_type': 'compute'}}
HEAT = {'endpoint_filter': {'service_type': 'orchestration'}}


class StackCase(HeatCase):
    def setUp(self):
        super().setUp()
        self.driver = self.open_driver()

    def until(self, is_so, what):
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.3)

    def settled(self, amphora_id, driver=None):
        of = driver or self.driver
        self.until(lambda: of.status(amphora_id).state.settled, amphora_id)
        return of.status(amphora_id)

    def build(self, **given):
        """Build, and repeat it once as guards would: Heat can fail beside other work."""
        given = {'build_key': uuid.uuid4().hex, **given}
        try:
            return self.driver.build(**given)
        except BuildOutcomeUnknown:
            return self.driver.build(**given)

    def active(self, **given):
        amphora_id = self.build(**given)
        status = self.settled(amphora_id)
        self.assertIs(State.ACTIVE, status.state, status.fault)
        return amphora_id

    def gone(self, amphora_id):
        self.until(lambda: not self.driver.statuses([amphora_id]), amphora_id)

    def asked(self):
        """Return the requests that Heat got since the last forget()."""
        return [(one.method, one.path.partition('/kiln-')[0]) for one in self.proxy.requests]


class Requests(StackCase):
    def test_a_life_is_two_requests_to_heat_and_a_look_at_all_stacks_one(self):
        first = self.active()
        self.proxy.forget()
        second = self.build()
        self.assertEqual([('POST', '/stacks')], self.asked())
        self.settled(second)
        self.proxy.forget()
        found = {amphora.id: amphora.state for amphora in self.driver.list_amphorae()}
        self.assertEqual({first: State.ACTIVE, second: State.ACTIVE}, found)
        self.assertEqual(
            {first, second}, {one.amphora_id for one in self.driver.changes().statuses}
        )
        self.assertEqual([('GET', '/stacks')] * 2, self.asked())
        self.proxy.forget()
        self.driver.delete(first)
        self.assertEqual([('DELETE', '/stacks')], self.asked())
        self.driver.delete(second)
        self.gone(first)
        self.gone(second)
        # Heat lists a deleted stack for a moment.
        self.until(lambda: not self.own_stacks(), 'stacks are left')


class Building(StackCase):
    def test_the_server_has_everything_that_the_build_names_and_heat_shows_no_secret(self):
        group = self.driver.create_server_group('g', 'soft-anti-affinity')
        amphora_id = self.active(
            amphora_flavor='small', image_id='tiny', keys=['key1'], sec_groups=['default'],
            config_drive_files={'/etc/kiln.conf': ('hush-hush', 0o600, 'root')},
            user_data='#!/bin/sh\necho hush-hush\n', name='wéb-1', build_key='k1',
            availability_zone='az2', server_group_id=group.id, metadata={'get_param': 'grün'},
        )  # fmt: skip
        server_id = self.server_of(amphora_id)['id']
        server = self.admin.get(
            f'/servers/{server_id}', headers={'OpenStack-API-Version': 'compute 2.96'}, **NOVA
        ).json()['server']
        self.assertEqual(
            ('wéb-1', 'small', 'key1', 'az2', [group.id], 'grün'),
            (
                server['name'], server['flavor']['original_name'], server['key_name'],
                server['OS-EXT-AZ:availability_zone'], server['server_groups'],
                server['metadata']['get_param'],
            ),
        )  # fmt: skip
        sent = base64.b64decode(server['OS-EXT-SRV-ATTR:user_data']).decode()
        self.assertIn('echo hush-hush', sent)
        self.assertIn('"permissions": "0600"', sent)
        amphora = self.driver.get_amphora('wéb-1')
        self.assertEqual(
            (amphora_id, 'k1', 'small', 'tiny', 'az2', group.id, {'get_param': 'grün'}),
            (
                amphora.id, amphora.build_key, amphora.flavor, amphora.image_id,
                amphora.availability_zone, amphora.server_group_id, dict(amphora.metadata),
            ),
        )  # fmt: skip
        (stack,) = self.own_stacks()
        shown = self.session.get(f'/stacks/{stack["stack_name"]}/{stack["id"]}', **HEAT).text
        for told in (shown, repr(amphora), repr(amphora.raw)):
            self.assertNotIn('hush-hush', told)

    def test_a_build_of_another_process_is_found_again_and_compared(self):
        amphora_id = self.build(name='web-1', build_key='k1', amphora_flavor='tiny')
        other = self.open_driver()
        self.assertEqual(amphora_id, other.build(name='web-1', build_key='k1'))
        with self.assertRaises(BuildDiffers):
            other.build(name='web-1', build_key='k1', amphora_flavor='small')
        self.assertEqual('web-1', other.find_build('k1').name)
        self.assertEqual(1, len(self.own_stacks()))
        other.delete(amphora_id)

    def test_a_name_taken_by_somebody_elses_stack_is_refused_in_one_sentence(self):
        name = stack_name(self.owner, 'k1')
        made = self.make_stack(name)
        with self.assertRaises(BuildConflict) as caught:
            self.driver.build(name='web-1', build_key='k1')
        self.assertEqual(
            f'Cannot build web-1: stack {made} has the name {name}, and kiln did not make it. '
            f'Delete or rename that stack.',
            str(caught.exception),
        )
        self.assertIsNone(self.driver.find_build('k1'))
        self.assertEqual([], list(self.driver.list_amphorae()))

    def test_what_does_not_exist_is_refused_at_once(self):
        nothing = '5b0eb4a1-7ab2-4f26-9cd5-1f6a1e0f9a11'
        for wrong in (
            {'server_group_id': nothing}, {'port_ids': [nothing]}, {'network_ids': [nothing]},
            {'image_id': nothing}, {'availability_zone': 'az9'}, {'keys': ['none']},
        ):  # fmt: skip
            with self.subTest(wrong), self.assertRaises(InvalidBuildRequest):
                self.driver.build(**wrong)
        self.assertEqual([], self.own_stacks())


class Failing(StackCase):
    def test_no_room_and_no_quota_are_told_in_the_words_of_nova(self):
        full = self.build(amphora_flavor='impossible')
        status = self.settled(full)
        self.assertIs(State.ERROR, status.state)
        self.assertRegex(status.fault, '^No valid host was found')
        self.assertEqual('insufficient_capacity', status.fault_code)
        with self.assertRaises(InstanceStateConflict) as caught:
            self.driver.reboot(full)
        self.assertFalse(caught.exception.retryable)
        self.driver.delete(full)
        self.gone(full)

    def test_a_server_that_is_gone_is_an_error_and_its_stack_can_be_deleted(self):
        amphora_id = self.active()
        server = self.server_of(amphora_id)
        self.session.delete(f'/servers/{server["id"]}', **NOVA)
        self.until(lambda: self.driver.status(amphora_id).fault == LOST, amphora_id)
        self.assertEqual(
            [(amphora_id, State.ERROR)],
            [(one.id, one.state) for one in self.driver.list_amphorae()],
        )
        self.driver.delete(amphora_id)
        self.gone(amphora_id)

    def test_what_holds_a_stack_is_told_and_the_next_delete_goes_on(self):
        amphora_id = self.active()
        path = f'/servers/{self.server_of(amphora_id)["id"]}/action'
        self.admin.post(path, json={'lock': None}, **NOVA)
        self.driver.delete(amphora_id)
        self.until(lambda: self.driver.status(amphora_id).state is State.ERROR, amphora_id)
        self.assertRegex(
            self.driver.status(amphora_id).fault, r'^Heat could not delete it: .* is locked'
        )
        self.admin.post(path, json={'unlock': None}, **NOVA)
        self.driver.delete(amphora_id)
        self.gone(amphora_id)


class Connecting(StackCase):
    def test_a_cloud_without_heat_says_so(self):
        driver = self.open_driver(orchestration_endpoint_override=None, region_name='Nowhere')
        with self.assertRaises(ServiceUnavailable) as caught:
            driver.status('5b0eb4a1-7ab2-4f26-9cd5-1f6a1e0f9a11')
        self.assertFalse(caught.exception.retryable)
        self.assertIn("the catalogue has no Heat in region 'Nowhere'", str(caught.exception))

    def test_wrong_credentials_are_told(self):
        driver = self.open_driver(password='wrong')
        with self.assertRaisesRegex(AuthenticationFailed, 'Keystone refuses the credentials'):
            driver.build()
