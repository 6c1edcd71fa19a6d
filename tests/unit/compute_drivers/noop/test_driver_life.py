"""Actions on built amphorae and their ports in the simulated cloud."""

from kiln.exceptions import (
    BuildConflict,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    NotSuspendedError,
    ResourceNotFoundError,
)
from kiln.models import Resource, State
from tests.unit.compute_drivers.noop.cloud_case import CloudCase


class LifeTest(CloudCase):
    def test_a_deleted_amphora_disappears_for_good(self):
        driver = self.driver(delete_s=5)
        amphora_id = driver.build(name='x', build_key='k')
        driver.delete(amphora_id)
        status = driver.status(amphora_id)
        self.assertEqual((status.state, status.task_state), (State.DELETING, 'deleting'))
        driver.delete(amphora_id)
        self.clock.advance(5)
        for look in (driver.status, lambda i: driver.get_amphora(amphora_id=i)):
            with self.assertRaises(InstanceNotFoundError) as caught:
                look(amphora_id)
            self.assertEqual(caught.exception.amphora_id, amphora_id)
        self.assertIsNone(driver.find_build('k'))
        self.assertEqual(list(driver.list_amphorae()), [])
        self.assertEqual(driver.statuses([amphora_id]), {})
        driver.delete(amphora_id)
        self.assertNotEqual(driver.build(build_key='k'), amphora_id)

    def test_a_delete_in_progress_that_is_repeated_ends_when_the_first_does(self):
        driver = self.driver(delete_s=10)
        amphora_id = driver.build()
        driver.delete(amphora_id)
        self.clock.advance(6)
        driver.delete(amphora_id)
        self.clock.advance(4)
        self.assertRaises(InstanceNotFoundError, driver.status, amphora_id)

    def test_an_action_of_a_second_is_not_over_at_once(self):
        driver = self.driver(suspend_s=1)
        amphora_id = driver.build()
        driver.suspend(amphora_id)
        self.assertIs(self.state(driver, amphora_id), State.ACTIVE)
        self.clock.advance(1)
        self.assertIs(self.state(driver, amphora_id), State.SUSPENDED)

    def test_an_id_with_a_number_beyond_those_of_sqlite_is_not_found(self):
        driver = self.driver()
        self.assertRaises(InstanceNotFoundError, driver.status, driver.cloud.store.id_of(1 << 63))

    def test_unknown_ids_are_not_found(self):
        driver = self.driver()
        real = driver.build()
        prefix = real[:24]
        for id_ in ('x', 'a' * 36, f'{prefix}+00000000001', f'{real}0', prefix + 'f' * 20):
            with self.subTest(id_), self.assertRaises(InstanceNotFoundError):
                driver.status(id_)

    def test_a_delete_ends_an_unfinished_build(self):
        driver = self.driver(build_s=30, delete_s=1)
        amphora_id = driver.build()
        driver.delete(amphora_id)
        self.clock.advance(1)
        self.assertEqual(driver.cloud.count(), 0)
        self.clock.advance(60)
        self.assertEqual(driver.cloud.count(), 0)

    def test_suspend_and_resume_take_time_and_are_repeatable(self):
        driver = self.driver(suspend_s=2, resume_s=3)
        amphora_id = driver.build()
        driver.suspend(amphora_id)
        driver.suspend(amphora_id)
        self.assertFalse(driver.status(amphora_id).ready)
        self.clock.advance(2)
        self.assertIs(self.state(driver, amphora_id), State.SUSPENDED)
        driver.suspend(amphora_id)
        driver.resume(amphora_id)
        driver.resume(amphora_id)
        self.assertEqual(driver.status(amphora_id).task_state, 'resuming')
        self.clock.advance(3)
        self.assertTrue(driver.status(amphora_id).ready)

    def test_only_a_suspended_amphora_can_be_resumed(self):
        driver = self.driver()
        amphora_id = driver.build()
        with self.assertRaises(NotSuspendedError):
            driver.resume(amphora_id)

    def test_an_action_on_a_busy_amphora_is_refused_with_advice_to_wait(self):
        driver = self.driver(build_s=10)
        amphora_id = driver.build()
        for act in (
            driver.suspend,
            driver.resume,
            driver.reboot,
            driver.rebuild,
            lambda i: driver.attach_port(i, 'p'),
            lambda i: driver.attach_network(i, 'n'),
        ):
            with self.assertRaises(InstanceStateConflict) as caught:
                act(amphora_id)
            self.assertIs(True, caught.exception.retryable)
            self.assertEqual(amphora_id, caught.exception.amphora_id)

    def test_a_refusal_names_the_allowed_states(self):
        driver = self.driver()
        amphora_id = driver.build()
        driver.suspend(amphora_id)
        for act in (driver.reboot, driver.rebuild, lambda i: driver.attach_port(i, 'p')):
            with self.assertRaises(InstanceStateConflict) as caught:
                act(amphora_id)
            self.assertFalse(caught.exception.retryable)
            self.assertEqual(amphora_id, caught.exception.amphora_id)
            self.assertIn('active', str(caught.exception))

    def test_a_soft_reboot_needs_a_running_system_and_a_hard_one_does_not(self):
        driver = self.driver(reboot_s=4)
        amphora_id = driver.build()
        driver.reboot(amphora_id)
        self.clock.advance(4)
        driver.cloud.crash(amphora_id, 'kernel panic')
        with self.assertRaises(InstanceStateConflict):
            driver.reboot(amphora_id)
        driver.reboot(amphora_id, hard=True)
        self.assertEqual(driver.status(amphora_id).fault, 'kernel panic')
        self.clock.advance(4)
        self.assertTrue(driver.status(amphora_id).ready)
        self.assertIsNone(driver.status(amphora_id).fault)

    def test_a_reboot_in_progress_refuses_every_other_action(self):
        driver = self.driver(reboot_s=4)
        amphora_id = driver.build()
        driver.reboot(amphora_id)
        for act in (driver.reboot, driver.suspend, driver.resume, driver.rebuild):
            self.assertRaises(InstanceStateConflict, act, amphora_id)

    def test_a_hard_reboot_is_shown_as_one(self):
        driver = self.driver(reboot_s=4)
        amphora_id = driver.build()
        driver.reboot(amphora_id, hard=True)
        self.assertEqual('rebooting_hard', driver.status(amphora_id).task_state)

    def test_rebuilding_keeps_id_and_ports_and_takes_the_new_image(self):
        driver = self.driver(rebuild_s=10, images=['old', 'new'])
        amphora_id = driver.build(image_id='old', network_ids=['n'])
        before = driver.get_amphora(amphora_id=amphora_id)
        driver.rebuild(amphora_id, image_id='new')
        self.assertIs(self.state(driver, amphora_id), State.BUILDING)
        self.clock.advance(10)
        after = driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual((after.state, after.image_id), (State.ACTIVE, 'new'))
        self.assertEqual(after.addresses, before.addresses)
        driver.rebuild(amphora_id)
        self.assertEqual(driver.get_amphora(amphora_id=amphora_id).image_id, 'new')
        with self.assertRaises(InvalidRequest):
            driver.rebuild(amphora_id, image_id='none')

    def test_changes_of_missing_amphorae_are_not_found(self):
        driver = self.driver()
        for act in (
            driver.suspend,
            driver.resume,
            driver.reboot,
            driver.rebuild,
            driver.console_log,
            lambda i: driver.attach_port(i, 'p'),
            lambda i: driver.detach_port(i, 'p'),
            lambda i: driver.attach_network(i, 'n'),
            lambda i: driver.detach_network(i, 'n'),
            driver.cloud.stop,
        ):
            with self.assertRaises(InstanceNotFoundError):
                act('nobody')

    def test_the_console_shows_each_boot_and_its_last_lines(self):
        driver = self.driver(build_s=5)
        amphora_id = driver.build(name='web', network_ids=['n'])
        self.assertEqual(driver.console_log(amphora_id), '')
        self.clock.advance(5)
        once = driver.console_log(amphora_id)
        self.assertIn('(boot 1)', once)
        self.assertNotIn('(boot 2)', once)
        self.assertIn('n: 127.', once)
        self.assertEqual(driver.console_log(amphora_id, lines=1), 'web login:\n')
        driver.reboot(amphora_id)
        self.assertIn('(boot 2)', driver.console_log(amphora_id))
        driver.cloud.crash(amphora_id, 'out of memory')
        self.assertIn('out of memory', driver.console_log(amphora_id, lines=1))

    def test_changes_outside_of_kiln_are_seen(self):
        driver = self.driver()
        amphora_id = driver.build()
        driver.cloud.stop(amphora_id)
        self.assertIs(self.state(driver, amphora_id), State.STOPPED)
        driver.cloud.start(amphora_id)
        self.assertIs(self.state(driver, amphora_id), State.ACTIVE)
        driver.cloud.crash(amphora_id)
        self.assertIs(self.state(driver, amphora_id), State.ERROR)
        driver.cloud.vanish(amphora_id)
        with self.assertRaises(InstanceNotFoundError):
            driver.status(amphora_id)


