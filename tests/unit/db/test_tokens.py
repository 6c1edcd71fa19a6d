"""Tests of tokens: readable for one row only, whatever its cluster and name are."""

import unittest

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from kiln.db.tokens import BOUND, Cipher, Ring, UnreadableToken, new_key

CIPHER = Cipher(Ring(current=new_key()))
WORDS = st.text(max_size=20)


class Tokens(unittest.TestCase):
    def refused(self, why, token, cluster_id='c-1', name='token', cipher=CIPHER):
        with self.assertRaisesRegex(UnreadableToken, why):
            cipher.decrypt(cluster_id, name, token)

    @given(WORDS, WORDS, WORDS)
    def test_a_token_is_read_with_its_cluster_and_name(self, cluster_id, name, value):
        token = CIPHER.encrypt(cluster_id, name, value)
        self.assertEqual(value, CIPHER.decrypt(cluster_id, name, token))

    @given(st.tuples(WORDS, WORDS), st.tuples(WORDS, WORDS))
    def test_a_token_is_refused_with_any_other_cluster_or_name(self, row, other):
        hypothesis.assume(row != other)
        self.refused('another cluster or name', CIPHER.encrypt(*row, 'x'), *other)

    def test_cluster_and_name_are_not_joined(self):
        self.refused('another cluster or name', CIPHER.encrypt('c-1t', 'oken', 'x'))

    def test_equal_secrets_have_different_tokens(self):
        self.assertNotEqual(CIPHER.encrypt('c', 'n', 'x'), CIPHER.encrypt('c', 'n', 'x'))

    def test_a_changed_token_is_refused(self):
        token = CIPHER.encrypt('c-1', 'token', 'x')
        head, body = token[:12], token[12:]
        # base64 ignores some bits of the last byte.
        for place in range(len(body) - 2):
            other = 'A' if body[place] != 'A' else 'B'
            self.refused('changed', head + body[:place] + other + body[place + 1 :])
        for short in range(len(body)):
            self.refused('changed', head + body[:short])
        self.refused('changed', f'{head}\u00fc')

    def test_a_token_of_another_key_asks_for_the_key_file(self):
        other = Cipher(Ring(current=new_key()))
        self.refused('Restore the key file', other.encrypt('c-1', 'token', 'x'))
        self.refused('Restore the key file', BOUND)

    def test_each_key_of_the_ring_decrypts(self):
        one, two, three = (new_key() for _ in range(3))
        ring = Ring(current=one, upcoming=two, former=(three,))
        for key in one, two, three:
            token = Cipher(Ring(current=key)).encrypt('c-1', 'token', 'x')
            self.assertEqual('x', Cipher(ring).decrypt('c-1', 'token', token))

    def test_a_token_shows_no_part_of_a_key(self):
        key = new_key()
        self.assertNotIn(key[:8], Cipher(Ring(current=key)).encrypt('c-1', 'token', 'x'))
        self.assertNotIn(key, repr(Ring(current=key)))
