"""YAML scalars: read only where YAML 1.1 and 1.2 agree."""

import unittest

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kiln.yaml_schema.ambiguous_scalars import resolved
from kiln.yaml_schema.nodes import Doubtful
from tests.unit.cluster_file.strategies import CALM

#: Text in YAML 1.2; PyYAML returns another value only for timestamps.
DATES_AND_SIGNS = [f'tag:yaml.org,2002:{name}' for name in ('timestamp', 'value', 'merge')]
SIGNS = st.text(st.sampled_from('0123456789+-.:_eExXoObBaAnNfFtTrRyYsS~/'), max_size=8)


class Scalars(unittest.TestCase):
    def test_words_and_numbers(self):
        for text, value in (
            ('', None), ('~', None), ('null', None), ('true', True), ('False', False), ('0', 0),
            ('-12', -12), ('+3', 3), ('0x1F', 31), ('1.50', 1.5), ('.5', 0.5), ('1.5e+3', 1500.0),
            ('small', 'small'), ('m1.small', 'm1.small'), ('2024-01-31', '2024-01-31'),
            ('40%', '40%'), ('1h30m', '1h30m'), ('10.0.0.1', '10.0.0.1'), ('-', '-'), ('.', '.'),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertEqual((type(value), value), (type(resolved(text)), resolved(text)))

    def test_ambiguous_scalars_are_not_guessed(self):
        for text in (
            'yes', 'Off', '010', '0o10', '0b1', '1_000', '0x_1', '12:30', '1:30:00.5', '1e5',
            '1.5e3', '.inf', '-.INF', '.NaN', '1.0e+999', '1' * 16,
        ):  # fmt: skip
            with self.subTest(text):
                self.assertIsInstance(resolved(text), Doubtful)

    @CALM
    @given(SIGNS)
    @example('-0')
    @example('=')
    def test_pyyaml_agrees_on_unambiguous_scalars(self, text):
        ours = resolved(text)
        # PyYAML reads a number with a sign before the point as text.
        if isinstance(ours, Doubtful) or text[:2] in ('-.', '+.'):
            return
        loader = yaml.SafeLoader('')
        tag = loader.resolve(yaml.ScalarNode, text, (True, False))
        if tag in DATES_AND_SIGNS:
            tag = 'tag:yaml.org,2002:str'
        theirs = loader.construct_object(yaml.ScalarNode(tag, text))
        self.assertEqual((type(theirs), theirs), (type(ours), ours))
