"""Which kinds of cluster a driver builds."""

import unittest

from kiln.cluster_drivers.records import ClusterType

WANTED = ClusterType('vm', 'ubuntu', 'kubernetes')


class ClusterTypes(unittest.TestCase):
    def test_a_star_stands_for_any(self):
        self.assertTrue(ClusterType('vm', '*', 'kubernetes').matches(WANTED))
        self.assertTrue(ClusterType('*', '*', '*').matches(WANTED))
        self.assertFalse(ClusterType('bm', '*', '*').matches(WANTED))

    def test_an_exact_one_leaves_nothing_open(self):
        self.assertTrue(WANTED.exact)
        self.assertFalse(WANTED._replace(os='*').exact)

    def test_it_is_shown_as_the_founding_note_writes_it(self):
        self.assertEqual('(vm, ubuntu, kubernetes)', str(WANTED))
