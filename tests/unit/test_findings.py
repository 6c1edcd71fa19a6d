"""Every finding of the review of security has a test that runs its former proof and names it."""

import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).parents[1]
FINDINGS = {
    *('H1', 'H2'),
    *('M1', 'M2', 'M3', 'M4', 'M5', 'M6'),
    *('L1', 'L2', 'L3', 'L4', 'L5', 'L6', 'L7', 'L8'),
}


class FindingsTest(unittest.TestCase):
    def test_each_finding_is_named_by_a_test(self):
        named = set()
        for path in TESTS.rglob('*.py'):
            for words in re.findall(r'Findings? ((?:[HML]\d(?:, | and )?)+)', path.read_text()):
                named |= set(re.findall(r'[HML]\d', words))
        self.assertEqual(FINDINGS, named)
