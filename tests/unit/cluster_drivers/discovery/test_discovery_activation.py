"""Activation of drivers: the options that enable, disable and choose drivers."""

import unittest

from kiln import conf as kiln_conf
from kiln.cluster_drivers.discovery.activation import DiscoverySettings, activated
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_drivers.records import DriverState
from kiln.cluster_drivers.selection.matching import Preference, preferences_of
from kiln.conf import clusters
from kiln.exceptions import ConfigurationError
from tests.unit.cluster_drivers.installed import Installed
from tests.unit.cluster_drivers.offered import HEAT, HELM, UBUNTU, driver


def states(records, **wanted):
    return [record.state.value for record in activated(records, DiscoverySettings(**wanted))]


class Activation(unittest.TestCase):
    def test_001_25_options_choose_which_drivers_are_active(self):
        for wanted, expected in (
            ({}, ['active', 'active']),
            ({'disabled_drivers': (HEAT.name,)}, ['disabled', 'active']),
            ({'enabled_drivers': (HEAT.name,)}, ['active', 'disabled']),
            (
                {'enabled_drivers': (HEAT.name, HELM.name), 'disabled_drivers': (HELM.name,)},
                ['active', 'disabled'],
            ),
        ):
            with self.subTest(wanted):
                self.assertEqual(expected, states([HEAT, HELM], **wanted))

    def test_001_25_the_reason_of_a_disabled_driver_names_the_option(self):
        for option, names in (('disabled_drivers', (HEAT.name,)), ('enabled_drivers', ('x',))):
            (record,) = activated([HEAT], DiscoverySettings(**{option: names}))
            self.assertIn(option, record.reason)

    def test_a_beta_driver_is_inactive_until_it_is_enabled(self):
        beta = driver('next_v1', UBUNTU, beta=True)
        self.assertEqual(['beta'], states([beta]))
        self.assertEqual(['active'], states([beta], enabled_beta_drivers=('next_v1',)))
        both = {'enabled_beta_drivers': ('next_v1',), 'disabled_drivers': ('next_v1',)}
        self.assertEqual(['disabled'], states([beta], **both))

    def test_a_broken_driver_stays_broken_unless_it_is_disabled(self):
        broken = driver('bad_v1', state='broken', reason='ImportError: no openstack')
        self.assertEqual(['broken'], states([broken], enabled_beta_drivers=('bad_v1',)))
        self.assertEqual(['disabled'], states([broken], disabled_drivers=('bad_v1',)))

    def test_options_that_name_missing_drivers_are_reported(self):
        wanted = DiscoverySettings(
            enabled_drivers=(HEAT.name, 'a_v1'),
            disabled_drivers=('b_v1',),
            driver_origin={'c_v1': 'acme'},
        )
        self.assertEqual(
            ['enabled_drivers: a_v1', 'disabled_drivers: b_v1', 'driver_origin: c_v1'],
            wanted.unknown_names([HEAT]),
        )


