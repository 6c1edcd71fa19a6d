"""Outline of a module's names: what a reader of a contract needs, and nothing else."""

import sys
import unittest

from kiln.plugins.outline import members_of, outline

HERE = sys.modules[__name__]

# Not for readers, either.
#: The most of them.
MOST = (
    3,
    4,
)


def going(far, *, back=False):
    """Go far."""
    return far, back


class Sample:
    """Does things."""

    # Not for readers.
    #: How many.
    count = 3
    #: Inner.
    _inner = 4

    def __init__(self, far):
        self._far = far

    def __repr__(self):
        return 'sample'

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

    def __init__(self, far):

    def go(self, far):
        """Go."""'''


class OutlineTest(unittest.TestCase):
    def test_code_comments_and_private_members_are_left_out(self):
        self.assertEqual(OUTLINE, outline(HERE, 'Sample').partition('\n\n    def stay')[0])
        for hidden in ('_inner', '_hide', 'static', 'return far', 'Not for', '----', 'Inner'):
            self.assertNotIn(hidden, outline(HERE, 'Sample'))
        self.assertNotIn('__repr__', outline(HERE, 'Sample'))

    def test_a_function_has_its_arguments_and_documentation(self):
        found = 'def going(far, *, back=False):\n    """Go far."""'
        self.assertEqual(found, outline(HERE, 'going'))

    def test_a_constant_has_its_value_and_the_comment_above_it(self):
        self.assertEqual(
            '#: The most of them.\nMOST = (\n    3,\n    4,\n)', outline(HERE, 'MOST')
        )

    def test_one_member_has_the_head_of_its_class(self):
        self.assertEqual(
            'class Sample:\n\n    #: How many.\n    count = 3', outline(HERE, 'Sample', 'count')
        )

    def test_members_are_those_that_the_class_itself_defines(self):
        self.assertEqual(['count', 'go', 'stay'], members_of(HERE, 'Sample'))
        self.assertEqual([], members_of(HERE, 'going'))
