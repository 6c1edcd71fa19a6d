"""Names of stacks, by which the stack of a build is found again."""

import re
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.heat.building.names import stack_name

#: What Heat accepts.
NAME = re.compile(r'[a-zA-Z][a-zA-Z0-9_.-]{0,254}')
OWNERS = st.from_regex(r'[A-Za-z0-9][A-Za-z0-9._-]{0,31}', fullmatch=True)
KEYS = st.from_regex(r'[A-Za-z0-9.:_-]{1,48}', fullmatch=True)


class Names(unittest.TestCase):
    @given(OWNERS, KEYS)
    def test_heat_accepts_the_name_of_every_build(self, owner, key):
        self.assertTrue(NAME.fullmatch(stack_name(owner, key)))
        self.assertEqual(stack_name(owner, key), stack_name(owner, key))

    @given(st.tuples(OWNERS, KEYS), st.tuples(OWNERS, KEYS))
    def test_two_builds_never_have_one_name(self, one, other):
        same = stack_name(*one).lower() == stack_name(*other).lower()
        self.assertEqual(one == other, same)

    def test_names_differ_where_builds_differ_only_in_capitals_or_in_where_a_dash_is(self):
        names = {
            stack_name(*one).lower()
            for one in (('a', 'K'), ('a', 'k'), ('a-a', 'k'), ('a', 'a-k'))
        }
        self.assertEqual(4, len(names))
