"""Explanations of clusters and nodes, in tables of cases."""

import dataclasses
import itertools
import unittest

from kiln.cluster_service.views import Attention, ClusterView
from kiln.cluster_service.why import span, why
from kiln.clusters.models import (
    Aim,
    Cause,
    Cluster,
    DriverPin,
    Node,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
)
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Place, Shape

NOW = 1000.0
SPEC = ClusterSpec(name='web', groups=(NodeGroupSpec(name='work', shape=Shape(count=3)),))
QUOTA = Cause(
    code='deadline',
    message='Cannot create cluster web by its deadline.',
    hint='Repeat it.',
    because=Cause(
        code='quota_exceeded',
        message='Cannot build web-work-a.',
        hint='Delete some, or raise the quota.',
        because=Cause(code='provider', message='Quota exceeded for cores'),
    ),
)


def node(name='a', **fields):
    return Node(
        id=f'id-{name}', cluster_id='c', group=fields.pop('group', 'work'), name=f'web-{name}',
        place=Place(), backend='noop', **{'since': 900.0, **fields},
    )  # fmt: skip


def operation(state=OperationState.RUNNING, **fields):
    fields = {'kind': OperationKind.CREATE, 'deadline_at': 1300.0, 'started_at': 940.0} | fields
    return Operation(id='o', cluster_id='c', state=state, **fields)


def view(*nodes, op=None, **fields):
    pin = DriverPin(name='nodes_v1', version='1', origin='here', digest='d')
    cluster = Cluster(id='c', name='web', spec=SPEC, generation=1, pin=pin, **fields)
    return ClusterView.of(cluster, nodes, op)


READY = tuple(node(name, state=NodeState.READY) for name in 'abc')


class OfClusters(unittest.TestCase):
    def test_the_next_steps_of_kiln_and_of_the_user(self):
        ended = {'ended_at': 990.0}
        for shown, worker, next_, do in (
            (view(*READY), None, 'has nothing to do', ''),
            (view(*READY, op=operation(OperationState.SUCCEEDED, **ended)), None,
             'has nothing to do', ''),
            (view(op=operation(OperationState.SUCCEEDED, **ended)), None,
             'replaces dead nodes', 'cluster check web'),
            (view(op=operation(OperationState.FAILED, **ended)), None,
             'does nothing more for the create', 'kiln cluster retry web'),
            (view(op=operation(OperationState.ROLLED_BACK, **ended)), None,
             'what was built stays', 'kiln up FILE'),
            (view(op=operation(OperationState.QUEUED, started_at=None)), None,
             'nobody works on the create', 'kiln cluster watch web'),
            (view(op=operation()), 'host.1', 'continues the create, for another 5 min', ''),
            (view(op=operation(deadline_at=0.0)), 'host.1', 'continues the create (host.1)',
             ''),
            (view(op=operation(OperationState.WAITING, cause=QUOTA)), 'host.1',
             'tries again, at the latest after 60 s, for another 5 min', 'raise the quota'),
            (view(op=operation(cancelled=True)), 'host.1', 'stops the create', ''),
            (view(op=operation(), paused=True), 'host.1', 'paused', 'kiln cluster resume web'),
        ):  # fmt: skip
            with self.subTest(next_):
                first, *_ = why(shown, NOW, attention=Attention(worker=worker or '', watched=True))
                self.assertIn(next_, first.next)
                self.assertIn(do, ' '.join(first.do))
                self.assertTrue(do or not first.do, first.do)

    def test_a_worker_that_has_died_is_named_with_the_time_it_was_last_heard_from(self):
        died = Attention(worker='host.7', died=True, silent_s=14.0, expires_s=1.0)
        (first,) = why(view(op=operation()), NOW, attention=died)
        self.assertIn('host.7, last heard from 14 s ago, has ended', first.next)
        self.assertIn('kiln cluster watch web', first.do[0])

    def test_a_silent_worker_is_named_with_the_time_of_its_replacement(self):
        silent = Attention(worker='host.7', silent_s=14.0, expires_s=1.0)
        (first,) = why(view(op=operation()), NOW, attention=silent)
        self.assertIn('last heard from 14 s ago', first.next)
        self.assertIn('takes over at 00:16:41Z', first.next)
        recent = dataclasses.replace(silent, silent_s=2.0, expires_s=13.0)
        (first,) = why(view(op=operation()), NOW, attention=recent)
        self.assertNotIn('heard', first.next)

    def test_without_a_conductor_the_explanation_is_that_nobody_watches_and_since_when(self):
        ended = operation(OperationState.SUCCEEDED, ended_at=990.0)
        (first,) = why(view(*READY, op=ended), NOW, attention=Attention())
        self.assertIn('no conductor runs; this is how they were at 00:16:30Z', first.next)
        self.assertIn('kiln cluster check web', first.do[0])

    def test_a_failed_change_can_be_rolled_back(self):
        failed = operation(OperationState.FAILED, kind=OperationKind.UPDATE, ended_at=990.0)
        pin = DriverPin(name='plain', version='0.9.0', origin='o', digest='d')
        former = Aim(spec=ClusterSpec(name='web'), pin=pin)
        (first,) = why(view(op=failed, former=former), NOW)
        self.assertIn('kiln cluster rollback web', first.do[-1])

    def test_the_chain_ends_with_the_providers_message(self):
        (first,) = why(view(op=operation(OperationState.FAILED, cause=QUOTA, ended_at=990.0)), NOW)
        lines = list(first.lines())
        self.assertEqual('web: failed, 0 of 3 nodes ready; create failed 10 s ago', lines[0])
        self.assertEqual('      because: Quota exceeded for cores', lines[3])
        # The hint nearest to the provider is the best one.
        self.assertEqual('  you: Delete some, or raise the quota.', lines[5])

    def test_the_nodes_of_a_healthy_cluster_are_not_explained(self):
        self.assertEqual(1, len(list(why(view(*READY), NOW))))

    def test_nodes_with_one_cause_are_explained_once(self):
        sick = [node(str(n), state=NodeState.PLANNED, cause=QUOTA) for n in range(1000)]
        _, nodes = why(view(*sick, op=operation()), NOW, attention=Attention(worker='host.1'))
        self.assertEqual('node web-0, web-1, web-2 and 997 more (work)', nodes.about)


