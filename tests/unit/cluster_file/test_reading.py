"""A page of YAML becomes clusters and templates."""

import unittest

from kiln.cluster_exceptions import InvalidCluster, Problem
from kiln.cluster_file.reading import read
from kiln.cluster_spec import (
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
    def test_a_cluster_as_people_write_it(self):
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

    def test_several_documents_are_templates_and_clusters(self):
        file = read('template: a\n---\ncluster: b\ntemplate: d\n---\ntemplate: c\n--- # end\n')
        self.assertEqual(['a', 'c'], [one.name for one in file.templates])
        self.assertEqual(['b'], [one.name for one in file.clusters])

    def test_a_template_may_be_one_that_only_the_store_has(self):
        (cluster,) = read('cluster: b\ntemplate: elsewhere\n').clusters
        self.assertEqual(('elsewhere', ()), (cluster.template, cluster.groups))

    def test_a_template_of_the_file_must_have_the_groups_that_a_cluster_leaves_to_it(self):
        with self.assertRaises(InvalidCluster):
            read('template: a\n---\ncluster: b\ntemplate: a\n')
        groups = 'nodegroups: [{name: work, count: 1}]\n'
        read(f'template: a\n---\ncluster: b\ntemplate: a\n{groups}')
        read(f'template: a\n{groups}---\ncluster: b\ntemplate: a\n')

    def test_anchors_and_merges_save_words(self):
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
        # Of several that are merged, the first wins.
        self.assertEqual(('big', 'web'), (most.machine.flavor, most.machine.image))

    def test_core_tags_say_what_a_value_is(self):
        (cluster,) = read(
            'cluster: web\ntemplate: t\nimage: !!str 24.10\nkeys: !!seq [! 3]\n'
        ).clusters
        self.assertEqual(('24.10', ('3',)), (cluster.machine.image, cluster.machine.keys))

    def test_a_file_with_nothing_in_it_says_how_to_begin(self):
        for page in ('', '# a comment\n', '---\n---\n'):
            with self.assertRaisesRegex(InvalidCluster, 'begin it with cluster: NAME'):
                read(page)


class Counts(unittest.TestCase):
    def test_003_1_nodes_go_over_zones_evenly_or_by_count(self):
        for written, zones in (
            ('count: 4', Zones()),
            ('count: 4, zones: any', Zones()),
            ('count: 4, zones: spread', Zones(rule=ZoneRule.SPREAD)),
            ('count: 4, zones: [az1, az2]', Zones(rule=ZoneRule.EVEN, names=('az1', 'az2'))),
            ('zones: {az1: 3, az2: 1}', Zones(rule=ZoneRule.COUNTS, counts={'az1': 3, 'az2': 1})),
        ):
            with self.subTest(written):
                self.assertEqual(Shape(count=4, zones=zones), one_group(written).shape)

    def test_003_2_one_group_has_several_flavors(self):
        shape = one_group('count: 15, flavors: {x: 10, y: 5}, zones: [az1, az2]').shape
        self.assertEqual((15, {'x': 10, 'y': 5}), (shape.count, shape.flavors))

    def test_003_9_ten_nodes_of_flavor_x_and_five_of_flavor_y(self):
        shape = one_group('flavors: {flavor_x: 10, flavor_y: 5}').shape
        self.assertEqual(Shape(count=15, flavors={'flavor_x': 10, 'flavor_y': 5}), shape)

    def test_003_9_counts_that_do_not_agree_are_one_mistake_that_names_them(self):
        with self.assertRaises(InvalidCluster) as caught:
            one_group('count: 12, flavors: {x: 10, y: 5}')
        (problem,) = caught.exception.problems
        self.assertIn('count is 12, but flavors add up to 15', problem.message)

    def test_placements_say_flavor_and_zone_at_once(self):
        shape = one_group(
            'placements: [{flavor: x, zone: az1, count: 3}, {flavor: y, zone: az1, count: 0}]'
        ).shape
        placements = {Place('x', 'az1'): 3, Place('y', 'az1'): 0}
        self.assertEqual(Shape(count=3, placements=placements), shape)

    def test_a_group_may_be_empty_for_now(self):
        self.assertEqual(0, one_group('count: 0, max_count: 9').shape.count)

    def test_000_20_one_cluster_is_of_many_kinds(self):
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
        problem = self.document.located(Problem(message='There is none.', path=path))
        self.assertEqual(('web.yaml', path), (problem.file, problem.path))
        return problem.line, problem.column

    def test_what_is_found_out_later_has_its_line_too(self):
        self.assertEqual((5, 8), self.located('image'))
        self.assertEqual((17, 25), self.located('nodegroups[1].flavors.flavor_x'))

    def test_what_is_not_written_has_the_place_it_would_be_in(self):
        for path in (
            'nodegroups[1].flavor', 'nodegroups[1].keys[0]', 'nodegroups[1].machine.image.os',
        ):  # fmt: skip
            self.assertEqual((16, 5), self.located(path))
        self.assertEqual((2, 1), self.located('sec_groups'))
        self.assertEqual((2, 1), self.located(''))
        self.assertEqual((11, 3), self.located('nodegroups[7].image'))
