"""The kit for cluster drivers catches all that are wrong, and those that are right pass."""

import unittest

from kiln.testing.clusters import run_cluster_conformance
from kiln.testing.clusters.behaviours.answers import Answers
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.conformance.report.showing import show
from tests.conformance import cluster_animals as animals
from tests.unit.foreign_driver import Foreign

#: Every animal, with behaviours that catch it.
ZOO = {
    animals.Forgetful: ['*by_each_call*', '*same_by_another_process'],
    animals.Hasty: ['*by_another_process'],
    animals.Large: ['*no_more_than_backends_take'],
    animals.Talkative: ['secrets*'],
    animals.Yes: ['*drained_is_said_soon'],
    animals.Misspelt: ['nothing_is_called_almost*'],
    animals.Versionless: ['it_keeps*'],
    animals.Picky: ['nothing_is_wrong_with*'],
    animals.Busy: ['to_validate*'],
    animals.Careless: ['a_parameter_that*'],
    animals.Opaque: ['what_people_are_told*'],
    animals.Ruthless: ['nodes_that_may_go*'],
    animals.Mute: ['its_verbs*'],
}


def judged(animal, *names):
    select = [f'test_{name}' if name[0] != '*' else name for name in names]
    return run_cluster_conformance(f'{animal.__module__}:{animal.__name__}', select=select)


class Zoo(unittest.TestCase):
    def test_who_is_right_is_not_caught(self):
        report = judged(animals.Right, *{name for names in ZOO.values() for name in names})
        self.assertTrue(report.ok, report.render())
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.NOT_SHOWN))

    def test_who_waits_for_a_node_is_caught_by_the_deadline(self):
        class Judged(Answers, unittest.TestCase):
            driver = f'{animals.__name__}:Patient'
            soon_s = animals.PATIENCE_S

        result = show(Judged('test_readiness_of_a_node_is_reported_soon'), 'Answers', 'x')
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn('look once, never wait', result.reason)

    def test_who_measures_slowly_does_no_harm(self):
        self.assertTrue(judged(animals.Deaf, '*measuring*').ok)

    def test_of_a_driver_with_an_engine_of_its_own_kiln_shows_what_it_can(self):
        report = judged(Foreign, '*')
        self.assertTrue(report.ok, report.render())
        self.assertGreater(len(report.of(BehaviourOutcome.PASSED)), 10)
        self.assertIn('an engine of its own', report.render())


def _test_of(animal, names):
    def test(self):
        report = judged(animal, *names)
        outcomes = {one.outcome for one in report.results}
        self.assertEqual({BehaviourOutcome.FAILED}, outcomes, report.render())

    test.__name__ = f'test_the_kit_catches_who_is_{animal.__name__.lower()}'
    return test


for _animal, _names in ZOO.items():
    _test = _test_of(_animal, _names)
    setattr(Zoo, _test.__name__, _test)