class DuplicateDrivers(unittest.TestCase):
    def setUp(self):
        self.package = driver('k8s_v1', UBUNTU, origin='package acme-kiln 0.3')
        self.folder = driver('k8s_v1', UBUNTU, origin='directory /etc/kiln/drivers/k8s_v1')
        self.other = driver('k8s_v1', UBUNTU, origin='package rival 1', version='2.0.0')

    def test_neither_of_two_drivers_with_one_name_is_used_until_one_is_chosen(self):
        self.assertEqual(
            ['conflict', 'conflict', 'active'], states([self.package, self.folder, self.other])
        )

    def test_driver_origin_chooses_a_package_or_a_directory(self):
        for origin, expected in (
            ('acme-kiln', ['active', 'disabled']),
            ('acme-kiln 0.3', ['active', 'disabled']),
            ('package acme-kiln 0.3', ['active', 'disabled']),
            ('/etc/kiln/drivers/k8s_v1', ['disabled', 'active']),
            ('/etc/kiln/drivers/k8s_v1/', ['disabled', 'active']),
            ('rival', ['conflict', 'conflict']),
            ('', ['conflict', 'conflict']),
        ):
            with self.subTest(origin):
                found = states([self.package, self.folder], driver_origin={'k8s_v1': origin})
                self.assertEqual(expected, found)

    def test_the_reason_of_the_other_driver_names_the_chosen_origin(self):
        wanted = DiscoverySettings(driver_origin={'k8s_v1': 'acme-kiln'})
        records = activated([self.package, self.folder], wanted)
        self.assertEqual('driver_origin names package acme-kiln 0.3', records[1].reason)

    def test_a_broken_duplicate_is_not_a_conflict(self):
        broken = driver('k8s_v1', state='broken', reason='x', origin='package rival 1')
        self.assertEqual(['active', 'broken'], states([self.package, broken]))

    def test_a_driver_provided_three_times_is_reported_with_the_number(self):
        third = driver('k8s_v1', UBUNTU, origin='package third 1')
        records = activated([self.package, self.folder, third], DiscoverySettings())
        self.assertIn('is provided 3 times: directory /etc', records[0].reason)
        self.assertIn('All are out of use', records[0].reason)

    def test_a_chosen_beta_driver_still_has_to_be_enabled(self):
        betas = [driver('k8s_v1', UBUNTU, origin=f'package {name} 1', beta=True) for name in 'ab']
        self.assertEqual(['beta', 'disabled'], states(betas, driver_origin={'k8s_v1': 'a'}))


class Options(Installed):
    def values(self, text=''):
        file = self.root / 'kiln.conf'
        file.write_text(f'[clusters]\n{text}')
        conf = kiln_conf.load([str(file)], environment={})
        return kiln_conf.register(conf, clusters.GROUP, clusters.DRIVER_OPTS)

    def test_defaults_search_two_directories_and_enable_all_drivers(self):
        settings = DiscoverySettings.from_options(self.values())
        self.assertEqual(
            ['/usr/share/kiln/drivers', '/etc/kiln/drivers'], list(map(str, settings.driver_path))
        )
        self.assertEqual(DiscoverySettings(driver_path=settings.driver_path), settings)
        self.assertEqual([], preferences_of(self.values()))

    def test_options_set_the_active_and_the_preferred_drivers(self):
        folder = self.directory('page_v1')
        self.directory('beta_v1', driver_yaml='version: 1.0.0\nbeta: true\n'
                       'provides: [[vm, ubuntu, swarm]]\n')  # fmt: skip
        values = self.values(
            f'driver_path = {folder.parent}\n'
            'disabled_drivers = page_v1, typo_v1\n'
            'enabled_beta_drivers = beta_v1\n'
            'driver_origin = page_v1:acme-kiln,other_v1:/etc/kiln/drivers/other_v1\n'
            'driver_preference = vm, ubuntu, kubernetes: a_v1, b_v1\n'
            'driver_preference = *, *, *: c_v1\n'
            'default_driver = d_v1\n'
            'disabled_hard = true\n'
            'refuse_changed_drivers = true\n'
        )
        settings = DiscoverySettings.from_options(values)
        self.assertTrue(settings.disabled_hard)
        self.assertTrue(settings.refuse_changed)
        self.assertEqual(
            {'page_v1': 'acme-kiln', 'other_v1': '/etc/kiln/drivers/other_v1'},
            settings.driver_origin,
        )
        with self.assertLogs('kiln.cluster_drivers.discovery.discovery', 'WARNING') as logs:
            found = {one.name: one.state for one in discover(settings).records}
        self.assertIn('disabled_drivers: typo_v1', logs.output[0])
        self.assertIs(DriverState.DISABLED, found['page_v1'])
        self.assertIs(DriverState.ACTIVE, found['beta_v1'])
        *stated, default = preferences_of(values)
        self.assertEqual([('a_v1', 'b_v1'), ('c_v1',)], [line.drivers for line in stated])
        self.assertEqual(Preference.default('d_v1'), default)

    def test_an_unreadable_preference_is_a_configuration_error(self):
        with self.assertRaisesRegex(ConfigurationError, 'driver_preference "a_v1"'):
            preferences_of(self.values('driver_preference = a_v1\n'))
