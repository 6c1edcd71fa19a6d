"""Cluster file writer: readable files that read as the same values."""

import unittest

from hypothesis import given

from kiln.cluster_file.reading import read
from kiln.cluster_file.writing import dump
from kiln.clusters.spec import ClusterSpec, ClusterTemplate, MachineSpec, NodeGroupSpec, Shape
from tests.unit.cluster_file.strategies import CLUSTERS, FEW, TEMPLATES

PAGE = """\
template: base
image: ubuntu
keys: []
parameters:
  motd: |
    Welcome.
    Be kind.
  version: '1.10'
---
cluster: web
template: base
create_timeout: 1h30m
nodegroups:
  - name: control
    role: control
    count: 3
    zones: spread
  - name: work
    flavors: {x: 10, y: 5}
    zones: {az1: 8, az2: 7}
    strategy: {max_surge: 20%, max_unavailable: 2}
    health: {startup_timeout: 90s, unhealthy_after: 0.5}
""".replace('90s', '1m30s').replace('0.5', '2.5')


class Writing(unittest.TestCase):
    def test_the_file_is_written_as_by_hand(self):
        file = read(PAGE)
        self.assertEqual(PAGE, dump(*file.templates, *file.clusters))

    def test_defaults_are_not_written(self):
        group = NodeGroupSpec(name='all', shape=Shape(count=1))
        self.assertEqual(
            'cluster: web\nnodegroups:\n  - name: all\n    count: 1\n',
            dump(ClusterSpec(name='web', groups=(group,))),
        )

    def test_a_template_can_be_empty(self):
        self.assertEqual('template: base\n', dump(ClusterTemplate(name='base')))

    def test_ambiguous_text_is_quoted(self):
        spec = ClusterTemplate(name='1.10', machine=MachineSpec(image='yes', flavor='1e5'))
        self.assertEqual("template: '1.10'\nimage: 'yes'\nflavor: '1e5'\n", dump(spec))

    @FEW
    @given(CLUSTERS)
    def test_any_cluster_reads_as_the_same(self, cluster):
        self.assertEqual((cluster,), read(dump(cluster)).clusters)

    @FEW
    @given(TEMPLATES)
    def test_any_template_reads_as_the_same(self, template):
        self.assertEqual((template,), read(dump(template)).templates)
