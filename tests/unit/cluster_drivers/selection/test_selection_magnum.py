"""Defects of driver selection in Magnum, which kiln does not have.

The numbers are those of the findings. Finding v is about discovery: test_discovery tests it.
"""

import itertools

from kiln.cluster_drivers.discovery.activation import DiscoverySettings, activated
from kiln.cluster_drivers.selection.matching import Preference
from kiln.cluster_drivers.selection.request import Request
from kiln.clusters.exceptions import AmbiguousClusterDriver, ClusterDriverUnusable, NoClusterDriver
from tests.unit.cluster_drivers.offered import (
    HEAT,
    HELM,
    SWARMS,
    UBUNTU,
    SelectionCase,
    driver,
    image,
)


class MagnumFindings(SelectionCase):
    def test_magnum_1_i_the_order_of_installation_changes_nothing(self):
        told = {
            self.refused(AmbiguousClusterDriver, *records)
            for records in itertools.permutations([HEAT, HELM, SWARMS])
        }
        self.assertEqual(1, len(told))

    def test_magnum_1_ii_alphabetical_order_does_not_choose_a_driver(self):
        first = driver('a_swarm_v1', ('vm', 'ubuntu', 'swarm'))
        self.assertEqual('k8s_ubuntu_v1', self.chosen(first, HEAT))
        self.refused(NoClusterDriver, first)

    def test_magnum_1_ii_a_default_is_not_used_for_what_it_does_not_build(self):
        default = [Preference.default('swarm_atomic_v1')]
        self.assertEqual('k8s_ubuntu_v1', self.chosen(HEAT, SWARMS, preferences=default))
        self.refused(AmbiguousClusterDriver, HEAT, HELM, SWARMS, preferences=default)
        self.refused(NoClusterDriver, SWARMS, preferences=default)

    def test_magnum_1_iii_a_disabled_driver_is_refused_even_if_it_is_named(self):
        records = activated([HEAT, HELM], DiscoverySettings(disabled_drivers=('k8s_ubuntu_v1',)))
        for asked in (
            {'request': Request(driver='k8s_ubuntu_v1')},
            {'template': Request(driver='k8s_ubuntu_v1')},
            {'image': image(kiln_distro='ubuntu', magnum_driver='k8s_ubuntu_v1')},
        ):
            with self.subTest(asked):
                said = self.refused(ClusterDriverUnusable, *records, **asked)
                self.assertIn('disabled_drivers', said)
        self.assertEqual('k8s_capi_helm_v1', self.chosen(*records))

    def test_magnum_1_iv_a_beta_driver_not_enabled_is_refused_even_if_it_is_named(self):
        found = [HEAT, driver('k8s_next_v1', UBUNTU, beta=True)]
        asked = Request(driver='k8s_next_v1', coe='kubernetes')
        said = self.refused(
            ClusterDriverUnusable, *activated(found, DiscoverySettings()), request=asked
        )
        self.assertIn('enabled_beta_drivers', said)
        self.assertEqual('k8s_ubuntu_v1', self.chosen(*activated(found, DiscoverySettings())))
        enabled = activated(found, DiscoverySettings(enabled_beta_drivers=('k8s_next_v1',)))
        self.assertEqual('k8s_next_v1', self.chosen(*enabled, request=asked))
