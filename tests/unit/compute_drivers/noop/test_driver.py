"""What the simulated cloud promises while nothing goes wrong."""

import subprocess
import sys
import threading
import unittest

from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import (
    AmbiguousInstanceError,
    BuildConflict,
    ConfigurationError,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    QuotaExceeded,
    ResourceNotFoundError,
    UnsupportedOperation,
)
from kiln.models import Ability, AmphoraType, Resource, State
from kiln.testing.clock import VirtualClock


class CloudCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.clock = VirtualClock()

    def driver(self, *, owner='kiln', cloud=None, **offer):
        driver = NoopDriver(cloud=cloud or NoopCloud(clock=self.clock, **offer))
        driver.owner = owner
        return driver

    def state(self, driver, amphora_id):
        return driver.status(amphora_id).state


class BuildTest(CloudCase):
    def test_a_driver_without_a_word_of_configuration_builds(self):
        driver = NoopDriver()
        self.assertIs(driver.status(driver.build()).state, State.ACTIVE)

    def test_every_ability_of_the_contract_is_there(self):
        self.assertEqual(self.driver().abilities, frozenset(Ability))

    def test_every_type_of_amphora_can_be_built(self):
        driver = self.driver()
        for kind in AmphoraType:
            built = driver.get_amphora(amphora_id=driver.build(kind))
            self.assertIs(built.amphora_type, kind)

    def test_an_amphora_tells_what_it_was_asked_to_be(self):
        driver = self.driver()
        amphora_id = driver.build(
            amphora_flavor='small',
            image_id='image-1',
            network_ids=['net-1', 'net-2'],
            name='web',
            build_key='key-1',
            availability_zone='az2',
            metadata={'role': 'front'},
        )
        built = driver.get_amphora('web')
        self.assertEqual(
            (built.id, built.build_key, built.owner, built.flavor, built.image_id),
            (amphora_id, 'key-1', 'kiln', 'small', 'image-1'),
        )
        self.assertEqual(built.availability_zone, 'az2')
        self.assertEqual(dict(built.metadata), {'role': 'front'})
        self.assertEqual([a.network_id for a in built.addresses], ['net-1', 'net-2'])
        self.assertEqual(built.created_at, self.clock.time())

    def test_addresses_are_all_different(self):
        driver = self.driver()
        for _ in range(300):
            driver.build(network_ids=['net-1'])
        found = {a.address for i in driver.list_amphorae() for a in i.addresses}
        self.assertEqual(len(found), 300)
        self.assertTrue(all(address.startswith('127.') for address in found))

    def test_contents_and_keys_are_remembered_as_sizes_and_digests_only(self):
        driver = self.driver()
        amphora_id = driver.build(
            keys=['ssh-rsa PLANTED'],
            sec_groups=['web'],
            config_drive_files={'/etc/key': ('PLANTED', 0o600, 'root')},
            user_data='PLANTED',
        )
        built = driver.get_amphora(amphora_id=amphora_id)
        self.assertNotIn('PLANTED', repr(built) + str(built.raw))
        self.assertEqual(built.raw['files']['/etc/key']['mode'], '0600')
        self.assertEqual(built.raw['keys'], 1)
        self.assertEqual(built.raw['sec_groups'], ['web'])
        self.assertIn('user_data_sha256', built.raw)

    def test_the_same_key_builds_once(self):
        driver = self.driver()
        first = driver.build(build_key='one')
        self.assertEqual(driver.build(build_key='one', name='other'), first)
        self.assertEqual(driver.cloud.count(), 1)

    def test_two_sites_may_use_the_same_key(self):
        ours = self.driver()
        theirs = self.driver(owner='other', cloud=ours.cloud)
        self.assertNotEqual(ours.build(build_key='one'), theirs.build(build_key='one'))
        self.assertEqual([a.owner for a in ours.list_amphorae()], ['kiln'])
        self.assertEqual([a.owner for a in ours.list_amphorae(owner='other')], ['other'])

    def test_building_takes_its_time(self):
        driver = self.driver(build_s=30)
        amphora_id = driver.build()
        status = driver.status(amphora_id)
        self.assertEqual((status.state, status.task_state), (State.BUILDING, 'spawning'))
        self.clock.advance(29)
        self.assertIs(self.state(driver, amphora_id), State.BUILDING)
        self.clock.advance(1)
        status = driver.status(amphora_id)
        self.assertTrue(status.ready)
        self.assertEqual(status.observed_at, self.clock.time())
        self.assertEqual(status.raw['status'], 'active')

    def test_times_vary_by_their_jitter_and_repeat_with_their_seed(self):
        def times(seed):
            clock = VirtualClock()
            driver = NoopDriver(cloud=NoopCloud(clock=clock, build_s=10, jitter=0.5, seed=seed))
            ids = [driver.build() for _ in range(50)]
            ready = {}
            for second in range(16):
                found = driver.statuses(ids)
                ready |= {i: second for i in ids if found[i].ready and i not in ready}
                clock.advance(1)
            return ready

        self.assertEqual(times(7), times(7))
        self.assertEqual(min(times(7).values()), 6)
        self.assertGreater(max(times(7).values()), 12)

    def test_an_accepted_call_lasts_as_long_as_it_should(self):
        driver = self.driver(accept_s=3)
        thread = threading.Thread(target=driver.build)
        thread.start()
        self.clock.run_until(lambda: not thread.is_alive())
        thread.join()
        self.assertGreaterEqual(self.clock.monotonic(), 3)

    def test_a_name_may_be_given_twice_and_is_then_ambiguous(self):
        driver = self.driver()
        ids = [driver.build(name='twin'), driver.build(name='twin')]
        with self.assertRaises(AmbiguousInstanceError) as caught:
            driver.get_amphora('twin')
        for id_ in ids:
            self.assertIn(id_, str(caught.exception))

    def test_what_is_not_on_offer_is_refused_by_name(self):
        driver = self.driver(
            images=['i'], networks=['n'], ports={'p': 'n'}, keypairs=['k'], sec_groups=['s']
        )
        wrong = {
            'amphora_flavor': 'huge',
            'image_id': 'none',
            'network_ids': ['none'],
            'port_ids': ['none'],
            'keys': ['none'],
            'sec_groups': ['none'],
            'availability_zone': 'az9',
            'server_group_id': 'none',
        }
        for argument, value in wrong.items():
            with self.subTest(argument), self.assertRaises(InvalidBuildRequest) as caught:
                driver.build(**{argument: value})
            self.assertIn(value if isinstance(value, str) else value[0], str(caught.exception))
        self.assertEqual(driver.cloud.count(), 0)
        driver.build(image_id='i', network_ids=['n'], port_ids=['p'], keys=['k'], sec_groups=['s'])

    def test_a_whole_key_is_not_repeated_in_an_error(self):
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.driver(keypairs=['k']).build(keys=['ssh-rsa ' + 'A' * 500])
        self.assertLess(len(str(caught.exception)), 200)

    def test_validation_knows_what_a_build_would_refuse(self):
        driver = self.driver(images=['i'])
        driver.validate_flavor('small')
        driver.validate_image('i')
        driver.validate_zone('az1')
        for refuse in (driver.validate_flavor, driver.validate_image, driver.validate_zone):
            with self.assertRaises(InvalidRequest) as caught:
                refuse('none')
            self.assertEqual(caught.exception.resource_id, 'none')

    def test_the_quota_counts_what_is_there_now(self):
        driver = self.driver(quota=2, delete_s=5)
        first = driver.build()
        driver.build()
        with self.assertRaises(QuotaExceeded) as caught:
            driver.build()
        self.assertIn('2 of 2', str(caught.exception))
        driver.delete(first)
        with self.assertRaises(QuotaExceeded):
            driver.build()
        self.clock.advance(5)
        driver.build()

    def test_a_full_zone_has_no_room_and_others_still_have(self):
        driver = self.driver(zones=['a', 'b'], capacity={'a': 1})
        for _ in range(3):
            driver.build()
        zones = sorted(i.availability_zone for i in driver.list_amphorae())
        self.assertEqual(zones, ['a', 'b', 'b'])
        with self.assertRaises(InsufficientCapacity):
            driver.build(availability_zone='a')

    def test_the_impossible_flavor_is_known_and_never_there(self):
        driver = self.driver()
        driver.validate_flavor('impossible')
        with self.assertRaises(InsufficientCapacity):
            driver.build(amphora_flavor='impossible')

    def test_a_cloud_may_have_any_zone_and_any_flavor(self):
        driver = self.driver(zones=None, flavors=None, capacity={'attic': 1})
        driver.validate_zone('attic')
        driver.validate_flavor('odd')
        for zone in ('attic', None):
            driver.build(availability_zone=zone, amphora_flavor='odd')
        with self.assertRaises(InsufficientCapacity):
            driver.build(availability_zone='attic')
        zones = [i.availability_zone for i in driver.list_amphorae()]
        self.assertEqual(['attic', 'noop-zone'], sorted(zones))

    def test_builds_spread_over_the_zones(self):
        driver = self.driver()
        for _ in range(6):
            driver.build()
        zones = [i.availability_zone for i in driver.list_amphorae()]
        self.assertEqual(sorted(zones), ['az1', 'az1', 'az2', 'az2', 'az3', 'az3'])

    def test_a_cloud_that_cannot_be_is_refused(self):
        for offer in (
            {'zones': []},
            {'hosts_per_zone': 0},
            {'capacity': {'nowhere': 1}},
            {'build_s': -1},
            {'jitter': 2},
        ):
            with self.subTest(offer), self.assertRaises(ConfigurationError):
                NoopCloud(**offer)


