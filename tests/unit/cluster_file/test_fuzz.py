"""Fuzzing: any file is read, or its mistakes are reported; never a traceback."""

import unittest

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kiln.cluster_file.fields import CLUSTER, RECORDS
from kiln.cluster_file.reading import ClusterFile, read
from kiln.clusters.exceptions import InvalidCluster
from tests.unit.cluster_file.strategies import CALM

GOOD = """\
template: base
image: ubuntu
--- # a comment
cluster: web
template: base
parameters: {motd: "Hello\\tyou", list: [1, 2.5, true, ~]}
nodegroups:
  - &work
    name: work
    flavors: {x: 10, y: 5}
    zones: {az1: 8, az2: 7}
    strategy: {max_surge: 20%}
    health:
      startup_timeout: 1h30m
  - <<: *work
    name: more
    health: {unhealthy_after: 5}
"""
#: Texts with a special meaning in YAML.
SIGNS = st.sampled_from(
    [
        *'\t\n\r:-[]{}&*!|>%@`"\'#,?\\ ~<.+0\x85\u2028\ufeff\x00\ud800',
        *('---', '\n---\n', '...', '<<: *work', '&a ', '*a', '!!str ', '!x ', ': ', '- '),
        *('yes', '010', '1.0e+999', '"\\UFFFFFFFF"', '%YAML 1.1\n'),
    ]
)
KEYS = st.sampled_from(sorted({name for record in RECORDS for name in record.fields}))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(['spread', '40%', '10m', 'vm', 'work', 'failed']) | st.dates()
)  # fmt: skip
STRUCTURES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | SCALARS, inner, max_size=4),
    max_leaves=12,
)


class Fuzz(unittest.TestCase):
    def read(self, content):
        try:
            self.assertIsInstance(read(content), ClusterFile)
        except InvalidCluster as exc:
            self.assertTrue(exc.problems)
            for problem in exc.problems:
                self.assertGreater(min(problem.line, problem.column), 0)
                self.assertTrue(str(problem).isprintable(), str(problem))

    @CALM
    @given(st.text())
    @example('"\\U00110000"')
    @example('? - a\n: b')
    @example('*a')
    def test_any_text(self, text):
        self.read(text)

    @CALM
    @given(st.binary())
    @example(b'\xff\xfea\x00')
    def test_any_bytes(self, content):
        self.read(content)

    @CALM
    @given(st.lists(SIGNS | KEYS, max_size=30).map(''.join))
    @example('%keys')
    @example('keys : image: ')
    def test_any_sequence_of_signs(self, text):
        self.read(text)

    @CALM
    @given(STRUCTURES)
    def test_any_structure(self, value):
        self.read(yaml.dump(value, allow_unicode=True))

    @CALM
    @given(st.dictionaries(st.sampled_from(sorted(CLUSTER.fields)), STRUCTURES))
    def test_any_values_under_the_right_keys(self, value):
        self.read(yaml.dump({'cluster': 'web', **value}))

    @CALM
    @given(
        st.lists(
            st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), SIGNS | st.text(max_size=2)),
            min_size=1,
            max_size=4,
        )
    )
    def test_any_change_of_a_good_file(self, changes):
        text = GOOD
        for place, gone, new in changes:
            text = text[:place] + new + text[place + gone :]
        self.read(text)

    def test_the_unchanged_file_is_good(self):
        self.assertEqual(2, len(read(GOOD).documents))
