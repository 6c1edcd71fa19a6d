"""Conflicts between drivers, as `kiln driver check` reports them."""

import unittest

from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.selection.matching import Preference
from kiln.cluster_drivers.selection.selection import conflicts
from kiln.exceptions import ConfigurationError
from tests.unit.cluster_drivers.offered import HEAT, HELM, SWARMS, UBUNTU, driver


def kinds(found):
    return [one.cluster_type for one in found]


class Conflicts(unittest.TestCase):
    def test_002_11_two_drivers_of_one_tuple_conflict_until_one_is_preferred(self):
        (found,) = conflicts([HEAT, SWARMS, HELM])
        self.assertEqual(ClusterType(*UBUNTU), found.cluster_type)
        self.assertEqual((HELM, HEAT), found.drivers)
        self.assertEqual(
            'Several cluster drivers build (vm, ubuntu, kubernetes): '
            'k8s_capi_helm_v1 1.4.0 (package k8s-capi-helm-v1 1.4.0) and '
            'k8s_ubuntu_v1 2.0.1 (directory /usr/share/kiln/drivers/k8s_ubuntu_v1).',
            found.message,
        )
        for decided in (
            Preference.default('k8s_ubuntu_v1'),
            Preference.parse('*, *, *: k8s_capi_helm_v1'),
        ):
            self.assertEqual([], conflicts([HEAT, SWARMS, HELM], [decided]))
        other = [Preference.default('swarm_atomic_v1')]
        self.assertEqual(1, len(conflicts([HEAT, SWARMS, HELM], other)))

    def test_inactive_drivers_do_not_conflict(self):
        off = driver('off_v1', UBUNTU, state='disabled', reason='it is in disabled_drivers')
        beta = driver('beta_v1', UBUNTU, state='beta', beta=True)
        self.assertEqual([], conflicts([HEAT, off, beta]))

    def test_two_versions_of_a_driver_do_not_conflict(self):
        self.assertEqual([], conflicts([HEAT, driver('k8s_ubuntu_v1', UBUNTU, version='1.0.0')]))

    def test_a_driver_installed_twice_is_a_conflict(self):
        reason = 'is provided twice: package a 1 and package b 1. Both are out of use'
        twice = [
            driver('k8s_v1', UBUNTU, state='conflict', reason=reason, origin=f'package {name} 1')
            for name in 'ab'
        ]
        (found,) = conflicts([*twice, HEAT])
        self.assertEqual(f'Cluster driver "k8s_v1" 1.0.0 {reason}.', found.message)
        self.assertEqual((None, 2), (found.cluster_type, len(found.drivers)))

    def test_wildcards_conflict_in_what_both_drivers_build(self):
        any_os = driver('any_os_v1', ('vm', '*', 'kubernetes'))
        any_server = driver('any_server_v1', ('*', 'ubuntu', 'kubernetes'))
        self.assertEqual([ClusterType(*UBUNTU)], kinds(conflicts([any_os, any_server])))
        # A third driver is a closer match for what both build.
        self.assertEqual([], conflicts([any_os, any_server, HEAT]))
        same = driver('same_v1', ('vm', '*', 'kubernetes'))
        self.assertEqual([ClusterType('vm', '*', 'kubernetes')], kinds(conflicts([any_os, same])))

    def test_a_variant_conflicts_with_its_base_system(self):
        coreos = driver('coreos_v1', ('*', 'fedora-coreos', 'kubernetes'))
        fedora = driver('fedora_v1', ('vm', 'fedora', 'kubernetes'))
        self.assertEqual(
            [ClusterType('vm', 'fedora-coreos', 'kubernetes')], kinds(conflicts([coreos, fedora]))
        )


class PreferencesAsText(unittest.TestCase):
    def test_a_preference_is_a_cluster_type_and_drivers(self):
        expected = Preference(
            cluster_type=ClusterType('bare_metal', 'ubuntu', 'kubernetes'),
            drivers=('a_v1', 'b_v1'),
            reason='preferred for (bare_metal, ubuntu, kubernetes)',
        )
        for text in (
            'bm, ubuntu, kubernetes: a_v1, b_v1',
            '(bare_metal,ubuntu,kubernetes):a_v1,b_v1',
        ):
            self.assertEqual(expected, Preference.parse(text))

    def test_an_invalid_preference_is_refused_with_the_right_form(self):
        for text in ('', 'a_v1', 'vm, ubuntu: a_v1', 'vm, ubuntu, kubernetes:', 'vm,,k8s: a_v1'):
            with self.subTest(text), self.assertRaisesRegex(ConfigurationError, 'first_v1'):
                Preference.parse(text)