class LifeTest(CloudCase):
    def test_a_deleted_amphora_goes_and_stays_gone(self):
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

    def test_ids_that_were_never_given_are_not_found(self):
        driver = self.driver()
        real = driver.build()
        prefix = real[:24]
        for id_ in ('x', 'a' * 36, f'{prefix}+00000000001', f'{real}0', prefix + 'f' * 20):
            with self.subTest(id_), self.assertRaises(InstanceNotFoundError):
                driver.status(id_)

    def test_deleting_ends_a_build_under_way(self):
        driver = self.driver(build_s=30, delete_s=1)
        amphora_id = driver.build()
        driver.delete(amphora_id)
        self.clock.advance(1)
        self.assertEqual(driver.cloud.count(), 0)
        self.clock.advance(60)
        self.assertEqual(driver.cloud.count(), 0)

    def test_suspending_and_resuming_takes_time_and_may_be_repeated(self):
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

    def test_a_busy_amphora_is_left_alone_and_the_error_says_to_wait(self):
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
            self.assertTrue(caught.exception.retryable)

    def test_a_state_that_forbids_says_which_would_allow(self):
        driver = self.driver()
        amphora_id = driver.build()
        driver.suspend(amphora_id)
        for act in (driver.reboot, driver.rebuild, lambda i: driver.attach_port(i, 'p')):
            with self.assertRaises(InstanceStateConflict) as caught:
                act(amphora_id)
            self.assertFalse(caught.exception.retryable)
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

    def test_changing_what_is_not_there_is_not_found(self):
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
        self.assertIn('n: 127.', once)
        self.assertEqual(driver.console_log(amphora_id, lines=1), 'web login:\n')
        driver.reboot(amphora_id)
        self.assertIn('(boot 2)', driver.console_log(amphora_id))
        driver.cloud.crash(amphora_id, 'out of memory')
        self.assertIn('out of memory', driver.console_log(amphora_id, lines=1))

    def test_what_happens_behind_our_back_is_seen(self):
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
        with self.assertRaises(InstanceStateConflict):
            driver.attach_port(second, 'p')
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

    def test_attaching_twice_is_attaching_once(self):
        driver = self.driver(ports={'p': 'net-7'})
        amphora_id = driver.build(network_ids=['n'])
        once = driver.attach_port(amphora_id, 'p')
        driver.suspend(amphora_id)
        self.assertEqual(driver.attach_port(amphora_id, 'p'), once)
        self.assertEqual(once.network_id, 'net-7')
        built = driver.get_amphora(amphora_id=amphora_id)
        self.assertIn(once.addresses[0], [a.address for a in built.addresses])

    def test_networks_come_and_go_with_their_ports(self):
        driver = self.driver()
        amphora_id = driver.build(network_ids=['a'])
        fixed = driver.attach_network(amphora_id, 'b', address='192.0.2.7')
        driver.attach_network(amphora_id, 'b')
        self.assertEqual(fixed.addresses, ('192.0.2.7',))
        self.assertEqual(len(driver.get_amphora(amphora_id=amphora_id).addresses), 3)
        driver.detach_network(amphora_id, 'b')
        driver.detach_network(amphora_id, 'b')
        built = driver.get_amphora(amphora_id=amphora_id)
        self.assertEqual([a.network_id for a in built.addresses], ['a'])

    def test_a_port_of_the_caller_outlives_being_detached_with_its_network(self):
        driver = self.driver(networks=['n'], ports={'p': 'n'})
        amphora_id = driver.build(port_ids=['p'])
        address = driver.get_amphora(amphora_id=amphora_id).addresses[0]
        driver.detach_network(amphora_id, 'n')
        again = driver.attach_port(amphora_id, 'p')
        self.assertEqual(again.addresses, (address.address,))

    def test_an_address_is_given_once(self):
        twin, driver = self.driver(), self.driver()
        amphora_id = twin.build(network_ids=['n'])
        twin.attach_network(amphora_id, 'n')
        (third,) = twin.attach_network(amphora_id, 'n').addresses
        amphora_id = driver.build(network_ids=['n'])
        # The automatic address of the next port, taken by name before its turn.
        driver.attach_network(amphora_id, 'n', address=third)
        driver.attach_network(amphora_id, 'n')
        addresses = [a.address for a in driver.get_amphora(amphora_id=amphora_id).addresses]
        self.assertEqual(len(set(addresses)), 3)
        self.assertEqual(addresses.count(third), 1)
        with self.assertRaises(InstanceStateConflict):
            driver.attach_network(amphora_id, 'n', address=third)
        with self.assertRaises(InvalidRequest):
            driver.attach_network(amphora_id, 'n', address='here')

    def test_unknown_ports_and_networks_are_not_found_where_they_are_listed(self):
        driver = self.driver(networks=['n'], ports={'p': 'n'})
        amphora_id = driver.build()
        with self.assertRaises(ResourceNotFoundError):
            driver.attach_port(amphora_id, 'q')
        with self.assertRaises(ResourceNotFoundError):
            driver.attach_network(amphora_id, 'm')

    def test_resources_are_what_the_cloud_made_for_this_site(self):
        driver = self.driver()
        other = self.driver(owner='other', cloud=driver.cloud)
        other.build()
        amphora_id = driver.build(port_ids=['mine'], network_ids=['n'])
        group = driver.create_server_group('g', 'affinity')
        port, found = driver.list_resources()
        self.assertEqual((port.kind, port.amphora_id), ('port', amphora_id))
        self.assertEqual((found.kind, found.id, found.name), ('server_group', group.id, 'g'))
        with self.assertRaises(InstanceStateConflict):
            driver.delete_resource(port)
        driver.delete_resource(found)
        driver.delete(amphora_id)
        driver.delete_resource(port)
        self.assertEqual(list(driver.list_resources()), [])
        with self.assertRaises(InvalidRequest):
            driver.delete_resource(Resource(kind='volume', id='v', owner='kiln'))


