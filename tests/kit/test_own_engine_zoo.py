"""Self-test of the kit for engines of a driver's own: it catches wrong drivers."""

import unittest

from kiln.testing.clusters import EngineBench, OwnEngineConformance, run_cluster_conformance
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import selected, show
from tests.kit import own_engine_animals as animals
from tests.kit import own_engine_builders as builders
from tests.kit.own_engine_stack import Right
from tests.unit.foreign_driver import Foreign

#: Every wrong driver, with the behaviours that catch it.
ZOO = {
    animals.Twins: ['*repeated_without_its_handle*', '*repeated_after_its_end*'],
    animals.Touchy: ['a_repeated_creation*', '*creation_survives_a_kill'],
    animals.Offended: ['*never_was_succeeds', '*is_gone_succeeds', 'a_deletion_survives*'],
    animals.Growing: ['a_resize_survives_a_kill'],
    animals.Insatiable: ['a_named_removal_survives*'],
    animals.Resigned: ['a_creation_that_failed_can_be_retried'],
    animals.Premature: ['a_creation_is_complete_once*'],
    animals.Repetitive: ['what_has_happened*'],
    animals.Counting: ['an_update_moves*'],
    animals.Horrified: ['an_update_can_empty*'],
    animals.Grudging: ['a_deletion_that_was_cancelled*'],
    animals.Dismissive: ['a_deletion_is_complete_once*', 'a_life_leaves_nothing*'],
    animals.Careless: ['an_update_is_complete_once*', 'an_update_reaches_every_node'],
    animals.Rash: ['a_resize_is_complete_once*'],
    animals.Optimist: ['*that_fails_is_reported*'],
    animals.Hopeful: ['a_creation_that_fails*'],
    animals.Taciturn: ['a_creation_that_fails*', 'a_report_of_trouble*'],
    animals.Gloomy: ['*outlasts_an_engine*', 'a_check_of_a_cluster_whose_engine*'],
    animals.Blithe: ['*outlasts_an_engine*', 'a_check_of_a_cluster_whose_engine*'],
    animals.Final: ['an_operation_waits*'],
    animals.Raw: ['a_deletion_waits*'],
    builders.Nowhere: ['a_deletion_outlasts*', 'no_call_waits_for_an_engine_that*'],
    animals.Forgiving: ['*has_lost*', '*that_never_was_is*', '*that_is_gone_is_complete*'],
    animals.Strict: ['*what_is_gone_succeeds', 'a_life_leaves_nothing*'],
    animals.Wordy: ['each_report_is_of*'],
    animals.Shapeless: ['each_report_is_of*'],
    animals.Mute: ['a_cluster_of_a_file_is_created'],
    animals.Sleeper: ['no_call_waits_for_the_engine'],
    animals.Waiter: ['no_call_waits_for_the_engine'],
    animals.Persistent: ['no_call_waits_for_an_engine_that*'],
    animals.Opaque: ['its_verbs_run*'],
    animals.Clumsy: ['its_verbs_run*'],
    animals.Vague: ['its_metrics_are_measured'],
    animals.Unequipped: ['its_metrics_are_measured'],
    animals.Ageing: ['its_metrics_are_those_of_now'],
    animals.Confident: ['without_credentials*'],
    animals.Individual: ['outputs_are_the_same*'],
    animals.Misleading: ['outputs_are_those*'],
    animals.Unsure: ['*has_lost*'],
    animals.Concealing: ['an_update_that_replaces*', 'an_upgrade_that_replaces*'],
    animals.Alarmist: ['a_growth_is_foreseen*'],
    animals.Disorderly: ['a_preview_tells*'],
    animals.Indifferent: ['a_wrong_value*', 'all_wrong_values*'],
    animals.Hurried: ['all_wrong_values*'],
    animals.Preparing: ['a_refusal_leaves*'],
    animals.Pensive: ['a_cluster_of_a_file_is_created'],
    animals.Written: ['no_secret*'],
    animals.Outspoken: ['no_secret*'],
    animals.Talkative: ['no_secret*'],
    animals.Confiding: ['no_secret*'],
    builders.Deaf: ['an_update_reaches_every_node', 'an_update_adds*', '*more_and_fewer*'],
    builders.Restarting: ['a_cluster_that_grows*'],
    builders.Vanishing: ['an_update_can_empty_all*'],
    builders.Countless: ['a_created_cluster_has*'],
    builders.Set: ['an_update_reaches_every_node'],
    builders.Plain: ['a_created_cluster_has*'],
    builders.Leveller: ['values_of_one_group*'],
    builders.Hoarder: ['an_update_adds*'],
    builders.Blind: ['the_named_nodes*'],
    builders.Trusting: ['a_node_that_does_not_exist*'],
    builders.Sweeping: ['a_resize_reaches*', 'a_smaller_group*'],
    builders.Wholesale: ['an_upgrade_reaches_the_named*'],
    builders.Onward: ['a_rollback_returns*'],
    builders.Rough: ['a_reboot_keeps*'],
    builders.Lazy: ['a_reboot_keeps*', 'a_rebuild_keeps*', 'a_rotation_gives*'],
    builders.Zealous: ['a_reboot_keeps*', 'a_rebuild_keeps*'],
    builders.Idle: ['an_update_ends', 'a_rollback_ends', 'an_update*_survives_a_kill'],
    builders.Restless: ['a_check_of_a_settled*', 'a_report_in_progress*', 'the_engine_reports*'],
    builders.Vengeful: ['a_deleted_cluster_can*'],
    builders.Renewing: ['an_update_without_a_change*'],
    builders.Meddler: ['a_change_of_a_cluster_leaves*'],
    animals.Late: ['outputs_are_reported*'],
    builders.Stuck: [
        *(f'a_{name}_ends' for name in ('resize', 'reboot', 'rebuild')),
        *('an_upgrade_ends', 'a_rotation_of*'),
        *(f'*{name}_survives_a_kill' for name in ('upgrade', 'reboot', 'rebuild', 'rotation')),
    ],
    builders.Namesake: ['*of_another_owner*'],
    builders.Gossip: ['two_clusters*'],
    builders.Bully: ['the_deletion_of_a_cluster_leaves*'],
    builders.Messy: ['a_life_leaves*', 'a_creation_that_failed_leaves*', 'a_creation_under_way*'],
    builders.Planner: ['a_plan_makes_nothing'],
    builders.Keeper: ['another_instance*'],
    builders.Local: ['another_process*'],
    builders.Credulous: ['what_does_not_exist*'],
    builders.Grasping: ['what_a_cluster_has*'],
    builders.Marking: ['looking_at*'],
    builders.Beginner: ['*goes_on_with_what_exists*', 'going_on_with_what_exists*'],
    builders.Impatient: ['going_on_with_what_exists_survives*'],
    builders.Ravenous: ['a_deletion_leaves_what*'],
}
#: A value that the driver must pass on.
PARAMETERS = {'size': 3}


