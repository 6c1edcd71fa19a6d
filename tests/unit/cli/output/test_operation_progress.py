"""Tests of the progress of an operation and its display, without clock and store."""

import dataclasses
import io
import types
import unittest

from kiln.cli.output.operation_progress import NO_GOAL, GroupGoal, course, goal_of, goal_of_view
from kiln.cli.output.screens import Lines, drawing, screen
from kiln.cluster_service.proposals import Proposal
from kiln.cluster_service.views import ClusterView
from kiln.clusters.models import (
    Cause,
    Cluster,
    DriverPin,
    Event,
    Node,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
)
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Place, Shape, Strategy
from kiln.engine.plan.changes import Add, ClusterPlan, GroupPlan, Remove, Replace, Shared
from tests.unit.cli.shell import Terminal

PIN = DriverPin(name='nodes_v1', version='1', origin='here', digest='d')
QUOTA = Cause(
    code='x', message='No room.', hint='Wait.',
    because=Cause(code='provider', message='Quota\nexceeded'),
)  # fmt: skip


def node(name, state=NodeState.READY, *, group='work', at=100.0, since=110.0, **fields):
    return Node(
        id=name, cluster_id='c', group=group, name=name, place=Place(), backend='noop',
        state=state, created_at=at, since=since, **fields,
    )  # fmt: skip


def seen(*nodes, count=4, kind=OperationKind.CREATE, state=OperationState.RUNNING, cause=None):
    groups = (NodeGroupSpec(name='work', shape=Shape(count=count)),)
    spec = ClusterSpec(name='web', groups=groups)
    cluster = Cluster(id='c', name='web', spec=spec, generation=1, pin=PIN)
    ended = 150.0 if state.ended else None
    operation = Operation(
        id='o', cluster_id='c', kind=kind, state=state, created_at=100.0, ended_at=ended,
        cause=cause,
    )  # fmt: skip
    return ClusterView.of(cluster, nodes, operation)


def far(view, goal=NO_GOAL, now=120.0):
    return course(view, view.operation, goal, now)


def one_group(**fields):
    return types.MappingProxyType({'work': GroupGoal(**fields)})


class Counting(unittest.TestCase):
    def test_without_a_goal_it_is_done_when_the_desired_number_is_ready(self):
        found = far(seen(node('a'), node('b', doomed='x'), node('c', NodeState.BOOTING)))
        self.assertEqual((1, 4), (found.done, found.total))

    def test_only_new_nodes_count_as_created(self):
        view = seen(node('old', at=50.0), node('new'))
        found = far(view, one_group(makes=3))
        self.assertEqual((1, 3), (found.done, found.total))

    def test_a_node_to_remove_counts_when_it_is_gone(self):
        found = far(seen(node('a', at=1.0)), one_group(leave=frozenset({'a', 'b', 'c'})))
        self.assertEqual((2, 3), (found.done, found.total))

    def test_a_rebooted_node_counts_when_it_is_ready_again(self):
        view = seen(node('a', at=1.0, since=130.0), node('b', at=1.0, since=50.0))
        found = far(view, one_group(touched=frozenset({'a', 'b'})))
        self.assertEqual((1, 2), (found.done, found.total))

    def test_a_removed_group_is_counted_too(self):
        found = far(seen(node('a', NodeState.DELETING, group='old')))
        self.assertEqual(['work', 'old'], [group.name for group in found.groups])

    def test_a_proposal_gives_the_goal(self):
        group = GroupPlan(
            group='work', role='worker', count=2, strategy=Strategy(), table={},
            adds=(Add(place=Place(), reason='x'),),
            replaces=(Replace(node=node('a'), place=Place(), reason='x'),),
            removes=(Remove(node=node('b'), reason='x'),), leaving=(node('c'),),
        )  # fmt: skip
        view = seen()
        goal = goal_of(
            Proposal(
                kind=OperationKind.REBOOT,
                cluster=view.cluster,
                before=view.cluster,
                plan=ClusterPlan(cluster='web', shared=Shared.KEEP, groups=(group,)),
                touched=(node('d', group='front'), node('e')),
            )
        )
        self.assertEqual({'work', 'front'}, set(goal))
        self.assertEqual((2, {'a', 'b', 'c'}), (goal['work'].makes, goal['work'].leave))
        self.assertEqual(({'e'}, 6), (goal['work'].touched, goal['work'].total))

    def test_a_deletion_submitted_elsewhere_is_done_when_all_nodes_are_gone(self):
        view = seen(node('a'), node('b'), kind=OperationKind.DELETE)
        self.assertEqual({'a', 'b'}, goal_of_view(view)['work'].leave)
        self.assertEqual(NO_GOAL, goal_of_view(seen(node('a'))))