class OfNodes(unittest.TestCase):
    def test_every_state_has_an_explanation(self):
        for state, op, doomed in itertools.product(
            NodeState, (None, operation(), operation(OperationState.FAILED)), ('', 'scaled down')
        ):
            with self.subTest(state, op=op, doomed=doomed):
                one = node(state=state, doomed=doomed)
                (reason,) = why(view(one, op=op), NOW, node=one)
                self.assertTrue(reason.next)
                self.assertIn(state.value, reason.said)
                self.assertIn(doomed, reason.said)

    def test_the_next_step_of_kiln_for_a_node(self):
        for fields, next_ in (
            ({'state': NodeState.UNKNOWN}, 'builds or deletes nothing'),
            ({'state': NodeState.GONE}, 'nothing more'),
            ({'state': NodeState.READY}, 'nothing to do for it'),
            ({'state': NodeState.READY, 'doomed': 'asked for'}, 'removes it'),
            ({'state': NodeState.DELETING}, 'removes it'),
            ({'state': NodeState.FAILED}, 'replaces it'),
            ({'state': NodeState.UNHEALTHY}, 'replaces it in 3 min'),
            ({'state': NodeState.UNHEALTHY, 'group': 'old'}, 'builds it when'),
            ({'state': NodeState.JOINING}, 'waits for it, and gives it up in 8 min'),
            ({'state': NodeState.BUILDING, 'cause': QUOTA}, 'tries again, at the latest after'),
            ({'state': NodeState.PLANNED}, 'when others before it are done'),
            ({'state': NodeState.PLANNED, 'cause': QUOTA}, 'tries again'),
        ):
            with self.subTest(**fields):
                one = node(**fields)
                (reason,) = why(view(one, op=operation()), NOW, node=one)
                self.assertIn(next_, reason.next)

    def test_after_the_operation_a_node_can_be_replaced(self):
        one = node(state=NodeState.FAILED)
        (reason,) = why(view(one, op=operation(OperationState.FAILED)), NOW, node=one)
        self.assertEqual(("'kiln node replace web web-a'",), reason.do)

    def test_a_dead_node_of_a_settled_cluster_is_replaced_by_a_conductor(self):
        for state, next_ in (
            (NodeState.FAILED, 'replaces it now, as far as the brake allows'),
            (NodeState.UNHEALTHY, 'replaces it in 3 min (unhealthy_after of its group)'),
        ):
            one = node(state=state)
            shown = view(one, op=operation(OperationState.SUCCEEDED))
            for attention, said in (
                (None, next_),
                (Attention(watched=True), next_),
                (Attention(), 'does nothing for it: no conductor runs'),
            ):
                with self.subTest(state=state, attention=attention):
                    (reason,) = why(shown, NOW, node=one, attention=attention)
                    self.assertIn(said, reason.next)

    def test_pain_21_a_brake_that_holds_is_reported(self):
        sick = [node(name, state=NodeState.UNHEALTHY, since=0.0) for name in 'ab']
        shown = view(*sick, node('c', state=NodeState.READY), op=operation(
            OperationState.SUCCEEDED, ended_at=990.0))  # fmt: skip
        first, *_ = why(shown, NOW)
        self.assertIn('the brake holds', first.cause.message)
        self.assertIn('raise max_unhealthy', first.do[0])

    def test_nothing_is_done_while_the_cluster_is_paused(self):
        one = node(state=NodeState.FAILED)
        (reason,) = why(view(one, op=operation(), paused=True), NOW, node=one)
        self.assertIn('paused', reason.next)

    def test_overdue_is_now(self):
        one = node(state=NodeState.UNHEALTHY)
        (reason,) = why(view(one, op=operation()), NOW + 9999, node=one)
        self.assertTrue(reason.next.endswith(' now'))


