"""Self-test of the kit for drivers of nodes: each wrong driver is caught by one behaviour."""

import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.expectations import Change
from kiln.cluster_drivers.values import PlannedChange, PlannedGroup
from kiln.clusters.models import OperationKind
from kiln.testing.clusters.behaviours.answers import Answers
from kiln.testing.clusters.behaviours.choice import Choice
from kiln.testing.clusters.behaviours.crashes import AtCommits, AtRandom
from kiln.testing.clusters.behaviours.disclosure import Disclosure
from kiln.testing.clusters.behaviours.each_node import EachNode
from kiln.testing.clusters.behaviours.in_machines import InMachines
from kiln.testing.clusters.behaviours.incomplete import Incomplete
from kiln.testing.clusters.behaviours.legible import Legible
from kiln.testing.clusters.behaviours.life import Life
from kiln.testing.clusters.behaviours.repeats import Repeats
from kiln.testing.clusters.behaviours.same_answer import SameAnswer
from kiln.testing.clusters.behaviours.truth import Truth
from kiln.testing.clusters.behaviours.user_way import UserWay
from kiln.testing.clusters.behaviours.verb_runs import VerbRuns
from kiln.testing.clusters.behaviours.versions import Versions
from kiln.testing.clusters.behaviours.waiting import Waiting
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import run, selected
from tests.kit import cluster_animals
from tests.kit.node_animals import (
    choosing,
    giving,
    lasting,
    polling,
    settling,
    showing,
    talking,
    telling,
    writing,
)

#: What an author tells the kit about the machines of the polling drivers.
MACHINES = {
    'ready_machine': polling.UP, 'drained_machine': polling.IDLE, 'serving_machine': polling.BUSY,
}  # fmt: skip
#: Seconds, also on a busy machine, of what would take minutes if each failure waited.
PROMPT_S = 45.0
LEAST = {'least': {'control': 2, 'worker': 2}}

ELSEWHERE = (SameAnswer, 'bootstrap_is_the_same_in_another_process')
LATER = (SameAnswer, 'bootstrap_of_an_attempt_stays_the_same_when_the_cluster_changes')
BEFORE = (EachNode, 'what_a_node_is_given_does_not_depend_on_nodes_before_it')
TOKEN = (EachNode, 'a_join_token_is_bound_to_its_node_and_attempt')
NO_WAIT = (Waiting, 'bootstrap_does_not_wait')
IN_TIME = (Waiting, 'a_poll_of_a_machine_that_is_away_ends_by_its_deadline')
NOT_READY = (Truth, 'a_node_is_not_ready_before_its_machine_is')
IMPOSSIBLE = (Answers, 'an_impossible_cluster_is_reported')
CONFIG = (Legible, 'cloud_config_has_what_cloud_init_takes')
COUNTS = (InMachines, 'the_cluster_counts_the_nodes_that_kiln_has')
GOES = (InMachines, 'a_node_goes_once_its_work_is_done')
TOLD = (InMachines, 'what_is_told_of_the_cluster_is_what_its_author_expects')
CHANGE = (Answers, 'a_change_is_refused_if_its_author_refuses_it_and_no_other')
STAY = (Choice, 'nodes_that_must_stay_are_kept')

