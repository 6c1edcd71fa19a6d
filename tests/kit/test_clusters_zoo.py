"""Self-test of the cluster kit: it catches wrong drivers, and correct ones pass."""

import unittest

from kiln.testing.clusters import run_cluster_conformance
from kiln.testing.clusters.behaviours.answers import Answers
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import show
from tests.kit import cluster_animals as animals

#: Every wrong driver, with the behaviours that catch it.
ZOO = {
    animals.Forgetful: ['bootstrap*in_each_call', '*in_another_process'],
    animals.Hasty: ['*in_another_process'],
    animals.Large: ['*fits_the_limits_of_backends'],
    animals.Talkative: ['secrets*'],
    animals.Yes: ['draining_of_a_node*'],
    animals.Misspelt: ['no_method_is_named_almost*'],
    animals.Versionless: ['it_keeps*'],
    animals.Picky: ['a_valid_cluster*'],
    animals.Busy: ['validating*'],
    animals.Careless: ['an_unknown_parameter*'],
    animals.Opaque: ['the_status_report*', 'outputs_are_known*'],
    animals.Gossip: ['the_store_has_no_secret*'],
    animals.Shapeless: ['each_answer_is_of_the_kind*'],
    animals.Wordy: ['each_answer_is_of_the_kind*'],
    animals.Terse: ['each_answer_is_of_the_kind*'],
    animals.Clumsy: ['each_answer_is_of_the_kind*'],
    animals.Ruthless: ['the_removal_order*'],
    animals.Restless: ['the_replacement_order*'],
    animals.Dizzy: ['a_rotation_returns*'],
    animals.Fickle: ['a_group_always*'],
    animals.Mute: ['its_verbs*'],
}


def judged(animal, *names):
    select = [f'test_{name}' if name[0] != '*' else name for name in names]
    return run_cluster_conformance(f'{animal.__module__}:{animal.__name__}', select=select)


class Zoo(unittest.TestCase):
    def test_a_correct_driver_passes(self):
        report = judged(animals.Right, *{name for names in ZOO.values() for name in names})
        self.assertTrue(report.ok, report.render())
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.NOT_SHOWN))

    def test_a_driver_that_waits_for_a_node_is_caught_by_the_deadline(self):
        class Judged(Answers, unittest.TestCase):
            driver = f'{animals.__name__}:Patient'
            soon_s = animals.PATIENCE_S

        result = show(Judged('test_readiness_of_a_node_is_reported_soon'), 'Answers')
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn('poll once, never wait', result.reason)

    def test_a_driver_that_measures_slowly_passes(self):
        self.assertTrue(judged(animals.Deaf, '*measuring*').ok)


def _test_of(animal, names):
    def test(self):
        report = judged(animal, *names)
        outcomes = {one.outcome for one in report.results}
        self.assertEqual({BehaviourOutcome.FAILED}, outcomes, report.render())

    test.__name__ = f'test_the_kit_catches_the_driver_{animal.__name__.lower()}'
    return test


for _animal, _names in ZOO.items():
    _test = _test_of(_animal, _names)
    setattr(Zoo, _test.__name__, _test)