class Spans(unittest.TestCase):
    def test_a_span_is_as_short_as_possible(self):
        spans = [span(one) for one in (-1, 0.4, 119, 120, 7199, 7200)]
        self.assertEqual(['0 s', '0 s', '119 s', '2 min', '120 min', '2 h'], spans)


class OfMachines(unittest.TestCase):
    def test_machines_that_cannot_be_polled_are_explained_while_no_operation_works(self):
        cause = Cause(code='not_seen', message='the machines on east cannot be polled: refused')
        attention = Attention(watched=True, unseen={'east': cause})
        done = operation(OperationState.SUCCEEDED, ended_at=990.0)
        lines = [
            line
            for one in why(view(*READY, op=done), NOW, attention=attention)
            for line in one.lines()
        ]
        self.assertIn('web, its machines: cannot be polled', lines)
        self.assertIn(f'  because: {cause.message}', lines)
        self.assertIn('  kiln: leaves the states of the nodes as they are, and polls again', lines)
        self.assertIn("  you: check the backend: 'kiln --backend east compute check'", lines)
        busy = why(view(*READY, op=operation()), NOW, attention=attention)
        self.assertNotIn('web, its machines', [one.about for one in busy])

    def test_what_a_backend_answers_now_replaces_what_a_conductor_has_noted_of_it(self):
        noted = {one: Cause(code='not_seen', message=f'{one}: noted') for one in ('east', 'west')}
        now = {'east': Cause(code='not_seen', message='east: now')}
        done = operation(OperationState.SUCCEEDED, ended_at=990.0)
        attention = Attention(watched=True, unseen=noted)
        _, *machines = why(view(*READY, op=done), NOW, attention=attention, outages=now)
        self.assertEqual(['east: now', 'west: noted'], [one.cause.message for one in machines])

    def test_a_node_is_explained_together_with_the_outage_of_its_backend(self):
        now = {'east': Cause(code='not_seen', message='east: now')}
        done = operation(OperationState.SUCCEEDED, ended_at=990.0)
        found = why(view(*READY, op=done), NOW, node=READY[0], outages=now)
        self.assertEqual(['node web-a (work)', 'web, its machines'], [one.about for one in found])
        (machines,) = [one for one in why(view(op=done), NOW, outages=now) if one.cause]
        self.assertEqual('leaves the states of the nodes as they are', machines.next)
