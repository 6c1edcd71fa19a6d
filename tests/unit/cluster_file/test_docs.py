"""Examples in the guide to the cluster file."""

import pathlib
import re
import textwrap
import unittest

from kiln.cluster_file.merging import combined
from kiln.cluster_file.reading import read
from tests.unit.yaml_schema.test_mistake_list import problems

GUIDE = pathlib.Path(__file__).parents[3] / 'doc/source/user/cluster-file.rst'
BLOCKS = [
    textwrap.dedent(block)
    for block in re.findall(
        r'\.\. code-block:: yaml\n\n((?:   .*\n|\n(?=   ))+)', GUIDE.read_text()
    )
]


class Guide(unittest.TestCase):
    def test_the_first_example_is_a_cluster(self):
        (cluster,) = read(BLOCKS[0]).clusters
        self.assertEqual([3, 15], [group.shape.count for group in cluster.groups])

    def test_each_form_of_counts_is_valid(self):
        count, flavors, spread, *zones, placements = re.split(r'\n(?=\w)', BLOCKS[1].strip())
        for ways in ([count, spread], [flavors], *([count, one] for one in zones), [placements]):
            group = textwrap.indent('\n'.join(['name: work', *ways]), '    ')
            with self.subTest(group):
                (cluster,) = read(f'cluster: web\nnodegroups:\n  -\n{group}\n').clusters
                self.assertEqual(15, cluster.groups[0].shape.count)

    def test_the_settings_for_changes_are_valid(self):
        group = textwrap.indent('name: work\ncount: 9\n' + BLOCKS[2], '    ')
        (cluster,) = read(f'cluster: web\nnodegroups:\n  -\n{group}').clusters
        self.assertEqual(600.0, cluster.groups[0].health.startup_timeout_s)

    def test_a_group_of_the_cluster_replaces_a_group_of_the_template(self):
        file = read(BLOCKS[3])
        cluster = combined(file.templates[0], file.clusters[0])
        self.assertEqual(
            {'control': 3, 'work': 20}, {one.name: one.shape.count for one in cluster.groups}
        )

    def test_the_example_of_anchors_is_valid(self):
        (cluster,) = read(f'cluster: web\n{BLOCKS[4]}').clusters
        self.assertEqual({'ubuntu-24.04'}, {one.machine.image for one in cluster.groups})

    def test_mistakes_are_reported_as_shown(self):
        wrong = BLOCKS[0].replace('count: 3', "count: '3'", 1)
        wrong = wrong.replace('flavor: m1.medium', 'flavour: m1.medium').replace(
            'az2: 7', 'az2: 8'
        )
        shown = re.findall(r'^   (web\.yaml:.*)$', GUIDE.read_text(), re.MULTILINE)
        self.assertEqual(shown, [str(one) for one in problems(wrong, 'web.yaml')])