class Left(unittest.TestCase):
    def test_before_the_first_node_there_is_no_estimate(self):
        self.assertIsNone(far(seen(node('a', NodeState.BOOTING))).left_s)

    def test_nodes_in_progress_take_as_long_as_the_slowest_so_far(self):
        view = seen(node('a', since=130.0), node('b', NodeState.BOOTING, at=115.0))
        self.assertEqual(25.0, far(view).left_s)

    def test_further_nodes_are_created_at_the_rate_so_far(self):
        view = seen(node('a', since=110.0), node('b', since=110.0))
        self.assertEqual(8 * 10.0, far(view, one_group(makes=10)).left_s)

    def test_a_late_node_is_expected_at_any_moment(self):
        view = seen(node('a', since=101.0), node('b', NodeState.JOINING))
        self.assertEqual(1.0, far(view).left_s)

    def test_at_the_end_nothing_is_left(self):
        ended = seen(node('a'), node('b', NodeState.BOOTING), state=OperationState.CANCELLED)
        self.assertIsNone(far(ended).left_s)
        self.assertIsNone(far(seen(node('a'))).left_s)
        self.assertEqual(50.0, far(ended).elapsed_s)


class Shown(unittest.TestCase):
    def test_a_large_group_is_folded_into_counts_and_odd_nodes(self):
        held = [node(f'h{n}', NodeState.PLANNED, cause=QUOTA) for n in range(9)]
        ready = [node(f'r{n}') for n in range(991)]
        picture = drawing([far(seen(*held, *ready, count=1000))], []).plain
        self.assertLess(len(picture.splitlines()), 8)
        self.assertIn('991/1000', picture)
        self.assertIn('9 planned  991 ready', picture)
        self.assertIn('h0, h1, h2 and 6 more: No room.', picture)
        self.assertIn('<- Quota exceeded', picture)
        self.assertIn('-> Wait.', picture)

    def test_the_last_events_are_drawn_until_the_end(self):
        event = Event(cluster_id='c', kind='k', message='a is ready', at=3661.0)
        running, ended = far(seen()), far(seen(state=OperationState.SUCCEEDED))
        self.assertIn('01:01:01Z  a is ready', drawing([running], [(event, 'web')]).plain)
        self.assertIn('web: a is ready', drawing([running, running], [(event, 'web')]).plain)
        self.assertNotIn('a is ready', drawing([ended], [(event, 'web')]).plain)

    def test_the_drawing_stays_on_the_terminal(self):
        stream = Terminal()
        with screen(stream) as shown:
            shown([far(seen(node('a')))], [])
            shown([far(seen(node('a'), state=OperationState.SUCCEEDED))], [])
        self.assertIn('succeeded', stream.getvalue())

    def test_silence_prints_nothing(self):
        stream = io.StringIO()
        with screen(stream, silent=True) as shown:
            shown([far(seen())], [])
        self.assertEqual('', stream.getvalue())