#: Every wrong driver, the behaviour that catches it, and words of the failure.
ZOO = {
    giving.Homely: (*ELSEWHERE, 'environment'),
    giving.Wandering: (*ELSEWHERE, 'working directory'),
    giving.Local: (*ELSEWHERE, 'host name'),
    giving.Dated: (*ELSEWHERE, 'time of day'),
    giving.Counting: (*LATER, 'has another node'),
    giving.Planning: (*LATER, 'other counts'),
    giving.Generational: (*LATER, 'another generation'),
    giving.Caching: (*BEFORE, 'kit-1 kit-control-1'),
    giving.Sharing: (*TOKEN, 'is given the token of another'),
    giving.Stale: (*TOKEN, 'is given the token of another'),
    giving.Generous: (EachNode, 'no_node_is_given_the_key_of_the_cluster', 'is given the key'),
    writing.Broken: (Legible, 'each_file_is_well_formed', 'it is not JSON'),
    writing.Unquoted: (Legible, 'a_text_reaches_the_files_as_it_is', 'use a filter'),
    writing.Trusting: (
        Legible, 'a_secret_reaches_the_files_whatever_its_characters', 'a secret'),
    writing.Numeric: (*CONFIG, 'write_files[0]'),
    writing.Namesake: (*CONFIG, 'the same hostname'),
    writing.Bare: (
        Legible, 'user_data_from_a_script_names_its_interpreter', 'No machine runs'),
    writing.Open: (Disclosure, 'a_file_with_a_secret_is_not_for_everybody', '0644'),
    writing.Plain: (
        Disclosure, 'what_is_called_like_a_credential_is_a_secret', 'admin_password'),
    cluster_animals.Lenient: (*IMPOSSIBLE, 'is not reported'),
    cluster_animals.Placeless: (*IMPOSSIBLE, 'is a place in the cluster file'),
    cluster_animals.Pensive: (Answers, 'validating_has_no_effect', 'Validating'),
    cluster_animals.Mixing: (
        Answers, 'outputs_are_about_no_other_cluster', '192.0.2.101'),
    cluster_animals.Lengthy: (Answers, 'the_status_report_is_plain_data', 'The report'),
    writing.Guessable: (
        Disclosure, 'what_is_called_a_token_is_not_known_to_everybody', 'join_token'),
    cluster_animals.Unequipped: (
        Answers, 'measuring_never_waits_and_never_fails', 'does not override'),
    telling.Hasty: (
        Incomplete, 'a_node_without_a_machine_is_no_mistake', 'has none'),
    telling.Assuming: (
        Incomplete, 'a_cluster_without_nodes_is_no_mistake', 'IndexError'),
    telling.Constant: (
        Incomplete, 'a_monitor_that_asks_nobody_follows_the_nodes', 'the same value'),
    telling.Miscounting: (
        Incomplete, 'what_is_told_of_nodes_is_what_its_author_expects', 'the monitor'),
    telling.Misleading: (
        Incomplete, 'what_is_told_of_nodes_is_what_its_author_expects', 'the outputs'),
    cluster_animals.Roomy: (
        Answers, 'values_that_its_author_refuses_are_reported', 'parameters.port'),
    cluster_animals.Narrow: (
        Answers, 'values_that_its_author_accepts_are_no_problem', '1024'),
    cluster_animals.Heedless: (*CHANGE, 'is not reported'),
    cluster_animals.Timid: (*CHANGE, 'no'),
    cluster_animals.Obliging: (
        VerbRuns, 'arguments_that_its_author_refuses_are_refused', 'is not refused'),
    telling.Heartless: (*STAY, 'that can go'),
    talking.Founding: (
        InMachines, 'nothing_is_wrong_with_the_cluster_itself', 'founded'),
    talking.Despairing: (
        InMachines, 'nothing_is_wrong_with_the_cluster_itself', 'added to dead ones'),
    talking.Refounding: (
        InMachines, 'nothing_is_wrong_with_the_cluster_itself', 'rebuilt among dead ones'),
    talking.Rash: (InMachines, 'nothing_is_wrong_with_the_cluster_itself', 'before it was'),
    settling.Postponing: (
        InMachines, 'nothing_is_wrong_with_the_cluster_itself', 'at the end of "create"'),
    talking.Abandoning: (*GOES, 'stays'),
    talking.Keeping: (*COUNTS, 'the cluster alone has'),
    talking.Hasty: (*GOES, 'before its work was done'),
    talking.Clinging: (*GOES, 'after its work was done'),
    talking.Thorough: (*GOES, 'the deletion waited'),
    talking.Ageing: (
        InMachines, 'nothing_is_measured_while_no_machine_answers', 'the value that it had'),
    talking.Tired: (InMachines, 'a_rotation_reaches_the_machines', 'the credentials of'),
    talking.Complaining: (
        InMachines, 'tending_a_cluster_that_is_well_reports_nothing', 'could be better'),
    talking.Blind: (InMachines, 'every_metric_of_a_cluster_is_measured', 'members'),
    talking.Idle: (InMachines, 'a_rotation_reaches_the_machines', 'the credentials'),
    talking.Remembering: (
        InMachines, 'each_call_can_be_repeated_by_another_process', 'create'),
    showing.Premature: (
        InMachines, 'a_node_is_ready_once_the_cluster_counts_it_and_not_before', 'kit-'),
    showing.Boasting: (*TOLD, 'members is 5.0, not 4'),
    showing.Modest: (*TOLD, 'verb members with'),
    showing.Reticent: (*TOLD, 'verb members with'),
    showing.Contrary: (*TOLD, 'in the order'),
    showing.Discreet: (*TOLD, 'no trouble is reported with kit-'),
    showing.Helpless: (*TOLD, 'verb recover, which is to go on'),
    showing.Neglecting: (
        InMachines, 'tending_brings_back_a_node_that_the_cluster_has_lost', 'nobody reports it'),
    talking.Brittle: (
        InMachines, 'requests_that_fail_and_answers_that_are_lost_change_nothing', 'create'),
    giving.Roaming: (Versions, 'all_files_that_nodes_depend_on_belong_to_the_version', 'passwd'),
    choosing.Grasping: (Choice, 'only_nodes_of_the_question_are_named', 'order was asked'),
    choosing.Greedy: (Choice, 'no_more_nodes_go_than_were_asked_for', ''),
    choosing.Heedless: (Choice, 'nodes_that_go_already_count', 'one after the other'),
    choosing.Trusting: (*STAY, 'unhealthy'),
    choosing.Moody: (Repeats, 'the_choice_of_nodes_is_the_same_when_it_is_asked_for_again', ''),
    choosing.Clinging: (UserWay, 'each_later_change_of_it_succeeds', 'replace'),
    polling.Sleepy: (*NO_WAIT, '30.0 s'),
    polling.Endless: (*IN_TIME, 'is_ready of a machine that is silent does not end'),
    polling.Dogged: (*IN_TIME, 'drain of a machine'),
    polling.Stubborn: (Waiting, 'a_drain_ends_if_nothing_can_change_it', 'is not drained'),
    polling.Eager: (*NOT_READY, 'never answers'),
    polling.Optimist: (*NOT_READY, 'ready while its machine'),
    polling.Envious: (*NOT_READY, 'ready while its machine'),
    polling.Hopeless: (Truth, 'a_machine_that_does_not_answer_has_not_failed', 'is given up'),
    polling.Rude: (
        Truth, 'a_node_is_drained_once_it_serves_nothing_and_not_before', 'drained while'),
    lasting.Once: (Repeats, 'a_hook_that_is_called_again_changes_nothing', 'the second'),
    lasting.Remembering: (Repeats, 'a_hook_needs_no_hook_before_it_in_the_same_process', 'prep'),
    lasting.Mourning: (Repeats, 'what_is_gone_already_needs_no_deletion', 'goodbye'),
    lasting.Forgetting: (UserWay, 'a_driver_needs_no_memory_of_earlier_calls', 'validated'),
    lasting.Confiding: (Disclosure, 'no_answer_about_a_node_has_a_secret', 'is_ready'),
    lasting.Quoting: (Disclosure, 'no_error_quotes_a_secret', 'an error of bootstrap'),
    lasting.Betraying: (Disclosure, 'nothing_that_is_shown_has_a_secret', 'verb tokens'),
    lasting.Crooked: (VerbRuns, 'each_verb_runs_and_its_answer_is_plain_data', 'machines'),
}  # fmt: skip
#: Drivers from which the wrong ones differ in one way each.
CORRECT = (choosing.Quorum, polling.Polling, writing.Writing, telling.Counting)
SUITES = tuple(dict.fromkeys(suite for suite, *_ in ZOO.values()))


