"""Cluster types and driver records."""

import unittest

from kiln.cluster_drivers.records import ClusterType, DriverRecord

WANTED = ClusterType('vm', 'ubuntu', 'kubernetes')


class ClusterTypes(unittest.TestCase):
    def test_a_star_matches_any_value(self):
        self.assertTrue(ClusterType('vm', '*', 'kubernetes').matches(WANTED))
        self.assertTrue(ClusterType('*', '*', '*').matches(WANTED))
        self.assertFalse(ClusterType('bm', '*', '*').matches(WANTED))

    def test_a_cluster_type_is_printed_as_in_the_founding_note(self):
        self.assertEqual('(vm, ubuntu, kubernetes)', str(WANTED))

    def test_bm_as_server_type_means_bare_metal(self):
        self.assertEqual('bare_metal', ClusterType.of('bm', 'ubuntu', 'swarm').server_type)
        self.assertEqual('vm', ClusterType.of('vm', 'bm', 'bm').server_type)


class Versions(unittest.TestCase):
    def record(self, version, beta=False):
        return DriverRecord(name='a_v1', version=version, origin='', digest='', beta=beta)

    def test_versions_sort_by_number_and_betas_before_all_others(self):
        ordered = [('9.0.0', True), ('', False), ('1.2.0', False), ('1.10.0', False)]
        records = [self.record(*one) for one in ordered]
        shuffled = [records[index] for index in (2, 0, 3, 1)]
        self.assertEqual(records, sorted(shuffled, key=lambda record: record.recency))

    def test_a_record_is_printed_as_name_and_version(self):
        self.assertEqual('a_v1 1.0.0', str(self.record('1.0.0')))
        self.assertEqual('a_v1', str(self.record('')))
