"""Outputs are stored as plain data without secrets."""

import json
import string
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.cluster_drivers.values import Context
from kiln.engine.cluster.outputs import masked, noting

WORDS = st.text(string.ascii_lowercase + string.digits + ' :/-', max_size=12)
SECRETS = st.text(string.ascii_letters + string.digits, min_size=4, max_size=8)


class Known:
    """A store whose secrets have their own values for names."""

    def get(self, name):
        return name


def noted(*secrets):
    context, found = noting(Context(secrets=Known()))
    for secret in secrets:
        context.secrets.get(secret)
    return found


@st.composite
def leaking(draw):
    """Return plain data, and a secret that some of its texts contain."""
    secret = draw(SECRETS)
    texts = st.builds(lambda before, after: before + secret + after, WORDS, WORDS) | WORDS
    leaves = texts | st.integers()
    data = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    )
    return secret, draw(st.dictionaries(texts, data, max_size=4))


class Masking(unittest.TestCase):
    @settings(max_examples=60)
    @given(leaking())
    def test_a_secret_that_was_read_is_in_no_text(self, given_data):
        secret, data = given_data
        self.assertNotIn(secret, json.dumps(masked(data, noted(secret))))

    @settings(max_examples=60)
    @given(
        st.dictionaries(st.sampled_from('abc'), st.lists(st.integers() | st.sampled_from('xyz')))
    )
    def test_data_without_secrets_stays_as_it_is(self, data):
        self.assertEqual(data, masked(data, noted('hunter2')))

    def test_a_short_secret_is_masked_where_it_is_the_whole_value(self):
        self.assertEqual({'a': '***', 'b': 'oxen'}, masked({'a': 'ox', 'b': 'oxen'}, noted('ox')))

    def test_the_longer_of_two_secrets_is_masked_as_a_whole(self):
        found = masked({'a': 'see hunter2-long'}, noted('hunter2', 'hunter2-long'))
        self.assertEqual({'a': 'see ***'}, found)

    def test_a_secret_of_digits_is_masked_as_a_number_too(self):
        self.assertEqual({'pin': ['***', 12]}, masked({'pin': [4711, 12]}, noted('4711')))

    def test_a_value_is_masked_by_a_name_that_ends_like_a_credential(self):
        found = masked(
            {'admin_password': 'x', 'token_url': 'y', 'keys': {'api-key': [1]}}, noted()
        )
        self.assertEqual(
            {'admin_password': '***', 'token_url': 'y', 'keys': {'api-key': ['***']}}, found
        )
