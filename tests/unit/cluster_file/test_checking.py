"""Clusters that no file declares are checked by the rules of files."""

import dataclasses
import unittest

from hypothesis import given

from kiln.cluster_file.checking import check
from kiln.clusters.exceptions import InvalidCluster
from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Shape
from tests.unit.cluster_file.strategies import CLUSTERS, FEW

GOOD = ClusterSpec(name='web', groups=(NodeGroupSpec(name='work', shape=Shape(count=2)),))


def said(spec):
    try:
        check(spec)
    except InvalidCluster as exc:
        return [str(one) for one in exc.problems]
    return []


class Checking(unittest.TestCase):
    @FEW
    @given(CLUSTERS)
    def test_what_a_file_can_declare_passes(self, spec):
        self.assertEqual([], said(spec))

    def test_a_value_that_a_file_cannot_have_is_refused_with_its_path(self):
        empty = 'the text is empty or has spaces around it; write text without'
        for values, path, why in (
            ({'image': ''}, 'image', empty),
            ({'flavor': ' small'}, 'flavor', empty),
            ({'networks': ('a', '')}, 'networks[1]', empty),
            ({'image': 'a\nb'}, 'image', 'the text has an unprintable character; remove it'),
        ):
            with self.subTest(path=path):
                spec = dataclasses.replace(GOOD, machine=MachineSpec(**values))
                self.assertEqual([f'{path}: {why}'], said(spec))

    def test_the_same_mistake_in_two_groups_is_told_twice(self):
        groups = tuple(
            NodeGroupSpec(name=name, shape=Shape(count=1), machine=MachineSpec(image=''))
            for name in ('front', 'work')
        )
        found = said(dataclasses.replace(GOOD, groups=groups))
        self.assertEqual(
            ['nodegroups[0].image', 'nodegroups[1].image'],
            [one.partition(': ')[0] for one in found],
        )
