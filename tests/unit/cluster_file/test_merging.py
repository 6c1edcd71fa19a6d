"""Template merging: the cluster has precedence over its template."""

import unittest

from hypothesis import given

from kiln.cluster_file.merging import combined
from kiln.clusters.exceptions import InvalidCluster
from kiln.clusters.spec import (
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

    def test_an_empty_cluster_gets_everything_from_its_template(self):
        found = self.combined()
        self.assertEqual(
            ('web', 'swarm', 'swarm_v1', BASE.machine, BASE.groups),
            (found.name, found.coe, found.driver, found.machine, found.groups),
        )

    def test_values_of_the_cluster_have_precedence(self):
        machine = MachineSpec(image='new', keys=(), parameters={'b': 2})
        found = self.combined(coe='nodes', driver='nodes_v1', machine=machine, create_timeout_s=5)
        self.assertEqual(
            ('nodes', 'nodes_v1', 5), (found.coe, found.driver, found.create_timeout_s)
        )
        self.assertEqual(
            MachineSpec(image='new', flavor='small', keys=(), parameters={'a': 1, 'b': 2}),
            found.machine,
        )

    def test_a_group_of_the_cluster_replaces_the_group_of_the_same_name(self):
        found = self.combined(groups=(group('more', 1), group('control', 3)))
        self.assertEqual(['control', 'work', 'more'], [one.name for one in found.groups])
        self.assertEqual((3, 'worker'), (found.group('control').shape.count, found.groups[0].role))

    def test_with_a_template_without_groups_the_cluster_keeps_its_groups(self):
        found = self.combined(ClusterTemplate(name='base'), groups=(group('work', 1),))
        self.assertEqual(['work'], [one.name for one in found.groups])

    def test_a_cluster_and_template_without_groups_are_refused(self):
        with self.assertRaises(InvalidCluster) as caught:
            self.combined(ClusterTemplate(name='base'))
        self.assertIn("Neither the cluster nor its template 'base'", str(caught.exception))

    @FEW
    @given(TEMPLATES, CLUSTERS)
    def test_machine_settings_are_merged_over_all_scopes(self, template, cluster):
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
    def test_merging_again_changes_nothing(self, template, cluster):
        found = combined(template, cluster)
        self.assertEqual(found, combined(template, found))