class Told(unittest.TestCase):
    def setUp(self):
        self.stream = io.StringIO()
        self.lines = Lines(self.stream)

    def told(self):
        return self.stream.getvalue().splitlines()

    def test_each_event_has_a_line(self):
        event = Event(cluster_id='c', kind='k', message='password=abc is\nready', at=0.0)
        self.lines.show([far(seen())], [event])
        (line,) = self.told()
        self.assertTrue(line.startswith('00:00:00Z web: '))
        self.assertNotIn('abc', line)

    def test_pain_3_a_cause_is_printed_at_once_and_only_once(self):
        waiting = far(seen(state=OperationState.WAITING, cause=QUOTA))
        for _ in range(3):
            self.lines.show([waiting], [])
        self.assertEqual(
            [
                '00:02:00Z web: create waiting: No room. <- Quota exceeded',
                '00:02:00Z web: -> Wait.',
            ],
            self.told(),
        )

    def test_an_outage_is_told_once_for_all_calls_that_meet_it_and_so_is_its_end(self):
        away = Cause(code='service_unavailable', message='Cannot look: Nova is away.')
        circuit = Cause(code='circuit_open', message='East is open; again at 1.', because=away)
        later = dataclasses.replace(circuit, message='East is open; again at 2.')
        build = dataclasses.replace(away, message='Cannot build: Nova is away.')
        for causes in ([away], [away, circuit], [build, circuit], [later], [], [], [away]):
            nodes = [node(f'n{n}', NodeState.BUILDING, cause=one) for n, one in enumerate(causes)]
            self.lines.show([far(seen(*nodes))], [])
        self.assertEqual(
            [
                '00:02:00Z web: n0: Cannot look: Nova is away.',
                '00:02:00Z web: n1: East is open; again at 1. <- Cannot look: Nova is away.',
                '00:02:00Z web: create goes on',
            ],
            self.told()[:3],
        )
        self.assertEqual(3, len(self.told()))

    def test_a_cause_its_event_and_the_end_of_its_node_tell_it_once(self):
        held = far(seen(node('a', NodeState.FAILED, cause=QUOTA)))
        failed = Event(cluster_id='c', kind='k', message='a: No room. <- Quota exceeded', at=119.0)
        to_go = dataclasses.replace(
            failed, message='a is to go: failed: No room. <- Quota exceeded', at=150.0
        )
        self.lines.show([held], [failed])
        self.lines.show([held], [to_go])
        self.assertEqual(
            [
                '00:01:59Z web: a: No room. <- Quota exceeded',
                '00:02:00Z web: -> Wait.',
                '00:02:30Z web: a is to go: failed',
            ],
            self.told(),
        )

    def test_attempts_that_failed_are_told_with_what_holds_their_nodes_up(self):
        held = [node(f'h{n}', NodeState.BUILDING, cause=QUOTA) for n in range(3)]
        gone = node('f', NodeState.FAILED, cause=QUOTA)
        failed = [
            Event(
                cluster_id='c', kind='build-failed', message=f'{one.name}: No {n}.', node_id=one.id
            )
            for n, one in enumerate([*held, gone])
        ]
        self.lines.show([far(seen(*held, gone))], failed)
        told = '\n'.join(self.told())
        self.assertIn('f: No 3.', told)
        self.assertIn('h0, h1, h2', told)
        self.assertNotIn('No 0.', told)

    def test_an_event_that_comes_again_later_is_told_again(self):
        for at in (0.0, 60.0):
            self.lines.show(
                [], [Event(cluster_id='web', kind='k', message='Nova is away.', at=at)]
            )
        self.assertEqual(2, len(self.told()))

    def test_nodes_with_one_cause_have_one_line(self):
        held = [node(f'h{n}', NodeState.PLANNED, cause=QUOTA) for n in range(9)]
        self.lines.show([far(seen(*held))], [])
        self.assertEqual(2, len(self.told()))
        self.assertIn('h0, h1, h2 and 6 more', self.told()[0])

    def test_a_cause_from_before_the_operation_is_not_told_as_new(self):
        old = node('a', NodeState.UNHEALTHY, since=40.0, cause=QUOTA)
        new = node('b', NodeState.UNHEALTHY, since=110.0, cause=Cause(code='x', message='Down.'))
        self.lines.show([far(seen(old, new))], [])
        told = '\n'.join(self.told())
        self.assertIn('a since 00:00:40Z: No room.', told)
        self.assertIn('b: Down.', told)

    def show_at(self, now, *nodes):
        view = seen(*nodes)
        self.lines.show([course(view, view.operation, NO_GOAL, now)], [])
        return self.told()

    def test_a_machine_that_boots_as_usual_is_not_reported(self):
        silent = Cause(code='readiness_not_yet', message='Connection refused.')
        booting = node('a', NodeState.BOOTING, cause=silent)
        self.assertEqual([], self.show_at(120.0, booting))
        self.assertEqual([], self.show_at(149.0, booting))
        self.assertIn('a: Connection refused.', self.show_at(150.0, booting)[0])

    def test_a_hook_that_answers_within_seconds_is_not_reported(self):
        called = Cause(code='hook', message='Hook dns blocks the operation.')
        self.assertEqual([], self.show_at(120.0, node('a', NodeState.BOOTING, cause=called)))
        failed = Cause(code='hook_failed', message='Hook dns failed.')
        told = self.show_at(121.0, node('b', NodeState.BOOTING, cause=failed))
        self.assertIn('b: Hook dns failed.', told[0])
        told = self.show_at(124.0, node('a', NodeState.BOOTING, cause=called))
        self.assertIn('a: Hook dns blocks the operation.', told[-1])
