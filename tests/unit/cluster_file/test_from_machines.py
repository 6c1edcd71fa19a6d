"""Clusters declared from machines that exist."""

import unittest

from kiln.cluster_file.from_machines import spec_of
from kiln.cluster_file.reading import read
from kiln.cluster_file.writing import dump
from kiln.models import Address, Amphora, State


def machine(number, **more):
    given = {'flavor': 'small', 'image_id': 'debian', 'availability_zone': 'az1'} | more
    return Amphora(id=f'm{number}', name='', state=State.ACTIVE, **given)


class FromMachines(unittest.TestCase):
    def spec(self, *machines, name='shop'):
        """Return the cluster as it is read again from its file."""
        (spec,) = read(dump(spec_of(name, {'work': machines}))).clusters
        return spec

    def group(self, *machines):
        return self.spec(*machines).groups[0]

    def test_what_all_machines_have_is_declared(self):
        net = Address(address='192.0.2.1', network_id='n1')
        group = self.group(*(machine(n, addresses=(net,)) for n in range(2)))
        self.assertEqual(
            (2, 'small', 'debian', ('n1',), {'az1': 2}),
            (
                group.shape.count, group.machine.flavor, group.machine.image,
                group.machine.networks, dict(group.shape.zones.counts),
            ),
        )  # fmt: skip

    def test_several_flavors_and_zones_are_counted(self):
        group = self.group(
            machine(1), machine(2, flavor='large', availability_zone='az2'), machine(3)
        )
        self.assertEqual({'large': 1, 'small': 2}, dict(group.shape.flavors))
        self.assertEqual({'az1': 2, 'az2': 1}, dict(group.shape.zones.counts))
        self.assertIsNone(group.machine.flavor)

    def test_what_is_unknown_is_left_out(self):
        group = self.group(machine(1, flavor=None, image_id=None, availability_zone=None))
        self.assertEqual((None, None, None), (
            group.machine.flavor, group.machine.image, group.machine.networks,
        ))  # fmt: skip
        self.assertEqual({}, dict(group.shape.zones.counts))

    def test_of_images_that_differ_the_most_frequent_is_declared(self):
        group = self.group(machine(1), machine(2, image_id='old'), machine(3))
        self.assertEqual('debian', group.machine.image)

    def test_the_name_is_one_that_a_cluster_can_have(self):
        for name, expected in (('Shop_1.x', 'shop-1-x'), ('___', 'adopted'), ('a' * 40, 'a' * 32)):
            self.assertEqual(expected, self.spec(machine(1), name=name).name)