class PortTest(CloudCase):
    def test_a_port_in_use_cannot_be_used_again_until_it_is_free(self):
        driver = self.driver()
        first = driver.build(port_ids=['p'])
        with self.assertRaises(BuildConflict) as caught:
            driver.build(port_ids=['q', 'p'])
        self.assertEqual(caught.exception.resource_id, 'p')
        second = driver.build()
        with self.assertRaises(InstanceStateConflict) as caught:
            driver.attach_port(second, 'p')
        self.assertEqual(
            ('p', second), (caught.exception.resource_id, caught.exception.amphora_id)
        )
        driver.detach_port(first, 'p')
        driver.attach_port(second, 'p')
        driver.delete(second)
        driver.build(port_ids=['p', 'q'])

    def test_a_refused_build_leaves_nothing(self):
        driver = self.driver()
        driver.build(port_ids=['p'])
        with self.assertRaises(BuildConflict):
            driver.build(port_ids=['q', 'p'], network_ids=['n'], build_key='k')
        self.assertEqual(driver.cloud.count(), 1)
        self.assertIsNone(driver.find_build('k'))
        self.assertEqual(list(driver.list_resources()), [])
        driver.build(port_ids=['q'])

    def test_attaching_a_port_is_repeatable(self):
        driver = self.driver(ports={'p': 'net-7'})
        amphora_id = driver.build(network_ids=['n'])
        once = driver.attach_port(amphora_id, 'p')
        driver.suspend(amphora_id)
        self.assertEqual((amphora_id, 'p'), (once.amphora_id, once.port_id))
        self.assertEqual(driver.attach_port(amphora_id, 'p'), once)
        self.assertEqual(once.network_id, 'net-7')
        driver.resume(amphora_id)
        driver.detach_port(amphora_id, 'p')
        driver.attach_port(amphora_id, 'p')
        built = driver.get_amphora(amphora_id=amphora_id)
        self.assertIn(once.addresses[0], [a.address for a in built.addresses])

    def test_networks_are_attached_and_detached_with_their_ports(self):
        driver = self.driver()
        amphora_id = driver.build(network_ids=['a'])
        fixed = driver.attach_network(amphora_id, 'b', address='192.0.2.7')
        driver.attach_network(amphora_id, 'b')
        self.assertEqual(fixed.addresses, ('192.0.2.7',))
        self.assertEqual(len(driver.get_amphora(amphora_id=amphora_id).addresses), 3)
        driver.detach_network(amphora_id, 'b')
        driver.detach_network(amphora_id, 'b')
        self.assertEqual(1, len(list(driver.list_resources())))
        built = driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual([a.network_id for a in built.addresses], ['a'])

    def test_a_port_of_the_caller_outlives_being_detached_with_its_network(self):
        driver = self.driver(networks=['n'], ports={'p': 'n'})
        amphora_id = driver.build(port_ids=['p'])
        address = driver.get_amphora(amphora_id=amphora_id).addresses[0]
        driver.detach_network(amphora_id, 'n')
        again = driver.attach_port(amphora_id, 'p')
        self.assertEqual(again.addresses, (address.address,))

    def test_what_is_detached_from_one_machine_stays_on_the_others(self):
        driver = self.driver()
        first, second = (driver.build(network_ids=['n'], port_ids=[one]) for one in 'pq')
        driver.detach_network(first, 'n')
        driver.detach_port(first, 'q')
        kept = [one.network_id for one in driver.get_amphora(amphora_id=second).addresses]
        self.assertEqual(2, len(kept))
        self.assertEqual([second], [one.amphora_id for one in driver.list_resources()])

    def test_a_cloud_in_memory_outlives_each_of_its_drivers(self):
        driver = self.driver()
        other = self.driver(cloud=driver.cloud)
        driver.close()
        other.build()

    def test_an_address_is_used_once(self):
        twin, driver = self.driver(), self.driver()
        amphora_id = twin.build(network_ids=['n'])
        twin.attach_network(amphora_id, 'n')
        (third,) = twin.attach_network(amphora_id, 'n').addresses
        amphora_id = driver.build(network_ids=['n'])
        # The automatic address of the next port, requested explicitly before.
        driver.attach_network(amphora_id, 'n', address=third)
        driver.attach_network(amphora_id, 'n')
        addresses = [a.address for a in driver.get_amphora(amphora_id=amphora_id).addresses]
        self.assertEqual(len(set(addresses)), 3)
        self.assertEqual(addresses.count(third), 1)
        with self.assertRaises(InstanceStateConflict) as caught:
            driver.attach_network(amphora_id, 'n', address=third)
        self.assertEqual(amphora_id, caught.exception.amphora_id)
        self.assertEqual('n', caught.exception.resource_id)
        with self.assertRaises(InvalidRequest):
            driver.attach_network(amphora_id, 'n', address='here')

    def test_unknown_ports_and_networks_are_not_found_if_the_cloud_lists_them(self):
        driver = self.driver(networks=['n'], ports={'p': 'n'})
        amphora_id = driver.build()
        driver.attach_network(amphora_id, 'n')
        self.assertEqual(2, len(list(driver.list_resources())))
        for attach, name in ((driver.attach_port, 'q'), (driver.attach_network, 'm')):
            with self.assertRaises(ResourceNotFoundError) as caught:
                attach(amphora_id, name)
            found = caught.exception
            self.assertEqual((name, amphora_id), (found.resource_id, found.amphora_id))

    def test_each_port_and_machine_has_an_id_of_its_own(self):
        driver = self.driver()
        given = {'network_ids': ['a', 'b']}
        built = [driver.build(**given, port_ids=[f'p-{at}']) for at in range(3)]
        built += [driver.build() for _ in range(2)]
        ports = [
            port.port_id for one in built for port in driver.get_amphora(amphora_id=one).addresses
        ]
        self.assertEqual(5 + 3 * 3 + 2, len({*built, *ports}))

    def test_deleting_a_port_leaves_the_others(self):
        driver = self.driver()
        first, second = driver.build(network_ids=['n']), driver.build(network_ids=['n'])
        port, *_ = driver.list_resources()
        driver.delete(first)
        driver.delete_resource(port)
        self.assertEqual([second], [one.amphora_id for one in driver.list_resources()])
        self.assertEqual(1, len(driver.get_amphora(amphora_id=second).addresses))

    def test_every_security_group_must_exist_and_one_of_them_open_the_port(self):
        opened = {'web': '22/tcp 80/tcp', 'swarm': '2377/tcp'}
        driver = self.driver(sec_groups=['web', 'swarm', 'free'], group_ports=opened)
        driver.check_ports(['web', 'swarm'], ['80/tcp', '2377/tcp'])
        driver.check_ports(['web', 'free'], ['443/tcp'])
        for groups, ports, peers, *said in (
            (['web', 'none'], [], None, 'none'),
            (['web'], [], ['web', 'none'], 'none'),
            (['web'], ['80/tcp', '443/tcp', '53/udp'], None, '443/tcp, 53/udp'),
            (['web', 'swarm'], ['2377/tcp'], ['web'], '2377/tcp'),
        ):
            with self.subTest(groups, ports=ports), self.assertRaises(InvalidRequest) as caught:
                driver.check_ports(groups, ports, peers)
            self.assertIn(said[0], str(caught.exception))
            self.assertIn(caught.exception.resource_id, (groups[0], said[0]))

    def test_an_owner_is_kept_letter_by_letter(self):
        driver = self.driver(owner='Site-1')
        built = driver.build(build_key='k')
        self.assertEqual('Site-1', driver.get_amphora(amphora_id=built).owner)
        self.assertEqual(built, driver.build(build_key='k'))
        self.assertEqual('Site-1', next(iter(driver.list_resources())).owner)
        for count in (1, 2):
            self.assertEqual(count, len(list(driver.cloud.instances())))
            driver.build()

    def test_resources_are_those_created_for_this_site(self):
        driver = self.driver()
        other = self.driver(owner='other', cloud=driver.cloud)
        other.build()
        amphora_id = driver.build(port_ids=['mine'], network_ids=['n'])
        group = driver.create_server_group('g', 'affinity')
        port, found = driver.list_resources()
        self.assertEqual(self.clock.time(), port.created_at)
        self.assertEqual((port.kind, port.amphora_id), ('port', amphora_id))
        self.assertEqual((found.kind, found.id, found.name), ('server_group', group.id, 'g'))
        with self.assertRaises(InstanceStateConflict) as caught:
            driver.delete_resource(port)
        self.assertEqual(port.id, caught.exception.resource_id)
        driver.delete_resource(found)
        driver.delete(amphora_id)
        driver.delete_resource(port)
        self.assertEqual(list(driver.list_resources()), [])
        with self.assertRaises(InvalidRequest):
            driver.delete_resource(Resource(kind='volume', id='v', owner='kiln'))
