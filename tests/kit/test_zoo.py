"""The kit can fail: each wrong driver is caught by what it breaks, and by nothing else.

A soak (KILN_FULL) judges every animal by the whole kit. Otherwise each is judged by the
behaviours that must catch it, and by a part of the others, which is another part for the
next animal: every behaviour meets animals that it must let pass.
"""

import os
import re
import unittest

from kiln.compute.facade import Compute
from kiln.testing.conformance import BehaviourOutcome, run_conformance
from kiln.testing.conformance.suite import behaviours
from tests.kit.zoo import ZOO
from tests.kit.zoo.species import HELPLESS, NoopAnimal

#: On a virtual clock, so that no machine is too busy for it.
TIMEOUT_S = 120
#: One in so many of the behaviours that must not catch an animal is tried.
STRIDE = 1 if os.environ.get('KILN_FULL') else 20

#: What every failure tells, and what nobody but Python says.
FAILURE = re.compile(r'\AExpected: .+\.\nSeen instead: .+\.\nRead: .+\.\Z', re.DOTALL)
NO_WORDS = re.compile(r' != |not raised|<class |<State|object at 0x|AssertionError')

KIT = [name for _, _, name in behaviours()]


def tried(number, animal, caught_by, stride):
    """Return the behaviours that an animal is judged by."""
    others = () if animal in HELPLESS else KIT[number % stride :: stride]
    return {*caught_by, *others}


def judged(animal, names):
    """Run a part of the kit on an animal."""
    driver, guards = animal, Compute
    if issubclass(animal, Compute):
        # The guards are wrong, around a driver that is right.
        driver, guards = NoopAnimal, animal
    return run_conformance(
        driver,
        guards=guards,
        select=names,
        port_ids=['port-1', 'port-2'],
        network_ids=['net-1'],
        timeout_s=TIMEOUT_S,
    )


class ZooTest(unittest.TestCase):
    def test_the_zoo_is_large(self):
        self.assertGreaterEqual(len(ZOO), 25)

    def test_no_two_animals_have_one_name(self):
        self.assertEqual(len({animal.__name__ for animal in ZOO}), len(ZOO))

    def test_every_behaviour_is_tried_on_animals_that_it_must_let_pass(self):
        passing = [
            name
            for number, (animal, caught_by) in enumerate(ZOO.items())
            for name in tried(number, animal, caught_by, STRIDE) - caught_by
        ]
        few = {name: passing.count(name) for name in KIT if passing.count(name) < 5}
        self.assertEqual({}, few)

    def test_a_soak_tries_the_whole_kit_on_every_animal(self):
        self.assertEqual(set(KIT), tried(3, NoopAnimal, (), stride=1))


def _test_of(number, animal, caught_by):
    def test(self):
        names = tried(number, animal, caught_by, STRIDE)
        report = judged(animal, names)
        self.assertEqual(names, {one.name for one in report.results})
        self.assertEqual(report.of(BehaviourOutcome.FAILED), caught_by, report.render())
        for one in report.results:
            if one.outcome is BehaviourOutcome.FAILED:
                self.assertRegex(one.reason, FAILURE)
                self.assertNotRegex(one.reason, NO_WORDS)

    words = re.sub('(?<=[a-z])(?=[A-Z])', '_', animal.__name__).lower()
    test.__name__ = f'test_the_kit_catches_who_{words}'
    return test


for _number, (_animal, _caught_by) in enumerate(ZOO.items()):
    _test = _test_of(_number, _animal, _caught_by)
    setattr(ZooTest, _test.__name__, _test)
