"""Cluster file reader: clusters, templates, counts and positions."""

import unittest

from kiln.cluster_file.reading import read
from kiln.clusters.exceptions import InvalidCluster, Problem
from kiln.clusters.spec import (
    Fallback,
    Health,
    MachineSpec,
    NodeGroupSpec,
    Place,
    Portion,
    Shape,
    Strategy,
    VictimRule,
    ZoneRule,
    Zones,
)
from kiln.models import AmphoraType

PAGE = """
cluster: web
coe: swarm
driver: swarm_v1==1.2.*
image: ubuntu
keys: []
networks: [front, back]
parameters: {dns: 10.0.0.1, sizes: [1, 2.5], deep: {er: ~}}
create_timeout: 90
nodegroups:
  - name: control          # role control/worker/<any>
    role: control
    count: 3
    flavor: m1.medium
    zones: spread
  - name: work
    flavors: {flavor_x: 10, flavor_y: 5}
    zones: {az1: 8, az2: 7}
    min_count: 5
    max_count: 100
    compute_driver: nova
    strategy: {max_surge: 25%, max_unavailable: 2, batch: 5}
    fallback: {flavors: [flavor_z], zones: [az3]}
    health: {startup_timeout: 1h30m, unhealthy_after: 0.5e+2, max_unhealthy: 3, max_in_flight: 2}
    deletion: [failed, youngest]
"""


def one_group(text):
    (cluster,) = read(f'cluster: web\nnodegroups:\n  - {{name: work, {text}}}\n').clusters
    return cluster.groups[0]


class Reading(unittest.TestCase):
    def test_a_typical_cluster_is_read(self):
        (cluster,) = read(PAGE).clusters
        self.assertEqual(
            ('web', 'swarm', 'swarm_v1==1.2.*', 90.0),
            (cluster.name, cluster.coe, cluster.driver, cluster.create_timeout_s),
        )
        self.assertEqual(
            MachineSpec(
                image='ubuntu',
                keys=(),
                networks=('front', 'back'),
                parameters={'dns': '10.0.0.1', 'sizes': [1, 2.5], 'deep': {'er': None}},
            ),
            cluster.machine,
        )
        self.assertEqual(
            NodeGroupSpec(
                name='control',
                role='control',
                machine=MachineSpec(flavor='m1.medium'),
                shape=Shape(count=3, zones=Zones(rule=ZoneRule.SPREAD)),
            ),
            cluster.group('control'),
        )
        self.assertEqual(
            NodeGroupSpec(
                name='work',
                shape=Shape(
                    count=15,
                    flavors={'flavor_x': 10, 'flavor_y': 5},
                    zones=Zones(rule=ZoneRule.COUNTS, counts={'az1': 8, 'az2': 7}),
                ),
                machine=MachineSpec(compute_driver='nova'),
                min_count=5,
                max_count=100,
                strategy=Strategy(
                    max_surge=Portion(25, percent=True), max_unavailable=Portion(2), batch=5
                ),
                fallback=Fallback(flavors=('flavor_z',), zones=('az3',)),
                health=Health(
                    startup_timeout_s=5400.0,
                    unhealthy_after_s=50.0,
                    max_unhealthy=Portion(3),
                    max_in_flight=2,
                ),
                deletion=(VictimRule.FAILED, VictimRule.YOUNGEST),
            ),
            cluster.group('work'),
        )

    def test_a_file_can_contain_templates_and_clusters(self):
        file = read('template: a\n---\ncluster: b\ntemplate: d\n---\ntemplate: c\n--- # end\n')
        self.assertEqual(['a', 'c'], [one.name for one in file.templates])
        self.assertEqual(['b'], [one.name for one in file.clusters])

    def test_a_template_does_not_have_to_be_in_the_file(self):
        (cluster,) = read('cluster: b\ntemplate: elsewhere\n').clusters
        self.assertEqual(('elsewhere', ()), (cluster.template, cluster.groups))

    def test_a_cluster_or_its_template_in_the_file_must_have_groups(self):
        with self.assertRaises(InvalidCluster):
            read('template: a\n---\ncluster: b\ntemplate: a\n')
        groups = 'nodegroups: [{name: work, count: 1}]\n'
        read(f'template: a\n---\ncluster: b\ntemplate: a\n{groups}')
        read(f'template: a\n{groups}---\ncluster: b\ntemplate: a\n')

    def test_anchors_and_merges_are_read(self):
        (cluster,) = read(
            """
cluster: web
nodegroups:
  - &work {name: work, count: 1, flavor: small, parameters: &shared {a: 1, b: 2}}
  - {<<: *work, name: more, parameters: {<<: *shared, b: 3}}
  - {<<: [{flavor: big}, *work], name: most, image: *name}
""".replace('cluster: web', 'cluster: &name web')
        ).clusters
        work, more, most = cluster.groups
        self.assertEqual((1, 'small'), (more.shape.count, more.machine.flavor))
        self.assertEqual({'a': 1, 'b': 2}, work.machine.parameters)
        self.assertEqual({'a': 1, 'b': 3}, more.machine.parameters)
        # If several mappings are merged, the first has precedence.
        self.assertEqual(('big', 'web'), (most.machine.flavor, most.machine.image))

    def test_core_tags_set_the_type_of_a_value(self):
        (cluster,) = read(
            'cluster: web\ntemplate: t\nimage: !!str 24.10\nkeys: !!seq [! 3]\n'
        ).clusters
        self.assertEqual(('24.10', ('3',)), (cluster.machine.image, cluster.machine.keys))

    def test_an_empty_file_is_reported_with_advice(self):
        for page in ('', '# a comment\n', '---\n---\n'):
            with self.assertRaisesRegex(InvalidCluster, 'begin it with cluster: NAME'):
                read(page)


