"""The kit can fail: each wrong driver is caught by what it breaks, and by nothing else."""

import re
import unittest

from kiln.testing.conformance import BehaviourOutcome, run_conformance
from tests.conformance.zoo import ZOO

TIMEOUT_S = 120


def judged(animal):
    """Run the whole kit on an animal."""
    return run_conformance(animal, port_ids=['port-1'], network_ids=['net-1'], timeout_s=TIMEOUT_S)


class ZooTest(unittest.TestCase):
    def test_the_zoo_is_large(self):
        self.assertGreaterEqual(len(ZOO), 25)

    def test_no_two_animals_have_one_name(self):
        self.assertEqual(len({animal.__name__ for animal in ZOO}), len(ZOO))


def _test_of(animal, caught_by):
    def test(self):
        report = judged(animal)
        self.assertEqual(report.of(BehaviourOutcome.FAILED), caught_by, report.render())

    words = re.sub('(?<=[a-z])(?=[A-Z])', '_', animal.__name__).lower()
    test.__name__ = f'test_the_kit_catches_who_{words}'
    return test


for _animal, _caught_by in ZOO.items():
    _test = _test_of(_animal, _caught_by)
    setattr(ZooTest, _test.__name__, _test)
