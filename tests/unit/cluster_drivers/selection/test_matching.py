"""Table of candidates: each driver, with the reason if it is excluded."""

import unittest

from kiln.cluster_drivers.records import ClusterType
from kiln.cluster_drivers.selection.matching import Preference, judge
from kiln.cluster_drivers.selection.request import Kind
from tests.unit.cluster_drivers.offered import HEAT, HELM, SWARMS, UBUNTU, driver

KIND = Kind.of(ClusterType(*UBUNTU))


class Candidates(unittest.TestCase):
    def test_each_excluded_driver_has_a_reason(self):
        table = judge(
            [
                HEAT,
                SWARMS,
                driver(HEAT.name, UBUNTU, version='1.0.0'),
                driver('any_v1', ('vm', '*', 'kubernetes')),
                driver('off_v1', UBUNTU, state='disabled', reason='it is in disabled_drivers'),
            ],
            KIND,
        )
        self.assertEqual(
            {
                'any_v1 1.0.0': '1.0.0 fits less closely than another driver.',
                'k8s_ubuntu_v1 1.0.0': (
                    '1.0.0 is not its newest version. Request k8s_ubuntu_v1==1.0.0.'
                ),
                'k8s_ubuntu_v1 2.0.1': '',
                'off_v1 1.0.0': '1.0.0 is disabled: it is in disabled_drivers.',
                'swarm_atomic_v1 1.0.0': (
                    '1.0.0 does not build (vm, ubuntu, kubernetes). '
                    'It provides: (vm, fedora-atomic, swarm).'
                ),
            },
            {str(row.driver): row.out for row in table.rows},
        )
        self.assertEqual([HEAT], [row.driver for row in table.left])

    def test_the_first_preference_that_names_a_driver_ranks_it(self):
        preferences = [
            Preference.parse('vm, flatcar, kubernetes: k8s_ubuntu_v1'),
            Preference.parse('vm, *, kubernetes: gone_v1, k8s_capi_helm_v1'),
            Preference.default('k8s_ubuntu_v1'),
        ]
        table = judge([HEAT, HELM, driver('other_v1', UBUNTU)], KIND, preferences)
        ranked = sorted(table.rows, key=lambda row: row.rank)
        self.assertEqual(
            [
                ('k8s_capi_helm_v1', 'preferred for (vm, *, kubernetes)'),
                ('k8s_ubuntu_v1', 'default_driver, and among the candidates'),
                ('other_v1', ''),
            ],
            [(row.driver.name, row.preferred) for row in ranked],
        )