class GroupTest(CloudCase):
    def hosts(self, driver):
        return [(i.availability_zone, i.raw['host']) for i in driver.list_amphorae()]

    def test_anti_affinity_never_shares_a_host(self):
        driver = self.driver(zones=['a', 'b'], hosts_per_zone=2)
        group = driver.create_server_group('g', 'anti-affinity')
        for _ in range(4):
            driver.build(server_group_id=group.id)
        self.assertEqual(len(set(self.hosts(driver))), 4)
        with self.assertRaises(InsufficientCapacity) as caught:
            driver.build(server_group_id=group.id)
        self.assertIn('4 members', str(caught.exception))

    def test_soft_anti_affinity_shares_only_when_it_must(self):
        driver = self.driver(zones=['a'], hosts_per_zone=2)
        group = driver.create_server_group('g', 'soft-anti-affinity')
        for _ in range(3):
            driver.build(server_group_id=group.id)
        self.assertEqual(len(set(self.hosts(driver)[:2])), 2)
        self.assertEqual(len(self.hosts(driver)), 3)

    def test_affinity_shares_one_host_or_fails(self):
        driver = self.driver()
        group = driver.create_server_group('g', 'affinity')
        for _ in range(3):
            driver.build(server_group_id=group.id)
        self.assertEqual(len(set(self.hosts(driver))), 1)
        zone = self.hosts(driver)[0][0]
        elsewhere = next(z for z in ('az1', 'az2') if z != zone)
        with self.assertRaises(InsufficientCapacity):
            driver.build(server_group_id=group.id, availability_zone=elsewhere)

    def test_a_deleted_group_lets_its_members_go(self):
        driver = self.driver()
        group = driver.create_server_group('g', 'soft-affinity')
        amphora_id = driver.build(server_group_id=group.id)
        driver.delete_server_group(group.id)
        driver.delete_server_group(group.id)
        self.assertIsNone(driver.get_amphora(amphora_id=amphora_id).server_group_id)
        with self.assertRaises(InvalidBuildRequest):
            driver.build(server_group_id=group.id)

    def test_an_unknown_policy_is_refused_with_the_known_ones(self):
        with self.assertRaises(InvalidRequest) as caught:
            self.driver().create_server_group('g', 'together')
        self.assertIn('soft-anti-affinity', str(caught.exception))