class Counts(unittest.TestCase):
    def test_003_1_nodes_are_spread_over_zones_evenly_or_by_count(self):
        for written, zones in (
            ('count: 4', Zones()),
            ('count: 4, zones: any', Zones()),
            ('count: 4, zones: spread', Zones(rule=ZoneRule.SPREAD)),
            ('count: 4, zones: [az1, az2]', Zones(rule=ZoneRule.EVEN, names=('az1', 'az2'))),
            ('zones: {az1: 3, az2: 1}', Zones(rule=ZoneRule.COUNTS, counts={'az1': 3, 'az2': 1})),
        ):
            with self.subTest(written):
                self.assertEqual(Shape(count=4, zones=zones), one_group(written).shape)

    def test_003_2_a_group_can_have_several_flavors(self):
        shape = one_group('count: 15, flavors: {x: 10, y: 5}, zones: [az1, az2]').shape
        self.assertEqual((15, {'x': 10, 'y': 5}), (shape.count, shape.flavors))

    def test_003_9_ten_nodes_of_flavor_x_and_five_of_flavor_y(self):
        shape = one_group('flavors: {flavor_x: 10, flavor_y: 5}').shape
        self.assertEqual(Shape(count=15, flavors={'flavor_x': 10, 'flavor_y': 5}), shape)

    def test_003_9_counts_that_do_not_agree_are_reported_once(self):
        with self.assertRaises(InvalidCluster) as caught:
            one_group('count: 12, flavors: {x: 10, y: 5}')
        (problem,) = caught.exception.problems
        self.assertIn('count is 12, but flavors add up to 15', problem.message)

    def test_placements_define_flavor_and_zone(self):
        shape = one_group(
            'placements: [{flavor: x, zone: az1, count: 3}, {flavor: y, zone: az1, count: 0}]'
        ).shape
        placements = {Place('x', 'az1'): 3, Place('y', 'az1'): 0}
        self.assertEqual(Shape(count=3, placements=placements), shape)

    def test_a_group_can_be_empty(self):
        self.assertEqual(0, one_group('count: 0, max_count: 9').shape.count)

    def test_000_20_a_cluster_can_have_groups_of_many_kinds(self):
        (cluster,) = read("""
cluster: mixed
nodegroups:
  - {name: control, role: control, count: 3, flavor: small, image: fedora, compute_driver: nova}
  - {name: metal, count: 2, server_type: bare_metal, compute_driver: ironic}
  - {name: test, flavors: {x: 1, y: 1}, server_type: container, compute_driver: docker}
""").clusters
        self.assertEqual(
            [
                ('nova', None),
                ('ironic', AmphoraType.BARE_METAL),
                ('docker', AmphoraType.CONTAINER),
            ],
            [(one.machine.compute_driver, one.machine.server_type) for one in cluster.groups],
        )


class Places(unittest.TestCase):
    def setUp(self):
        (self.document,) = read(PAGE, 'web.yaml').documents

    def located(self, path):
        problem = self.document.located(Problem(message='It does not exist.', path=path))
        self.assertEqual(('web.yaml', path), (problem.file, problem.path))
        return problem.line, problem.column

    def test_a_later_problem_gets_its_line(self):
        self.assertEqual((5, 8), self.located('image'))
        self.assertEqual((17, 25), self.located('nodegroups[1].flavors.flavor_x'))

    def test_a_problem_with_a_missing_value_gets_the_position_of_its_parent(self):
        for path in (
            'nodegroups[1].flavor', 'nodegroups[1].keys[0]', 'nodegroups[1].machine.image.os',
        ):  # fmt: skip
            self.assertEqual((16, 5), self.located(path))
        self.assertEqual((2, 1), self.located('sec_groups'))
        self.assertEqual((2, 1), self.located(''))
        self.assertEqual((11, 3), self.located('nodegroups[7].image'))
