"""Serialization for the store: data are restored exactly, or refused."""

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
    def test_any_cluster_is_restored(self, cluster):
        self.assertEqual(cluster, stored(cluster))

    @FEW
    @given(TEMPLATES)
    def test_any_template_is_restored(self, template):
        self.assertEqual(template, stored(template))

    @FEW
    @given(groups())
    def test_any_group_is_restored(self, group):
        self.assertEqual(group, stored(group))

    def test_defaults_are_stored(self):
        document = to_document(ClusterSpec(name='web', groups=(GROUP,)))
        self.assertEqual(3600.0, document['create_timeout_s'])
        self.assertEqual(
            {'amount': 1, 'percent': False}, document['groups'][0]['strategy']['max_surge']
        )

    def test_values_that_the_reader_refuses_are_stored(self):
        # An engine can leave a group outside its bounds temporarily.
        group = NodeGroupSpec(name='work', shape=Shape(count=1), min_count=5)
        self.assertEqual(group, stored(group))


class Refusal(unittest.TestCase):
    def refused(self, change, kind=NodeGroupSpec):
        document = to_document(GROUP)
        change(document)
        with self.assertRaises(StoreError) as caught:
            from_document(kind, document)
        return str(caught.exception)

    def test_a_key_of_a_newer_version_is_reported(self):
        said = self.refused(lambda it: it['health'].update(doctor='new'))
        self.assertIn('NodeGroupSpec.health.doctor: this version does not know the key', said)
        self.assertIn('a newer version of kiln', said)

    def test_missing_keys_of_an_older_version_have_their_defaults(self):
        document = to_document(GROUP)
        del document['health'], document['role']
        self.assertEqual(GROUP, from_document(NodeGroupSpec, document))

    def test_a_missing_required_key_is_refused(self):
        said = self.refused(lambda it: it['shape'].pop('count'))
        self.assertIn('NodeGroupSpec.shape: something is missing', said)

    def test_a_value_of_the_wrong_type_is_reported(self):
        for change, said in (
            ({'min_count': True}, 'min_count: bool instead of int'),
            ({'min_count': 1.0}, 'min_count: float instead of int'),
            ({'name': None}, 'name: NoneType instead of str'),
            ({'shape': []}, 'shape: list instead of dict'),
            ({'deletion': {}}, 'deletion: dict instead of list'),
            ({'deletion': ['oldest']}, "deletion[0]: 'oldest' is not one of explicit, failed"),
        ):
            with self.subTest(said):
                self.assertIn(
                    f'NodeGroupSpec.{said}', self.refused(lambda it, c=change: it.update(c))
                )

    def test_damaged_placements_are_reported(self):
        said = self.refused(lambda it: it['shape'].update(placements=[[1]]))
        self.assertIn('NodeGroupSpec.shape.placements: a pair is damaged', said)

    def test_a_float_without_fraction_is_read(self):
        document = to_document(ClusterTemplate(name='base', groups=(GROUP,)))
        document['groups'][0]['health']['startup_timeout_s'] = 600
        self.assertEqual(
            600.0, from_document(ClusterTemplate, document).groups[0].health.startup_timeout_s
        )
