"""What a cluster says stands before what its template says."""

import unittest

from hypothesis import given

from kiln.cluster_exceptions import InvalidCluster
from kiln.cluster_file.merging import combined
from kiln.cluster_spec import (
    ClusterSpec,
    ClusterTemplate,
    MachineSpec,
    NodeGroupSpec,
    Shape,
    effective,
)
from tests.unit.cluster_file.strategies import CLUSTERS, FEW, TEMPLATES


def group(name, count, **more):
    return NodeGroupSpec(name=name, shape=Shape(count=count), **more)


BASE = ClusterTemplate(
    name='base',
    coe='swarm',
    driver='swarm_v1',
    machine=MachineSpec(image='old', flavor='small', parameters={'a': 1, 'b': 1}),
    groups=(group('control', 1, role='control'), group('work', 5)),
)


class Merging(unittest.TestCase):
    def combined(self, template=BASE, **cluster):
        return combined(template, ClusterSpec(name='web', template='base', **cluster))

    def test_a_cluster_that_says_nothing_is_as_its_template(self):
        found = self.combined()
        self.assertEqual(
            ('web', 'swarm', 'swarm_v1', BASE.machine, BASE.groups),
            (found.name, found.coe, found.driver, found.machine, found.groups),
        )

    def test_what_the_cluster_says_wins(self):
        machine = MachineSpec(image='new', keys=(), parameters={'b': 2})
        found = self.combined(coe='nodes', driver='nodes_v1', machine=machine, create_timeout_s=5)
        self.assertEqual(
            ('nodes', 'nodes_v1', 5), (found.coe, found.driver, found.create_timeout_s)
        )
        self.assertEqual(
            MachineSpec(image='new', flavor='small', keys=(), parameters={'a': 1, 'b': 2}),
            found.machine,
        )

    def test_a_group_of_the_cluster_takes_the_place_of_the_one_of_its_name_whole(self):
        found = self.combined(groups=(group('more', 1), group('control', 3)))
        self.assertEqual(['control', 'work', 'more'], [one.name for one in found.groups])
        self.assertEqual((3, 'worker'), (found.group('control').shape.count, found.groups[0].role))

    def test_a_template_without_groups_leaves_them_to_the_cluster(self):
        found = self.combined(ClusterTemplate(name='base'), groups=(group('work', 1),))
        self.assertEqual(['work'], [one.name for one in found.groups])

    def test_nobody_has_groups(self):
        with self.assertRaises(InvalidCluster) as caught:
            self.combined(ClusterTemplate(name='base'))
        self.assertIn("neither has its template 'base'", str(caught.exception))

    @FEW
    @given(TEMPLATES, CLUSTERS)
    def test_machines_are_as_all_scopes_say(self, template, cluster):
        found = combined(template, cluster)
        nothing = MachineSpec()
        for one in found.groups:
            scopes = {'group': one.machine, 'default': nothing}
            self.assertEqual(
                effective(template=template.machine, cluster=cluster.machine, **scopes).machine,
                effective(template=nothing, cluster=found.machine, **scopes).machine,
            )

    @FEW
    @given(TEMPLATES, CLUSTERS)
    def test_combining_again_changes_nothing(self, template, cluster):
        found = combined(template, cluster)
        self.assertEqual(found, combined(template, found))
