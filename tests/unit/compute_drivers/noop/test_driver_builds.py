"""Builds of the simulated cloud and their placement, without faults."""

import random
import threading

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.compute_drivers.noop.view import automatic_address
from kiln.exceptions import (
    AmbiguousInstanceError,
    AmphoraComputeError,
    BuildConflict,
    BuildDiffers,
    ConfigurationError,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    QuotaExceeded,
    ServiceUnavailable,
)
from kiln.models import Ability, AmphoraType, InjectedFile, State
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.noop.cloud_case import CloudCase


class BuildTest(CloudCase):
    def test_a_driver_without_configuration_builds(self):
        driver = NoopDriver()
        self.assertIs(driver.status(driver.build()).state, State.ACTIVE)

    def test_every_ability_of_the_contract_is_supported(self):
        self.assertEqual(self.driver().abilities, frozenset(Ability))

    def test_every_type_of_amphora_can_be_built(self):
        driver = self.driver()
        for kind in AmphoraType:
            built = driver.get_amphora(amphora_id=driver.build(kind))
            self.assertIs(built.amphora_type, kind)

    def test_an_amphora_has_the_values_of_its_request(self):
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

    def test_contents_and_keys_are_stored_only_as_counts_and_digests(self):
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
        self.assertEqual(built.raw['files']['/etc/key']['owner'], 'root')
        digest = InjectedFile(path='/etc/key', content=b'PLANTED').digest
        self.assertEqual(built.raw['files']['/etc/key']['sha256'], digest)
        self.assertEqual(built.raw['keys'], 1)
        self.assertEqual(built.raw['sec_groups'], ['web'])
        self.assertIn('user_data_sha256', built.raw)

    def test_the_same_key_builds_once(self):
        driver = self.driver()
        first = driver.build(build_key='One', metadata={'try': '1'})
        self.assertEqual(driver.build(build_key='One', metadata={'try': '2'}), first)
        self.assertEqual(driver.cloud.count(), 1)
        self.assertEqual(driver.find_build('One').id, first)

    def test_the_same_key_with_other_arguments_is_refused_and_changes_nothing(self):
        driver = self.driver()
        first = driver.build(amphora_flavor='small', image_id='i-1', name='a', build_key='k')
        before = driver.cloud.instances(), driver.cursor(), driver.changes().cursor
        for argument, value in (
            ('amphora_type', 'container'), ('amphora_flavor', 'tiny'), ('image_id', 'i-2'),
            ('name', 'b'),
        ):  # fmt: skip
            asked = {'amphora_flavor': 'small', 'image_id': 'i-1', 'name': 'a'} | {argument: value}
            with self.subTest(argument), self.assertRaises(BuildDiffers) as caught:
                driver.build(**asked, build_key='k')
            error = caught.exception
            self.assertEqual(
                (first, 'k', driver.name), (error.amphora_id, error.build_key, error.backend)
            )
            self.assertRegex(str(error), f"its {argument} is '.*' and not '{value}'")
        after = driver.cloud.instances(), driver.cursor(), driver.changes().cursor
        self.assertEqual(before, after)

    def test_a_rebuilt_machine_has_its_new_image(self):
        driver = self.driver()
        first = driver.build(image_id='i-1', build_key='k')
        driver.rebuild(first, image_id='i-2')
        self.assertEqual(first, driver.build(image_id='i-2', build_key='k'))
        self.assertRaises(BuildDiffers, driver.build, image_id='i-1', build_key='k')

    def test_two_sites_can_use_the_same_key(self):
        ours = self.driver()
        theirs = self.driver(owner='other', cloud=ours.cloud)
        self.assertNotEqual(ours.build(build_key='one'), theirs.build(build_key='one'))
        self.assertEqual([a.owner for a in ours.list_amphorae()], ['kiln'])
        self.assertEqual([a.owner for a in ours.list_amphorae(owner='other')], ['other'])

    def test_ports_of_many_machines_differ(self):
        numbers = {*range(600), *(1 << bit for bit in range(22))}
        for of in zip(*map(automatic_address, numbers), strict=True):
            self.assertEqual(len(numbers), len(set(of)))

    def test_a_wall_clock_that_is_set_back_changes_nothing_in_memory(self):
        driver = self.driver(build_s=10)
        built = driver.build()
        self.clock.step(-3600)
        self.clock.advance(10)
        self.assertIs(self.state(driver, built), State.ACTIVE)

    def test_a_cloud_without_jitter_draws_no_number_for_a_time(self):
        dice = random.Random(5)
        dice.getrandbits(128)  # the ids of the cloud
        expected = [dice.random() < 0.5 for _ in range(20)]
        for build_s, jitter in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.5)):
            script = [Fault.parse('build:refuse:probability=0.5')]
            driver = self.driver(seed=5, build_s=build_s, jitter=jitter, faults=script)
            self.assertEqual(expected, [self.refused(driver) for _ in range(20)])

    def refused(self, driver):
        try:
            driver.build()
        except ServiceUnavailable:
            return True
        return False

    def test_a_build_takes_the_configured_time(self):
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

    def test_times_vary_by_jitter_and_repeat_with_the_seed(self):
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
        # Each of them within half of the time.
        self.assertEqual((50, 15), (len(times(7)), max(times(7).values())))

    def test_each_call_takes_the_configured_time(self):
        driver = self.driver(accept_s=3)
        thread = threading.Thread(target=driver.build)
        thread.start()
        self.clock.run_until(lambda: not thread.is_alive())
        thread.join()
        self.assertGreaterEqual(self.clock.monotonic(), 3)

    def test_a_name_used_twice_is_ambiguous(self):
        driver = self.driver()
        ids = [driver.build(name='twin'), driver.build(name='twin')]
        with self.assertRaises(AmbiguousInstanceError) as caught:
            driver.get_amphora('twin')
        for id_ in ids:
            self.assertIn(id_, str(caught.exception))

    def test_unknown_names_are_refused(self):
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

    def test_validation_refuses_the_same_as_a_build(self):
        driver = self.driver(images=['i'], networks=['n'], sec_groups=['g'])
        driver.validate_flavor('small')
        driver.validate_image('i')
        driver.validate_zone('az1')
        driver.validate_network('n')
        driver.validate_network('n=10.0.0.7')
        driver.validate_security_group('g')
        for refuse in (
            driver.validate_flavor, driver.validate_image, driver.validate_zone,
            driver.validate_network, driver.validate_security_group,
        ):  # fmt: skip
            with self.assertRaises(InvalidRequest) as caught:
                refuse('none')
            self.assertEqual(caught.exception.resource_id, 'none')

    def test_a_build_at_a_fixed_address_has_it_until_it_is_deleted(self):
        driver = self.driver(networks=['n', 'm'])
        built = driver.build(network_ids=['n=10.0.0.7', 'm'])
        first, other = driver.get_amphora(amphora_id=built).addresses
        self.assertEqual(
            ('10.0.0.7', 'n', 'm'), (first.address, first.network_id, other.network_id)
        )
        with self.assertRaises(BuildConflict) as caught:
            driver.build(network_ids=['n=10.0.0.7'], port_ids=['p'], build_key='K')
        self.assertEqual(('n', 'K'), (caught.exception.resource_id, caught.exception.build_key))
        # On another network it is free, and so is the port of the build that was refused.
        driver.build(network_ids=['m=10.0.0.7'], port_ids=['p'])
        driver.delete(built)
        driver.build(network_ids=['n=10.0.0.7'])

    def test_what_is_not_an_address_or_not_a_network_is_refused(self):
        driver = self.driver(networks=['n'])
        for network in 'n=', 'n=here', 'n=10.0.0.256', 'm=10.0.0.7':
            with self.subTest(network), self.assertRaises(InvalidBuildRequest):
                driver.build(network_ids=[network])

    def test_an_image_is_built_and_described_by_the_names_that_it_was_given(self):
        driver = self.driver(images=['i', 'j'], image_properties={'j': {'os_distro': 'debian'}})
        driver.cloud.name_image('os', 'j')
        driver.validate_image('os')
        facts = driver.describe_image('os')
        self.assertEqual(
            ('j', 'os', 'debian'), (facts.id, facts.name, facts.properties['os_distro'])
        )
        self.assertEqual('os', driver.get_amphora(amphora_id=driver.build(image_id='os')).image_id)
        driver.cloud.name_image('os', None)
        self.assertRaises(InvalidBuildRequest, driver.build, image_id='os')
        self.assertRaises(InvalidRequest, driver.validate_image, 'os')

    def test_an_image_is_described_by_its_properties(self):
        driver = self.driver(images=['i', 'j'], image_properties={'i': {'os_distro': 'debian'}})
        self.assertEqual({'os_distro': 'debian'}, driver.describe_image('i').properties)
        self.assertEqual({}, driver.describe_image('j').properties)
        with self.assertRaises(InvalidRequest):
            driver.describe_image('k')

    def test_003_1_the_offered_zones_are_listed(self):
        self.assertEqual(('a', 'b'), self.driver(zones=['b', 'a']).list_zones())
        self.assertEqual((), self.driver(zones=None).list_zones())

    def test_the_quota_counts_existing_instances(self):
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

    def test_a_full_zone_has_no_capacity_and_others_still_have(self):
        driver = self.driver(zones=['a', 'b'], capacity={'a': 1})
        for _ in range(3):
            driver.build()
        zones = sorted(i.availability_zone for i in driver.list_amphorae())
        self.assertEqual(zones, ['a', 'b', 'b'])
        with self.assertRaises(InsufficientCapacity):
            driver.build(availability_zone='a')

    def test_the_flavor_impossible_is_valid_and_never_has_capacity(self):
        driver = self.driver()
        driver.validate_flavor('impossible')
        with self.assertRaises(InsufficientCapacity):
            driver.build(amphora_flavor='impossible')

    def test_a_cloud_can_accept_any_zone_and_flavor(self):
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

    def test_a_build_goes_to_the_zone_with_the_fewest_machines(self):
        driver = self.driver(zones=['a', 'b'])
        driver.build(availability_zone='a')
        self.assertEqual('b', driver.get_amphora(amphora_id=driver.build()).availability_zone)

    def test_a_refusal_lists_what_there_is_in_order_and_cuts_a_long_name(self):
        driver = self.driver(keypairs=['b', 'a'])
        for name, shown in (('x' * 60, f"{'x' * 60}'"), ('x' * 61, f"{'x' * 60}...'")):
            with self.assertRaises(InvalidBuildRequest) as caught:
                driver.build(keys=[name])
            self.assertIn(shown, str(caught.exception))
            self.assertIn('known: a, b.', str(caught.exception))
        with self.assertRaises(InvalidBuildRequest) as caught:
            driver.build(keys=['a', 'c'])
        self.assertIn("'c'", str(caught.exception))

    def test_a_machine_without_a_network_is_on_the_first_one(self):
        driver = self.driver(networks=['n', 'm'])
        (address,) = driver.get_amphora(amphora_id=driver.build()).addresses
        self.assertEqual('n', address.network_id)

    def test_what_is_shown_of_a_machine_is_of_it(self):
        driver = self.driver(build_s=5, suspend_s=5)
        group = driver.create_server_group('g', 'affinity').id
        built = driver.build(name='web', server_group_id=group, port_ids=['one', 'two'])
        self.assertFalse(driver.get_amphora(amphora_id=built).served)
        self.clock.advance(5)
        driver.suspend(built)
        found = driver.get_amphora(amphora_id=built)
        self.assertEqual((True, 'suspending'), (found.served, found.task_state))
        driver.cloud.crash(built, 'no power')
        found = driver.get_amphora(amphora_id=built)
        self.assertEqual((group, 'no power'), (found.server_group_id, found.fault))
        self.assertEqual(['one', 'two'], [one.port_id for one in found.addresses])
        self.assertEqual({'fa:16:3e'}, {one.mac[:8] for one in found.addresses})
        raw = found.raw
        self.assertEqual((built, 'web', 'no power'), (raw['id'], raw['name'], raw['fault']))

    def test_a_refused_build_names_its_key(self):
        driver = self.driver(quota=2, capacity={'az1': 0}, hosts_per_zone=1, zones=['az1', 'az2'])
        group = driver.create_server_group('g', 'anti-affinity').id
        driver.build(server_group_id=group, port_ids=['p'])
        for asked in (
            {'amphora_flavor': 'huge'},
            {'amphora_flavor': 'impossible'},
            {'availability_zone': 'az1'},
            {'server_group_id': group},
            {'network_ids': ['n=here']},
            {'port_ids': ['p']},
            {'metadata': {'noop:fault': 'explode'}},
        ):
            with self.subTest(asked), self.assertRaises(AmphoraComputeError) as caught:
                driver.build(build_key='Key-1', **asked)
            self.assertEqual('Key-1', caught.exception.build_key)
        driver.build()
        with self.assertRaises(QuotaExceeded) as caught:
            driver.build(build_key='Key-1')
        self.assertEqual('Key-1', caught.exception.build_key)

    def test_an_impossible_cloud_is_refused(self):
        for offer in (
            {'zones': []},
            {'hosts_per_zone': 0},
            {'capacity': {'nowhere': 1}},
            {'build_s': -1},
            *({f'{verb}_s': -1} for verb in ('accept', 'suspend', 'resume', 'reboot', 'rebuild')),
            {'jitter': 2},
            {'jitter': -1},
        ):
            with self.subTest(offer), self.assertRaises(ConfigurationError):
                NoopCloud(**offer)


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

    def test_a_host_that_a_member_has_left_is_free_again(self):
        driver = self.driver(zones=['a'], hosts_per_zone=2)
        group = driver.create_server_group('g', 'anti-affinity')
        first, _ = (driver.build(server_group_id=group.id) for _ in range(2))
        driver.delete(first)
        driver.build(server_group_id=group.id)
        self.assertEqual(2, len(set(self.hosts(driver))))

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

    def test_members_of_a_deleted_group_stay(self):
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
