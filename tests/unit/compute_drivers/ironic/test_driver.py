"""The Ironic driver on a played Ironic: what the conformance kit does not show."""

from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.compute_drivers.ironic import claims
from kiln.exceptions import (
    BuildConflict,
    BuildDiffers,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    Outcome,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.models import State
from tests.unit.compute_drivers.ironic.case import IMAGE, IronicCase
from tests.unit.compute_drivers.ironic.played import CLASS, TRAIT

CLAIM, PROVISION = r'/v1/allocations', '/states/provision$'


class Claiming(IronicCase):
    def test_the_uuid_of_a_claim_follows_from_owner_and_key(self):
        amphora_id = self.build()
        self.assertEqual([claims.uuid_of('site', 'k1')], list(self.ironic.allocations))
        self.assertNotEqual(claims.uuid_of('site', 'k1'), claims.uuid_of('Site', 'k1'))
        self.assertTrue(amphora_id.startswith(claims.uuid_of('site', 'k1')))

    def test_a_key_that_builds_again_has_another_id_with_the_same_claim(self):
        first = self.build()
        self.driver.status(first)
        self.driver.delete(first)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(first)
        second = self.build()
        self.assertNotEqual(first, second)
        self.assertEqual(first.partition('.')[0], second.partition('.')[0])

    def test_a_new_build_is_four_requests_once_its_node_is_found(self):
        self.driver.check()
        self.ironic.asked.clear()
        self.build(build_key=None)
        self.assertEqual(
            ['POST', 'GET', 'GET', 'PATCH', 'PATCH', 'PUT'],
            [one[0] for one in self.ironic.asked],
        )

    def test_traits_are_those_of_the_node(self):
        node = self.node_of(self.build(amphora_flavor=f'{CLASS}+{TRAIT}'))
        self.assertIn(TRAIT, node['traits'])
        self.assertEqual([TRAIT], node['instance_info']['traits'])

    def test_a_zone_is_the_conductor_group_or_a_property(self):
        self.assertEqual(
            'az1', self.node_of(self.build(availability_zone='az1'))['conductor_group']
        )
        for nth, node in enumerate(self.ironic.nodes.values()):
            node['properties'] = {'rack': f'r{nth % 3}'}
        driver = self.open(zone_property='rack')
        self.assertEqual(['r0', 'r1', 'r2'], list(driver.list_zones()))
        built = self.build(driver, build_key='k2', availability_zone='r2')
        self.assertEqual('r2', self.node_of(built)['properties']['rack'])

    def test_a_flavor_a_zone_and_an_image_that_do_not_exist_are_named(self):
        for given, words in (
            ({'amphora_flavor': 'huge'}, 'no node has the resource class huge'),
            ({'amphora_flavor': f'{CLASS}+CUSTOM_X'}, 'the traits CUSTOM_X'),
            ({'availability_zone': 'az9'}, "zone 'az9' does not exist; the zones are az0, az1"),
            ({'image_id': 'debian'}, 'is not a URL, and this backend has no Glance'),
        ):
            with self.subTest(words), self.assertRaisesRegex(InvalidBuildRequest, words):
                self.build(**given)
            self.assertEqual({}, self.ironic.allocations)

    def test_a_build_without_flavor_or_image_is_refused(self):
        for option in ('flavor', 'image'):
            with self.assertRaisesRegex(InvalidBuildRequest, f'has no {option}'):
                self.build(self.open(**{option: None}))

    def test_a_lack_of_nodes_leaves_no_claim(self):
        for node in self.ironic.nodes.values():
            node['maintenance'] = True
        with self.assertRaisesRegex(InsufficientCapacity, 'no free node has the resource class'):
            self.build()
        self.assertEqual({}, self.ironic.allocations)

    def test_a_claim_that_is_never_processed_is_an_unknown_outcome(self):
        self.ironic.idle = True
        driver = self.open(claim_timeout=0.1)
        driver.clock = self.clock
        with self.assertRaisesRegex(BuildOutcomeUnknown, 'a conductor might be down'):
            self.advancing(lambda: self.build(driver))

    def advancing(self, act):
        sleep = self.clock.sleep
        self.clock.sleep = self.clock.advance
        try:
            return act()
        finally:
            self.clock.sleep = sleep

    def test_a_refusal_of_the_deployment_gives_the_node_back(self):
        self.ironic.fail('PUT', PROVISION, 400, 'Failed to validate deploy or power info')
        with self.assertRaisesRegex(InvalidBuildRequest, 'Failed to validate'):
            self.build()
        self.assertEqual({}, self.ironic.allocations)
        for node in self.ironic.nodes.values():
            self.assertIsNone(node['instance_uuid'])
            self.assertNotIn('image_source', node['instance_info'])

    def test_a_node_that_a_task_holds_is_waited_for(self):
        claim = self.ironic._allocate

        def locked(made):
            claim(made)
            self.ironic.locked.add(made['node_uuid'])

        self.ironic._allocate = locked

        def free(seconds):
            self.clock.advance(seconds)
            self.ironic.locked.clear()

        self.clock.sleep = free
        amphora_id = self.build()
        self.assertIs(State.ACTIVE, self.driver.status(amphora_id).state)

    def test_a_node_that_stays_locked_is_given_up(self):
        claim = self.ironic._allocate

        def locked(made):
            claim(made)
            self.ironic.locked.add(made['node_uuid'])

        self.ironic._allocate = locked
        with self.assertRaises(BuildOutcomeUnknown):
            self.advancing(self.build)

    def test_addresses_are_those_that_the_operator_wrote(self):
        for node in self.ironic.nodes.values():
            node['extra'] = {'addresses': ['2001:db8::1', 'nowhere', '192.0.2.7']}
        amphora = self.driver.get_amphora(amphora_id=self.build())
        self.assertEqual(['2001:db8::1', '192.0.2.7'], [one.address for one in amphora.addresses])

    def test_the_config_drive_is_not_in_what_the_driver_returns(self):
        amphora_id = self.build(user_data='#!/bin/sh\necho planted\n')
        amphora = self.driver.get_amphora(amphora_id=amphora_id)
        self.assertNotIn('planted', repr((amphora.raw, amphora)))


class Crashes(IronicCase):
    """A process that built has ended at some request; the next build continues."""

    nodes = 24

    def test_a_build_ends_as_wanted_wherever_the_process_ended(self):
        for nth, (method, path) in enumerate(
            (('POST', CLAIM), ('GET', '/v1/nodes/'), ('PATCH', CLAIM), ('PATCH', '/v1/nodes/'),
             ('PUT', PROVISION))
        ):  # fmt: skip
            for after in (False, True):
                with self.subTest(method, path=path, after=after):
                    key = f'k-{nth}-{after}'
                    self.ironic.fail(method, path, 502, None, after=after, times=1)
                    # Neither can the process clean up.
                    self.ironic.fail('DELETE', '', 503, times=9)
                    try:
                        first = self.build(build_key=key)
                    except (BuildOutcomeUnknown, ServiceUnavailable):
                        first = None
                    self.ironic.faults.clear()
                    second = self.build(self.open(), build_key=key)
                    self.assertIn(first, (None, second))
                    self.assertIs(State.ACTIVE, self.driver.status(second).state)
                    self.assertEqual(1, len(self.ironic.allocations))
                    self.driver.delete(second)
                    with self.assertRaises(InstanceNotFoundError):
                        self.driver.status(second)

    def test_a_mere_claim_is_not_found_as_a_build_but_is_listed(self):
        self.claimed()
        self.assertIsNone(self.driver.find_build('k1'))
        (listed,) = self.driver.list_amphorae()
        self.assertEqual((State.PENDING, False), (listed.state, listed.served))
        self.clock.advance(61)
        (listed,) = self.driver.list_amphorae()
        self.assertIs(State.ERROR, listed.state)
        self.driver.delete(listed.id)
        self.assertEqual({}, self.ironic.allocations)

    def test_a_mere_claim_of_another_request_differs(self):
        self.claimed()
        with self.assertRaises(BuildDiffers):
            self.build(name='other')

    def claimed(self):
        self.ironic.fail('PATCH', '/v1/nodes/', 503)
        self.ironic.fail('DELETE', '', 503)
        with self.assertRaises(BuildOutcomeUnknown):
            self.build()
        self.ironic.faults.clear()

    def test_a_claim_in_error_is_made_again(self):
        self.ironic.full = 1
        self.ironic.fail('DELETE', CLAIM, 503)
        with self.assertRaises(ServiceUnavailable):
            self.build()
        self.assertIs(State.ACTIVE, self.driver.status(self.build()).state)


class Deletes(IronicCase):
    def test_a_delete_during_a_deployment_is_accepted_and_shown(self):
        amphora_id = self.deploying()
        self.driver.delete(amphora_id)
        self.assertIs(State.DELETING, self.driver.status(amphora_id).state)
        self.assertIs(State.DELETING, self.driver.find_build('k1').state)
        with self.assertRaisesRegex(BuildConflict, 'still being deleted'):
            self.build()

    def test_another_process_finishes_a_delete_that_it_sees(self):
        amphora_id = self.deploying()
        self.driver.delete(amphora_id)
        self.driver.close()
        self.ironic.held.clear()
        other = self.open()
        for _ in range(1000):
            if not list(other.list_amphorae()):
                break
            self.clock.advance(1)
        self.assertEqual({}, self.ironic.allocations)

    def deploying(self):
        self.ironic.stalls = 1
        return self.build()

    def test_a_delete_that_is_refused_for_good_says_so(self):
        amphora_id = self.build()
        self.driver.status(amphora_id)
        self.ironic.fail('PUT', PROVISION, 400, 'Node is protected')
        with self.assertRaisesRegex(DeleteFailed, 'protected') as caught:
            self.driver.delete(amphora_id)
        self.assertIs(Outcome.NOT_APPLIED, caught.exception.outcome)
        self.assertIs(State.ACTIVE, self.driver.status(amphora_id).state)

    def test_a_delete_does_not_wait_for_the_cleaning(self):
        amphora_id = self.build()
        self.driver.status(amphora_id)
        self.driver.delete(amphora_id)
        node = self.node_of(amphora_id)
        # The node is read once until it is given back.
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(amphora_id)
        self.assertIn(node['provision_state'], ('cleaning', 'available'))


class Actions(IronicCase):
    def active(self):
        amphora_id = self.build()
        self.driver.status(amphora_id)
        return amphora_id

    def test_power_is_what_suspend_resume_and_reboot_use(self):
        amphora_id = self.active()
        node = self.node_of(amphora_id)
        for act, target in (
            (self.driver.suspend, 'power off'), (self.driver.resume, 'power on'),
            (self.driver.reboot, 'soft rebooting'),
            (lambda one: self.driver.reboot(one, hard=True), 'rebooting'),
        ):  # fmt: skip
            act(amphora_id)
            self.assertEqual(target, node['last_power_target'])
            self.driver.status(amphora_id)

    def test_a_node_without_soft_reboot_says_so(self):
        amphora_id = self.active()
        self.node_of(amphora_id)['driver'] = 'ipmi'
        with self.assertRaisesRegex(UnsupportedOperation, 'Reboot it hard'):
            self.driver.reboot(amphora_id)

    def test_what_runs_is_not_resumed(self):
        with self.assertRaises(NotSuspendedError):
            self.driver.resume(self.active())

    def test_a_node_that_is_off_is_neither_rebooted_nor_rebuilt(self):
        amphora_id = self.active()
        self.driver.suspend(amphora_id)
        self.driver.status(amphora_id)
        for act in (self.driver.reboot, self.driver.rebuild):
            with self.assertRaisesRegex(InstanceStateConflict, 'Resume it first') as caught:
                act(amphora_id)
            self.assertFalse(caught.exception.retryable)

    def test_a_rebuild_from_an_image_without_a_checksum_forgets_the_old_one(self):
        amphora_id = self.active()
        self.driver.rebuild(amphora_id, image_id='http://images.example/other.raw')
        info = self.node_of(amphora_id)['instance_info']
        self.assertEqual('http://images.example/other.raw', info['image_source'])
        self.assertNotIn('image_os_hash_value', info)

    def test_a_rebuild_that_fails_can_be_rebuilt(self):
        amphora_id = self.active()
        self.ironic.deploy_fault = 'out of luck'
        self.driver.rebuild(amphora_id)
        status = self.driver.status(amphora_id)
        self.assertEqual((State.ERROR, 'out of luck'), (status.state, status.fault))
        self.driver.rebuild(amphora_id)
        self.assertIs(State.ACTIVE, self.driver.status(amphora_id).state)


class Networks(IronicCase):
    """With Neutron beside Ironic."""

    def open(self, **given):
        given = {'use_neutron': True, 'network_endpoint_override': self.ironic.url, **given}
        return super().open(**given)

    def port(self):
        return self.ironic._new_port({'network_id': 'net-1'})[1]['port']['id']

    def test_a_node_has_the_ports_and_networks_of_its_build_in_this_order(self):
        port_id = self.port()
        amphora_id = self.build(port_ids=[port_id], network_ids=['net-2=198.51.100.77'])
        node, amphora = self.node_of(amphora_id), self.driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual(port_id, node['vifs'][0])
        self.assertEqual(
            [('net-1', port_id), ('net-2', node['vifs'][1])],
            [(one.network_id, one.port_id) for one in amphora.addresses],
        )
        self.assertEqual('198.51.100.77', amphora.addresses[1].address)

    def test_the_networks_of_the_backend_are_those_of_builds_that_name_none(self):
        amphora_id = self.build(self.open(networks=['net-2']))
        (port_id,) = self.node_of(amphora_id)['vifs']
        self.assertEqual('net-2', self.ironic.ports[port_id]['network_id'])

    def test_a_node_with_no_mac_address_is_named_and_given_back(self):
        for node in self.ironic.nodes.values():
            node['cards'] = 0
        with self.assertRaisesRegex(InsufficientCapacity, 'node node-0 has no MAC address: enrol'):
            self.build(network_ids=['net-1'])
        self.assertEqual(({}, {}), (self.ironic.allocations, self.ironic.ports))

    def test_a_node_with_too_few_network_cards_is_named(self):
        for node in self.ironic.nodes.values():
            node['cards'] = 1
        with self.assertRaisesRegex(InsufficientCapacity, 'node-0 has no network card for it'):
            self.build(network_ids=['net-1', 'net-2'])
        self.assertEqual([], [node for node in self.ironic.nodes.values() if node['vifs']])

    def test_a_build_that_is_continued_uses_the_ports_that_it_had(self):
        self.ironic.fail('PUT', PROVISION, 503)
        self.ironic.fail('DELETE', '', 503, times=9)
        with self.assertRaises(BuildOutcomeUnknown):
            self.build(network_ids=['net-1'])
        self.ironic.faults.clear()
        before = set(self.ironic.ports)
        amphora_id = self.build(self.open(), network_ids=['net-1'])
        self.assertEqual(before, set(self.ironic.ports))
        self.assertEqual(before, set(self.node_of(amphora_id)['vifs']))

    def test_a_delete_removes_kilns_ports_and_frees_those_of_others(self):
        port_id = self.port()
        amphora_id = self.build(port_ids=[port_id], network_ids=['net-1'])
        self.driver.status(amphora_id)
        self.assertEqual(2, len(self.ironic.ports))
        self.driver.delete(amphora_id)
        self.assertEqual([port_id], list(self.ironic.ports))
        self.assertEqual('', self.ironic.ports[port_id]['device_id'])

    def test_ports_that_cannot_be_deleted_are_left_to_the_sweep(self):
        amphora_id = self.build(network_ids=['net-1'])
        self.driver.status(amphora_id)
        self.ironic.fail('DELETE', '/v2.0/ports', 503)
        self.driver.delete(amphora_id)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(amphora_id)
        (left,) = self.driver.list_resources()
        self.driver.delete_resource(left)
        self.assertEqual({}, self.ironic.ports)

    def test_without_neutron_networks_are_refused(self):
        driver = self.open(use_neutron=False)
        with self.assertRaisesRegex(InvalidBuildRequest, 'network_ids'):
            self.build(driver, network_ids=['net-1'])
        with self.assertRaises(UnsupportedOperation):
            driver.attach_port('x', 'y')


class Reasons(IronicCase):
    def test_the_history_of_a_node_has_the_reason_that_its_row_lacks(self):
        amphora_id = self.build()
        node = self.node_of(amphora_id)
        node['provision_state'], node['last_error'] = 'deploy failed', None
        self.ironic.histories[node['uuid']] = [
            {'severity': 'ERROR', 'event': 'the first'},
            {'severity': 'ERROR', 'event': 'the last'}, {'severity': 'INFO', 'event': 'nothing'},
        ]  # fmt: skip
        for seen in (self.driver.status(amphora_id), *self.driver.list_amphorae()):
            self.assertEqual('the last', seen.fault)

    def test_an_ironic_without_history_has_no_reason(self):
        self.ironic.versions = ('1.1', '1.60')
        driver = self.open()
        amphora_id = self.build(driver)
        node = self.node_of(amphora_id)
        node['provision_state'], node['last_error'] = 'deploy failed', None
        self.assertIn('gives no reason', driver.status(amphora_id).fault)
        self.assertEqual(0, self.ironic.count('GET', 'history'))


class Pools(IronicCase):
    def test_nodes_are_listed_with_what_keeps_them_from_use(self):
        amphora_id = self.build(name='web-1')
        self.driver.status(amphora_id)
        nodes = list(self.ironic.nodes.values())
        nodes[1] |= {
            'provision_state': 'clean failed',
            'last_error': 'Timeout',
            'maintenance': True,
        }
        nodes[2] |= {'maintenance': True, 'maintenance_reason': 'new disks'}
        nodes[3] |= {'provision_state': 'manageable'}
        nodes[4] |= {'provision_state': 'cleaning'}
        self.ironic.held.add(nodes[4]['uuid'])
        found = {one.name: (one.standing, one.reason) for one in self.driver.machines()}
        self.assertEqual(
            {
                'node-0': (Standing.CLAIMED, None),
                'node-1': (Standing.UNWIPED, 'Timeout'),
                'node-2': (Standing.MAINTENANCE, 'new disks'),
                'node-3': (
                    Standing.MAINTENANCE, 'It is manageable; Ironic must make it available.',
                ),
                'node-4': (Standing.UNWIPED, 'It is cleaning.'),
                'node-5': (Standing.FREE, None),
            },
            found,
        )  # fmt: skip
        claimed = next(one for one in self.driver.machines() if one.amphora_id)
        self.assertEqual((amphora_id, 'web-1'), (claimed.amphora_id, claimed.amphora_name))

    def test_a_node_is_put_into_maintenance_and_out_of_it(self):
        node = next(iter(self.ironic.nodes.values()))
        for _ in range(2):
            self.driver.maintain('node-0', 'new disks')
        self.assertEqual((True, 'new disks'), (node['maintenance'], node['maintenance_reason']))
        self.driver.maintain('node-0', None)
        self.assertFalse(node['maintenance'])

    def test_a_node_whose_cleaning_failed_is_cleaned_again(self):
        node = next(iter(self.ironic.nodes.values()))
        node |= {'provision_state': 'clean failed', 'maintenance': True}
        self.driver.release('node-0')
        self.assertEqual(('cleaning', False), (node['provision_state'], node['maintenance']))
        self.driver.release('node-0')

    def test_a_node_in_use_is_not_released(self):
        self.driver.status(self.build())
        with self.assertRaises(InstanceStateConflict):
            self.driver.release('node-0')

    def test_a_node_that_does_not_exist_is_named(self):
        for act in (self.driver.release, lambda name: self.driver.maintain(name, 'x')):
            with self.assertRaises(ResourceNotFoundError):
                act('node-0/maintenance')


class Validation(IronicCase):
    def test_what_exists_is_valid(self):
        self.driver.validate_flavor(f'{CLASS}+{TRAIT}')
        self.driver.validate_zone('az0')
        self.driver.validate_image(IMAGE)

    def test_what_does_not_exist_is_refused(self):
        for check, name in (
            (self.driver.validate_flavor, 'huge'), (self.driver.validate_zone, 'az9'),
            (self.driver.validate_image, 'debian'),
        ):  # fmt: skip
            with self.assertRaises(InvalidRequest):
                check(name)
