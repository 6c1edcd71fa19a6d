"""Outline of a class: what a reader of a contract needs, and nothing else."""

import unittest

from kiln.plugins.outline import members_of, outline


class Sample:
    """Does things."""

    # Not for readers.
    #: How many.
    count = 3
    #: Inner.
    _inner = 4

    def go(self, far):
        """Go."""
        return far

    # ---- rest

    def stay(self):
        return 1

    @staticmethod
    def _hide():
        """Hide."""


OUTLINE = '''\
class Sample:
    """Does things."""

    #: How many.
    count = 3

    def go(self, far):
        """Go."""'''


class OutlineTest(unittest.TestCase):
    def test_code_comments_and_private_members_are_left_out(self):
        self.assertEqual(OUTLINE, outline(Sample).partition('\n\n    def stay')[0])
        for hidden in ('_inner', '_hide', 'static', 'return far', 'Not for', '----', 'Inner'):
            self.assertNotIn(hidden, outline(Sample))

    def test_one_member_has_the_head_of_its_class(self):
        self.assertEqual(
            'class Sample:\n\n    #: How many.\n    count = 3', outline(Sample, 'count')
        )

    def test_members_are_those_that_the_class_itself_defines(self):
        self.assertEqual(['count', 'go', 'stay'], members_of(Sample))
