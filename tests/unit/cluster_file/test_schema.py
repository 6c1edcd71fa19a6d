"""The JSON schema and the reader agree."""

import json
import unittest

import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kiln.cluster_file.fields import CLUSTER, RECORDS, json_schema
from kiln.cluster_file.reading import read
from kiln.cluster_file.writing import dump
from kiln.clusters.exceptions import InvalidCluster
from kiln.yaml_schema.mistake_list import Mistakes
from kiln.yaml_schema.nodes import plain
from kiln.yaml_schema.reader import documents
from tests.unit.cluster_file.strategies import CALM, CLUSTERS, FEW, TEMPLATES
from tests.unit.cluster_file.test_fuzz import STRUCTURES
from tests.unit.yaml_schema.test_mistake_list import PAGE

VALIDATOR = Draft202012Validator(json_schema())


def refused_by_schema(page):
    return any(not VALIDATOR.is_valid(plain(root)) for root in documents(page, Mistakes()))


def refused_by_reader(page):
    try:
        read(page)
    except InvalidCluster:
        return True
    return False


def group(text):
    return f'cluster: web\nnodegroups:\n  - {text}\n'


class Schema(unittest.TestCase):
    def test_the_schema_is_valid_json(self):
        Draft202012Validator.check_schema(json.loads(json.dumps(json_schema())))

    def test_every_key_is_described(self):
        for record in RECORDS:
            for name, schema in record.schema()['properties'].items():
                with self.subTest(f'{record.title}: {name}'):
                    self.assertRegex(schema['description'], r'^[A-Z].*\.$')

    def test_defaults_have_their_written_form(self):
        properties = CLUSTER.schema()['properties']
        self.assertEqual('1h', properties['create_timeout']['default'])
        health = properties['nodegroups']['items']['properties']['health']['properties']
        self.assertEqual('40%', health['max_unhealthy']['default'])
        self.assertNotIn('default', properties['image'])

    @FEW
    @given(CLUSTERS | TEMPLATES)
    def test_schema_and_reader_accept_what_kiln_writes(self, value):
        page = dump(value)
        self.assertFalse(refused_by_schema(page))
        self.assertFalse(refused_by_reader(page))

    @CALM
    @given(st.dictionaries(st.sampled_from(sorted(CLUSTER.fields)), STRUCTURES))
    def test_the_reader_refuses_what_the_schema_refuses(self, value):
        page = yaml.dump({'cluster': 'web', **value})
        self.assertGreaterEqual(refused_by_reader(page), refused_by_schema(page))

    def test_schema_and_reader_refuse_invalid_values(self):
        for page in (
            'a: b', '- a', 'cluster: web', 'template: t\nnodegroups: []',
            'cluster: Web\ntemplate: t',
            'cluster: web\ntemplate: t\nkeys: mine', 'cluster: web\ntemplate: t\ncolour: blue',
            'cluster: web\ntemplate: t\nkeys: [a, a]', 'cluster: web\ntemplate: t\nflavor:',
            'cluster: web\ntemplate: t\ncreate_timeout: 10 minutes',
            'template: t\ncreate_timeout: 10m', 'cluster: web\ntemplate: t\ncreate_timeout: ""',
            group('{name: work}'), group('{name: work, zones: [a]}'), group('{count: 3}'),
            group('{name: work, count: "3"}'), group('{name: work, count: -1}'),
            group('{name: work, flavors: {}}'), group('{name: work, flavors: [x]}'),
            group('{name: work, count: 1, zones: sprad}'), group('{name: work, placements: []}'),
            group('{name: work, placements: [{flavor: x, count: 3}]}'),
            group('{name: work, count: 1, strategy: {max_surge: 140%}}'),
            group('{name: work, count: 1, health: {startup_timeout: 0}}'),
            group('{name: work, count: 1, deletion: [oldest]}'),
        ):  # fmt: skip
            with self.subTest(page):
                self.assertTrue(refused_by_schema(page))
                self.assertTrue(refused_by_reader(page))

    def test_contradictions_between_values_are_left_to_the_reader(self):
        left = [
            plain(root).get('cluster')
            for root in documents(PAGE.read_bytes(), Mistakes())
            if VALIDATOR.is_valid(plain(root))
        ]
        # Duplicate names, empty templates; the last document is valid.
        self.assertEqual(['twice', 'twice', None, None, 'empty-too', 'good'], left)