class NoEngine(EngineBench):
    def pass_time(self, seconds):
        """Wait for nothing: there is no engine with a clock of its own."""


class Idle(Foreign):
    bench = f'{__name__}:NoEngine'


def _pattern(name):
    return name if name[0] == '*' else f'test_{name}'


def judged(animal, *names):
    select = map(_pattern, names)
    reference = f'{animal.__module__}:{animal.__name__}'
    return run_cluster_conformance(reference, select=select, parameters=PARAMETERS)


class Zoo(unittest.TestCase):
    def test_a_correct_driver_passes_and_all_is_shown(self):
        report = judged(Right, '*')
        self.assertTrue(report.ok, report.render())
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.NOT_SHOWN))
        self.assertGreater(len(report.results), 80)

    def test_each_behaviour_of_an_own_engine_is_caught_by_an_animal(self):
        suites = [one for one in OwnEngineConformance.__bases__ if issubclass(one, OwnEngine)]
        caught = {
            name for names in ZOO.values() for _, _, name in selected(suites, map(_pattern, names))
        }
        self.assertEqual(set(), {name for _, _, name in selected(suites, None)} - caught)

    def test_a_call_that_hangs_is_waited_for_once(self):
        class Judged(OwnEngineConformance, unittest.TestCase):
            driver = f'{animals.__name__}:Hanging'
            soon_s = 0.5

        self.addCleanup(animals.Hanging.ends.set)
        self.addCleanup(Judged.doClassCleanups)
        first = show(Judged('test_no_call_waits_for_the_engine'), '')
        self.assertIn('delete_cluster has not returned within 0.5 s', first.reason)
        second = show(Judged('test_the_deletion_of_what_never_was_succeeds'), '')
        self.assertIn('delete_cluster does not return, as was seen before', second.reason)

    def test_a_driver_that_does_nothing_is_caught_once_and_in_no_other_behaviour(self):
        report = judged(Idle, '*')
        self.assertEqual('failed', report.verdict.value)
        failed = report.of(BehaviourOutcome.FAILED)
        self.assertIn('test_a_cluster_of_a_file_is_created', failed)
        self.assertLess(len(failed), 5, failed)
        self.assertIn('no cluster of the driver can be created', report.render())


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