class ManyTest(CloudCase):
    def test_changes_tell_each_change_once_for_who_follows(self):
        driver = self.driver(build_s=10)
        ids = [driver.build() for _ in range(3)]
        first = driver.changes()
        self.assertTrue(first.complete)
        self.assertEqual({s.amphora_id for s in first.statuses}, set(ids))
        quiet = driver.changes(first.cursor)
        self.assertEqual((quiet.statuses, quiet.gone, quiet.complete), ((), (), False))
        self.clock.advance(10)
        driver.delete(ids[0])
        news = driver.changes(quiet.cursor)
        self.assertEqual({s.amphora_id: s.state for s in news.statuses},
                         dict.fromkeys(ids[1:], State.ACTIVE))  # fmt: skip
        self.assertEqual(news.gone, (ids[0],))

    def test_a_cursor_of_another_cloud_or_of_none_is_answered_with_everything(self):
        driver = self.driver()
        driver.build()
        cursor = driver.changes().cursor
        foreign = self.driver().changes().cursor
        for since in (foreign, 'x', cursor + '9', cursor[:24] + 'x'):
            with self.subTest(since):
                changes = driver.changes(since)
                self.assertTrue(changes.complete)
                self.assertEqual(len(changes.statuses), 1)

    def test_changes_and_lists_are_of_one_owner(self):
        ours = self.driver()
        theirs = self.driver(owner='other', cloud=ours.cloud)
        cursor = ours.changes().cursor
        amphora_id = theirs.build()
        theirs.delete(amphora_id)
        theirs.build()
        self.assertEqual((ours.changes(cursor).statuses, ours.changes(cursor).gone), ((), ()))
        self.assertEqual(len(theirs.changes(cursor).statuses), 1)

    def test_long_lists_are_whole(self):
        driver = self.driver()
        ids = [driver.build() for _ in range(2001)]
        self.assertEqual([i.id for i in driver.list_amphorae()], ids)
        self.assertEqual(list(driver.statuses([*ids, 'none'])), ids)
        self.assertEqual([i.id for i in driver.cloud.instances()], ids)

    def test_many_threads_make_what_one_would(self):
        driver = self.driver(build_s=1)

        def work(n):
            for i in range(40):
                amphora_id = driver.build(build_key=f'{i}', port_ids=[f'p{i}'])
                if n == i % 4:
                    driver.delete(amphora_id)
                driver.changes()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        keys = [i.build_key for i in driver.cloud.instances()]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(len(keys), driver.cloud.count())

    def test_check_says_how_many_there_are(self):
        driver = self.driver()
        driver.build()
        self.assertTrue(driver.check().healthy)
        self.assertIn('1 ', driver.check().detail)


class OpenTest(unittest.TestCase):
    def test_the_contract_is_kept_to_the_letter(self):
        self.assertTrue(issubclass(NoopDriver, AmphoraComputeDriver))
        self.assertEqual(NoopDriver.__abstractmethods__, frozenset())

    def test_a_missing_ability_is_refused_as_one(self):
        driver = NoopDriver()
        driver.missing_abilities = frozenset({Ability.SUSPEND})
        with self.assertRaises(UnsupportedOperation):
            driver.suspend(driver.build())

    def test_the_driver_is_imported_without_the_configuration_library(self):
        script = (
            'import sys; import kiln.compute_drivers.noop.driver as d; '
            'assert "oslo_config" not in sys.modules; '
            'assert d.NoopDriver.options; assert "oslo_config" in sys.modules'
        )
        subprocess.run([sys.executable, '-c', script], check=True)