def reference(animal):
    return f'{animal.__module__}:{animal.__name__}'


def judged(driver, suites, select=None, **attributes):
    given = type('Given', (ClusterFixture, unittest.TestCase), {'driver': driver, **attributes})
    return run(given, selected(suites, select), None)


def _reboot(cluster, nodes):
    group = PlannedGroup(name=nodes[-1].group, reset=nodes[-1:])
    plan = PlannedChange(kind=OperationKind.REBOOT, groups=(group,))
    return Change(cluster=cluster, nodes=nodes, plan=plan)


#: By animal: what else an author tells the kit.
TOLD_OF = {
    cluster_animals.Narrow: {'accepted': [{'port': 1024}]},
    cluster_animals.Heedless: {
        'refused_changes': lambda self, cluster, nodes: [_reboot(cluster, nodes)]},
    cluster_animals.Timid: {
        'accepted_changes': lambda self, cluster, nodes: [_reboot(cluster, nodes)]},
    cluster_animals.Obliging: {'refused_arguments': [('greet', {'times': 0})]},
}  # fmt: skip


def told(animal):
    """Return what the author of a driver tells the kit."""
    if issubclass(animal, choosing.Quorum):
        return LEAST
    if animal in TOLD_OF:
        return TOLD_OF[animal]
    if animal is telling.Miscounting:
        return {'expected_readings': lambda self, nodes: {'nodes': len(nodes)}}
    if animal is telling.Misleading:
        return {'expected_outputs': lambda self, nodes: {'url': 'http://example.com/'}}
    if animal is cluster_animals.Roomy:
        return {'refused': [{'port': 70_000}]}
    if animal is telling.Heartless:
        return {'staying': lambda self, nodes: nodes[:1]}
    if animal in (cluster_animals.Lenient, cluster_animals.Placeless):
        return {'refused_groups': [{'worker': 0}]}
    return MACHINES if issubclass(animal, polling.Polling) else {}


