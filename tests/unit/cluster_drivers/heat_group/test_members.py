"""Parameters of a group: maps by index, and indices that no member has; 003-6."""

import unittest

from kiln.cluster_drivers.heat.ledger import LedgerNode
from kiln.cluster_drivers.heat_group_v1.members import params_of
from kiln.clusters.spec import MachineSpec, Place

MACHINE = MachineSpec(image='debian', flavor='small', networks=('net1',))


def nodes(*numbers, group='work', machine=MACHINE, place=None):
    return [(LedgerNode(group, number, place or Place()), machine) for number in numbers]


class Members(unittest.TestCase):
    def test_003_6_flavors_and_zones_are_maps_by_index(self):
        other = MachineSpec(image='debian', flavor='small', networks=('net1',))
        found = params_of(
            nodes(1, group='control', machine=other) + nodes(2, place=Place('big', 'az2')), 2
        )
        self.assertEqual('small', found['flavors']['1'])
        self.assertEqual('big', found['flavors']['2'])
        self.assertEqual(('', 'az2'), (found['zones']['1'], found['zones']['2']))
        self.assertEqual(('control', 'work'), (found['groups']['1'], found['groups']['2']))

    def test_003_6_the_index_of_a_node_that_went_from_the_middle_is_removed(self):
        self.assertEqual((3, [0, 2]), self.shape(nodes(1, 3, 4), 4))

    def test_an_index_beyond_the_last_member_is_removed_too(self):
        # Else a new one would get the number of a node that has gone.
        self.assertEqual((2, [0, 3]), self.shape(nodes(1, 2), 3))

    def shape(self, members, last):
        found = params_of(members, last)
        return found['count'], found['removed']

    def test_each_index_has_values_so_that_heat_can_make_what_it_should_have_removed(self):
        found = params_of(nodes(2, 4), 5)
        for name in ('groups', 'flavors', 'zones'):
            self.assertEqual({*map(str, range(6))}, set(found[name]))
        self.assertEqual({'small'}, set(found['flavors'].values()))

    def test_a_cluster_without_nodes_is_an_empty_group(self):
        self.assertEqual({'count': 0}, params_of([], 7))

    def test_values_of_a_group_are_sent_once(self):
        keyed = MachineSpec(
            image='debian', flavor='small', networks=('net1',), keys=('k',), sec_groups=('web',)
        )
        found = params_of(nodes(1, 2) + nodes(3, group='more', machine=keyed), 3)['machines']
        self.assertEqual(
            {'image': 'debian', 'network': 'net1', 'sec_groups': ['default'], 'key': ''},
            found['work'],
        )
        self.assertEqual((['web'], 'k'), (found['more']['sec_groups'], found['more']['key']))
