"""What the store keeps comes back as it was, or is refused."""

import json
import unittest

from hypothesis import given

from kiln.cluster_exceptions import StoreError
from kiln.cluster_file.document import from_document, to_document
from kiln.cluster_spec import ClusterSpec, ClusterTemplate, NodeGroupSpec, Place, Shape
from tests.unit.cluster_file.strategies import CLUSTERS, FEW, TEMPLATES, groups

GROUP = NodeGroupSpec(
    name='work', shape=Shape(count=2, placements={Place('x', 'az1'): 1, Place('x'): 1})
)


def stored(value):
    return from_document(type(value), json.loads(json.dumps(to_document(value))))


class RoundTrip(unittest.TestCase):
    @FEW
    @given(CLUSTERS)
    def test_any_cluster_comes_back_as_it_was(self, cluster):
        self.assertEqual(cluster, stored(cluster))

    @FEW
    @given(TEMPLATES)
    def test_any_template_comes_back_as_it_was(self, template):
        self.assertEqual(template, stored(template))

    @FEW
    @given(groups())
    def test_any_group_comes_back_as_it_was(self, group):
        self.assertEqual(group, stored(group))

    def test_it_is_complete_so_that_no_default_can_change_it(self):
        document = to_document(ClusterSpec(name='web', groups=(GROUP,)))
        self.assertEqual(3600.0, document['create_timeout_s'])
        self.assertEqual(
            {'amount': 1, 'percent': False}, document['groups'][0]['strategy']['max_surge']
        )

    def test_what_the_reader_would_refuse_is_kept_too(self):
        # An engine may leave a group outside its bounds for a while.
        group = NodeGroupSpec(name='work', shape=Shape(count=1), min_count=5)
        self.assertEqual(group, stored(group))


class Refusal(unittest.TestCase):
    def refused(self, change, kind=NodeGroupSpec):
        document = to_document(GROUP)
        change(document)
        with self.assertRaises(StoreError) as caught:
            from_document(kind, document)
        return str(caught.exception)

    def test_a_key_of_a_newer_version_is_named(self):
        said = self.refused(lambda it: it['health'].update(doctor='who'))
        self.assertIn('NodeGroupSpec.health.doctor: this version knows no such key', said)
        self.assertIn('A newer kiln', said)

    def test_what_an_older_version_did_not_write_is_as_by_default(self):
        document = to_document(GROUP)
        del document['health'], document['role']
        self.assertEqual(GROUP, from_document(NodeGroupSpec, document))

    def test_what_must_be_there_is_missed(self):
        said = self.refused(lambda it: it['shape'].pop('count'))
        self.assertIn('NodeGroupSpec.shape: something is missing', said)

    def test_what_is_not_of_its_type_is_named(self):
        for change, said in (
            ({'min_count': True}, 'min_count: bool in the place of int'),
            ({'min_count': 1.0}, 'min_count: float in the place of int'),
            ({'name': None}, 'name: NoneType in the place of str'),
            ({'shape': []}, 'shape: list in the place of dict'),
            ({'deletion': {}}, 'deletion: dict in the place of list'),
            ({'deletion': ['oldest']}, "deletion[0]: 'oldest' is none of explicit, failed"),
        ):
            with self.subTest(said):
                self.assertIn(
                    f'NodeGroupSpec.{said}', self.refused(lambda it, c=change: it.update(c))
                )

    def test_broken_placements_are_named(self):
        said = self.refused(lambda it: it['shape'].update(placements=[[1]]))
        self.assertIn('NodeGroupSpec.shape.placements: a pair is broken', said)

    def test_a_number_that_lost_its_fraction_is_still_one(self):
        document = to_document(ClusterTemplate(name='base', groups=(GROUP,)))
        document['groups'][0]['health']['startup_timeout_s'] = 600
        self.assertEqual(
            600.0, from_document(ClusterTemplate, document).groups[0].health.startup_timeout_s
        )
