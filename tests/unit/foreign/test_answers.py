"""Answers of a bounded size and depth."""

import io
import json
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.foreign.answers import DEEPEST, Flood, NotJson, parse_json, read_at_most


class Sizes(unittest.TestCase):
    def test_an_answer_of_the_largest_size_is_read_and_a_larger_one_refused(self):
        self.assertEqual(read_at_most(io.BytesIO(b'abc'), 3), b'abc')
        with self.assertRaisesRegex(Flood, 'more than 2 bytes'):
            read_at_most(io.BytesIO(b'abc'), 2)

    def test_no_more_is_read_than_is_needed_to_refuse_it(self):
        stream = io.BytesIO(b'x' * 1000)
        with self.assertRaises(Flood):
            read_at_most(stream, 10)
        self.assertEqual(stream.tell(), 11)


class Depths(unittest.TestCase):
    def test_a_number_that_is_not_finite_is_no_json(self):
        for text in 'NaN', '-Infinity', '[1e999]', '{"a": -1e999}':
            with self.subTest(text), self.assertRaises(NotJson):
                parse_json(text)
        self.assertEqual([1.5, 1e300, 10**30], parse_json(f'[1.5, 1e300, {10**30}]'))

    def test_json_of_the_deepest_kind_is_read_and_a_deeper_one_refused(self):
        self.assertTrue(parse_json(b'[' * DEEPEST + b']' * DEEPEST))
        for text in (b'[' * (DEEPEST + 1), b'{"a":' * 200_000, b'["",{"":' * 60):
            with self.assertRaisesRegex(NotJson, 'nested'):
                parse_json(text)

    def test_brackets_in_strings_are_no_depth(self):
        self.assertEqual(parse_json(json.dumps('[{\\"' * 500)), '[{\\"' * 500)

    def test_what_is_not_json_is_refused(self):
        for text in (b'', b'{', b'\xff\xfe', b'1' * 5000, 'é{', b'"\\'):
            with self.assertRaises(NotJson):
                parse_json(text)

    @given(st.recursive(st.none() | st.text() | st.integers(), lambda of: st.lists(of)
                        | st.dictionaries(st.text(), of), max_leaves=20))  # fmt: skip
    def test_a_document_is_read_as_the_library_reads_it(self, value):
        self.assertEqual(parse_json(json.dumps(value).encode()), value)