class Zoo(unittest.TestCase):
    def test_correct_drivers_pass(self):
        for animal in CORRECT:
            with self.subTest(animal.__name__):
                results = judged(reference(animal), SUITES, **told(animal))
                failed = [one for one in results if one.outcome is BehaviourOutcome.FAILED]
                self.assertEqual([], failed)

    def test_what_an_author_tells_is_shown(self):
        results = [
            *judged(reference(polling.Polling), [Truth], **MACHINES),
            *judged(reference(polling.ByRule), [Truth], ['*ready*', '*failed']),
            *judged(reference(polling.ByConnection), [Truth], ['*ready*', '*failed']),
            *judged(reference(choosing.Quorum), [Choice], **LEAST),
            *judged(reference(showing.Showing), [InMachines]),
            *judged(reference(settling.Settling), [InMachines], ['*nothing_is_wrong*']),
        ]
        self.assertEqual({BehaviourOutcome.PASSED}, {one.outcome for one in results})

    def test_what_an_author_does_not_tell_is_not_shown_with_the_attribute_to_set(self):
        results = [
            *judged(reference(polling.Polling), [Truth, Waiting, InMachines]),
            *judged(reference(choosing.Quorum), [Choice]),
        ]
        reasons = [one.reason for one in results if one.outcome is BehaviourOutcome.NOT_SHOWN]
        for attribute in ('ready_machine', 'serving_machine', 'drained_machine', 'least', 'bench'):
            self.assertTrue(any(attribute in one for one in reasons), (attribute, reasons))

    def test_a_driver_that_creates_no_cluster_fails_once_for_each_subject(self):
        results = judged(reference(lasting.Broken), (UserWay, Life, AtCommits, AtRandom))
        failed = [one.name for one in results if one.outcome is BehaviourOutcome.FAILED]
        self.assertEqual(
            [
                'test_a_file_with_several_roles_becomes_a_cluster',
                'test_each_answer_on_the_way_is_of_the_kind_that_the_contract_names',
                'test_a_cluster_is_created_and_every_node_is_one_machine',
                'test_a_creation_killed_at_any_commit_ends_as_if_undisturbed',
            ],
            failed,
        )
        self.assertLess(sum(one.seconds for one in results), PROMPT_S)

    def test_a_driver_that_waits_costs_no_time_and_fails_where_time_is_judged(self):
        suites = (Answers, SameAnswer, EachNode, Waiting, Repeats, UserWay, Life)
        results = judged(reference(polling.Sleepy), suites)
        failed = [one.name for one in results if one.outcome is BehaviourOutcome.FAILED]
        self.assertEqual(['test_bootstrap_does_not_wait'], failed)
        self.assertLess(sum(one.seconds for one in results), PROMPT_S)

    def test_hooks_are_not_repeated_for_machines_that_run_nothing(self):
        results = judged(reference(polling.Greeting), (Life,), ['a cluster is created*'])
        self.assertEqual({BehaviourOutcome.PASSED}, {one.outcome for one in results})
        self.assertLess(sum(one.seconds for one in results), PROMPT_S)

    def test_a_template_that_is_read_too_late_is_found(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'late_v1')
        folder.mkdir()
        (folder / 'version.py').write_text("version = '1.0.0'\ndriver = 'late_v1'\n")
        (folder / 'start.sh').write_text('#!/bin/sh\n')
        (folder / 'driver.py').write_text(LATE)
        results = judged(str(folder), [Versions])
        failed = [one.name for one in results if one.outcome is BehaviourOutcome.FAILED]
        self.assertEqual(
            ['test_a_driver_that_is_open_keeps_to_the_files_of_its_version'], failed, results
        )


LATE = """\
import pathlib

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import Bootstrap


class Driver(NodeClusterDriver):
    name, version = 'late_v1', '1.0.0'
    provides = [('*', '*', 'late')]

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def bootstrap(self, context, cluster, node):
        path = pathlib.Path(__file__).with_name('start.sh')
        return Bootstrap(user_data=path.read_bytes())
"""


def _test_of(animal, suite, name, words):
    def test(self):
        (result,) = judged(reference(animal), [suite], [f'test_{name}'], **told(animal))
        self.assertIs(BehaviourOutcome.FAILED, result.outcome, result.reason)
        self.assertIn(words, result.reason)

    test.__name__ = f'test_the_kit_catches_the_driver_{animal.__name__.lower()}'
    return test


for _animal, _caught in ZOO.items():
    _test = _test_of(_animal, *_caught)
    setattr(Zoo, _test.__name__, _test)
