"""Settled clusters are polled, one call per backend, and dead nodes are replaced."""

import collections
import dataclasses
import unittest

from kiln.cluster_drivers.values import Drained
from kiln.clusters.models import (
    Aim,
    Cause,
    Cluster,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
)
from kiln.clusters.spec import ClusterSpec, Health, MachineSpec, Portion
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.health.machine_state import polled_state
from kiln.engine.health.standing_check import REMEDIATION, SCOPE, StandingCheck, may_remedy
from kiln.models import ComputeStatus, State
from tests.unit.db.case import take_over
from tests.unit.engine.groups import node, wanted
from tests.unit.engine.site import PIN, SETTINGS, STACK, Plain, Site, group

AT_ONCE = Health(unhealthy_after_s=0.0)


class WatchSite(Site):
    """A site whose clusters are polled when a test calls for it."""

    def setUp(self):
        self.calls = collections.Counter()
        self.hidden = set()
        super().setUp()
        self.watch = StandingCheck(self.parts, 'tests', self.offer)
        self.addCleanup(self.watch.close)

    def offer(self, cluster_id):
        self.conductor.wake()

    def open_backend(self, name):
        site = self

        class Observed(NoopDriver):
            def _statuses(self, amphora_ids):
                site.calls['statuses'] += 1
                found = super()._statuses(amphora_ids)
                return {one: found[one] for one in found if one not in site.hidden}

            def _status(self, amphora_id):
                site.calls['status'] += 1
                return super()._status(amphora_id)

        return Compute(Observed(cloud=self.cloud), settings=STACK)

    def poll(self):
        self.calls.clear()
        self.watch.poll()

    def causes(self, cluster):
        return [one.cause and one.cause.code for one in self.nodes(cluster)]

    def remediations(self, cluster):
        found = self.store.operations.of(cluster.id)
        return [one for one in found if one.args.get('reason') == REMEDIATION]


class Watching(WatchSite):
    def test_a_poll_is_one_call_and_writes_only_changes(self):
        clusters = [self.created(group(4), name=name) for name in ('a', 'b')]
        before = [self.nodes(one) for one in clusters]
        seq = self.store.events.last_seq()
        for _ in range(3):
            self.poll()
            self.assertEqual({'statuses': 1}, self.calls)
        self.assertEqual(before, [self.nodes(one) for one in clusters])
        self.assertEqual(seq, self.store.events.last_seq())

    def test_a_machine_that_does_not_work_makes_its_node_unhealthy_until_it_does(self):
        cluster = self.created(group(4))
        stopped, broken, suspended, _ = [one.compute_id for one in self.nodes(cluster)]
        self.cloud.stop(stopped)
        self.cloud.crash(broken)
        self.parts.backends.get(None).suspend(suspended, wait=True).result(120)
        self.poll()
        self.assertEqual(
            ['machine_stopped', 'machine_error', 'machine_suspended', None], self.causes(cluster)
        )
        self.assertEqual({NodeState.UNHEALTHY: 3, NodeState.READY: 1}, self.states(cluster))
        words = self.nodes(cluster)[1].cause.because.message
        self.assertEqual('The host of the machine died.', words)
        seq = self.store.events.last_seq()
        self.poll()
        self.assertEqual(seq, self.store.events.last_seq(), 'it is told once')
        for one in (stopped, broken):
            self.cloud.start(one)
        self.parts.backends.get(None).resume(suspended, wait=True).result(120)
        self.poll()
        self.assert_whole(cluster, 4)
        self.assertEqual([None] * 4, self.causes(cluster))

    def test_a_machine_is_absent_only_if_its_id_is_not_found(self):
        cluster = self.created(group(3))
        hidden, gone, _ = [one.compute_id for one in self.nodes(cluster)]
        self.hidden = {hidden}
        self.cloud.vanish(gone)
        self.poll()
        self.assertEqual([None, 'machine_absent', None], self.causes(cluster))
        self.assertEqual({'statuses': 1, 'status': 2}, self.calls)
        self.poll()
        self.assertEqual({'statuses': 1, 'status': 1}, self.calls, 'the one that is gone is known')

    def test_a_backend_that_does_not_answer_makes_nothing_unhealthy(self):
        cluster = self.created(group(2))
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        compute = self.parts.backends.get(None)
        compute.open_circuit('read')
        with self.assertLogs('kiln.engine.outage_log', 'WARNING'):
            self.poll()
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))
        compute.close_circuit('read')
        self.poll()
        self.assertEqual({NodeState.READY: 1, NodeState.UNHEALTHY: 1}, self.states(cluster))

    def test_a_cluster_with_a_worker_is_left_to_it(self):
        cluster = self.created(group(2))
        self.poll()
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        lease = self.store.leases.claim(cluster.id, 'another', 60)
        self.poll()
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))
        self.store.leases.release(lease)
        self.poll()
        self.assertEqual({NodeState.READY: 1, NodeState.UNHEALTHY: 1}, self.states(cluster))

    def test_one_of_two_conductors_watches_until_it_is_closed(self):
        cluster = self.created(group(1))
        other = StandingCheck(self.parts, 'other', self.offer)
        self.poll()
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        other.poll()
        self.assertEqual({NodeState.READY: 1}, self.states(cluster))
        self.watch.close()
        other.poll()
        self.assertEqual({NodeState.UNHEALTHY: 1}, self.states(cluster))
        other.close()

    def test_a_conductor_that_lost_the_watch_does_not_poll(self):
        self.created(group(1))
        self.poll()
        take_over(self.store, SCOPE, 'other', 60)
        self.poll()
        self.assertEqual({}, self.calls)

    def test_a_deleted_cluster_is_dropped(self):
        cluster = self.created(group(1))
        self.poll()
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.poll()
        self.assertEqual({}, self.calls)


class Remedy(WatchSite):
    def test_a_node_that_stays_unhealthy_is_replaced_by_a_visible_operation(self):
        cluster = self.created(group(4, health=AT_ONCE))
        dead = self.nodes(cluster)[1]
        self.cloud.crash(dead.compute_id)
        self.poll()
        (operation,) = self.remediations(cluster)
        self.assertIs(OperationKind.REPLACE, operation.kind)
        self.succeeded(operation)
        self.assert_whole(cluster, 4)
        self.assertNotIn(dead.id, {one.id for one in self.nodes(cluster)})
        self.poll()
        self.assertEqual(1, len(self.remediations(cluster)))

    def test_a_node_that_can_recover_has_time(self):
        cluster = self.created(group(2))
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        self.poll()
        self.assertEqual([], self.remediations(cluster))

    def test_a_clock_that_was_set_back_gives_a_node_no_more_time(self):
        cluster = self.created(group(2))
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        self.poll()
        self.clock.step(-3600.0)
        self.poll()
        self.assertEqual([], self.remediations(cluster))
        self.clock.step(300.0)
        self.poll()
        self.assertEqual(1, len(self.remediations(cluster)))

    def test_when_too_many_are_dead_the_brake_holds(self):
        cluster = self.created(group(4, health=AT_ONCE))
        for one in self.nodes(cluster)[:2]:
            self.cloud.crash(one.compute_id)
        self.poll()
        self.assertEqual([], self.remediations(cluster))
        self.assertEqual({NodeState.READY: 2, NodeState.UNHEALTHY: 2}, self.states(cluster))

    def test_nothing_is_started_for_a_paused_cluster(self):
        cluster = self.created(group(4, health=AT_ONCE))
        self.store.clusters.pause(cluster.id)
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        self.poll()
        self.assertEqual([], self.remediations(cluster))


class Standing(Site):
    settings = dataclasses.replace(SETTINGS, watch_s=0.05)

    def test_a_conductor_watches_by_itself(self):
        cluster = self.created(group(4, health=AT_ONCE))
        dead = self.nodes(cluster)[0]
        self.cloud.vanish(dead.compute_id)
        self.until(lambda: dead.id not in {one.id for one in self.nodes(cluster)})
        self.until(lambda: self.states(cluster) == {NodeState.READY: 4})
        self.assert_whole(cluster, 4)


class Defective:
    """A store with one query that fails once."""

    def __init__(self, store):
        self._store = store
        self.left = [ValueError('a defect')]

    def __getattr__(self, name):
        return getattr(self._store, name)

    @property
    def operations(self):
        return self if self.left else self._store.operations

    def newest(self):
        raise self.left.pop()


class AfterADefect(Site):
    settings = dataclasses.replace(SETTINGS, watch_s=0.05)

    def test_a_defect_does_not_end_the_watch(self):
        cluster = self.created(group(1))
        self.conductor.close()
        self.cloud.crash(self.nodes(cluster)[0].compute_id)
        parts = dataclasses.replace(self.parts, store=Defective(self.store))
        watch = StandingCheck(parts, 'tests', self.fail)
        self.addCleanup(watch.close)
        with self.assertLogs('kiln.engine.failures', 'ERROR'):
            watch.start()
            self.until(lambda: self.states(cluster)[NodeState.UNHEALTHY])


class AfterTheStart(Site):
    settings = dataclasses.replace(SETTINGS, watch_s=10_000.0)

    def test_the_first_poll_is_soon_whatever_the_interval(self):
        began = self.clock.monotonic()
        self.until(lambda: self.conductor.watch.polled_at is not None)
        self.assertLess(self.clock.monotonic() - began, 1000)


class DuringAnOperation(Site):
    settings = dataclasses.replace(SETTINGS, watch_s=0.1)

    def test_an_operation_detects_unhealthy_and_recovered_machines(self):
        cluster = self.created(group(4))
        sick = self.nodes(cluster)[0]
        self.fault('build:quota')
        operation = self.change(cluster, group(5), kind=OperationKind.RESIZE)
        self.until(lambda: self.store.leases.get(cluster.id).owner)
        self.cloud.stop(sick.compute_id)
        self.until(lambda: self.states(cluster)[NodeState.UNHEALTHY])
        self.cloud.start(sick.compute_id)
        self.cloud.faults.clear()
        self.succeeded(operation)
        self.assert_whole(cluster, 5)
        self.assertIn(sick.id, {one.id for one in self.nodes(cluster)})


class Lazy(Plain):
    def drain(self, context, cluster, node):
        return Drained(False, 'it has work')


class Halfway(Site):
    driver = Lazy()
    settings = dataclasses.replace(SETTINGS, watch_s=0.05)

    def test_nodes_of_a_cancelled_reboot_are_brought_back_to_work(self):
        cluster = self.created(group(2))
        operation = self.submit(cluster, OperationKind.REBOOT)
        self.until(lambda: self.states(cluster)[NodeState.RESETTING])
        self.store.operations.cancel(operation.id)
        self.assertIs(OperationState.CANCELLED, self.ended(operation).state)
        self.until(lambda: self.states(cluster) == {NodeState.READY: 2})


class MayRemedy(unittest.TestCase):
    spec = ClusterSpec(name='web', groups=(wanted(3).group,))
    dead = (node(), node(), node(state=NodeState.FAILED))

    def may(self, nodes=None, now=1000.0, ended_at=900.0, state=OperationState.SUCCEEDED, **more):
        args = more.pop('args', {})
        cluster = Cluster(
            id='c', name='web', generation=1, pin=PIN,
            **{'spec': self.spec, 'former': Aim(spec=self.spec, pin=PIN)} | more,
        )  # fmt: skip
        newest = Operation(
            id='o', cluster_id='c', kind=OperationKind.REPLACE, state=state, args=args,
            ended_at=ended_at,
        )  # fmt: skip
        return may_remedy(cluster, newest, self.dead if nodes is None else nodes, now)

    def test_a_dead_node_of_a_cluster_in_its_desired_state_can_be_replaced(self):
        self.assertTrue(self.may())
        self.assertTrue(self.may(state=OperationState.FAILED), 'a reboot that failed, say')
        self.assertFalse(self.may(nodes=(node(), node(), node())))

    def test_a_failed_or_cancelled_operation_is_not_continued(self):
        self.assertFalse(self.may(former=None))
        less = dataclasses.replace(self.spec, groups=())
        self.assertFalse(self.may(former=Aim(spec=less, pin=PIN)))
        moved = dataclasses.replace(PIN, version='0.9.0')
        self.assertFalse(self.may(former=Aim(spec=self.spec, pin=moved)))

    def test_a_replacement_that_failed_is_not_repeated_at_once(self):
        in_vain = {'state': OperationState.FAILED, 'args': {'reason': REMEDIATION}}
        self.assertFalse(self.may(ended_at=701.0, **in_vain))
        self.assertTrue(self.may(ended_at=700.0, **in_vain))

    def test_a_clock_that_was_set_back_does_not_put_off_a_replacement(self):
        in_vain = {'state': OperationState.FAILED, 'args': {'reason': REMEDIATION}}
        self.assertTrue(self.may(ended_at=1001.0, **in_vain))

    def test_a_node_left_half_way_is_continued_unless_it_is_to_be_removed(self):
        out = node(state=NodeState.RESETTING, since=999.0)
        self.assertTrue(self.may(nodes=(node(), node(), out)))
        going = dataclasses.replace(out, doomed='asked for')
        self.assertFalse(self.may(nodes=(node(), node(), going)))


class Sights(unittest.TestCase):
    def sight(self, state, **more):
        status = ComputeStatus(amphora_id='m', state=state, **more)
        return polled_state(node(compute_id='m'), status)

    def test_only_certain_statuses_change_a_node(self):
        said = {state for state in State if self.sight(state) is not None}
        self.assertEqual(
            {State.ACTIVE, State.ERROR, State.STOPPED, State.SUSPENDED, State.DELETED}, said
        )
        self.assertIsNone(self.sight(State.ERROR, stale=True))
        self.assertIsNone(self.sight(State.ACTIVE, task_state='rebooting'))

    def test_the_providers_message_is_the_innermost_cause(self):
        found = self.sight(State.ERROR, fault='No valid host')
        self.assertEqual(Cause(code='provider', message='No valid host'), found.cause.because)
        self.assertEqual('machine_absent', self.sight(State.DELETED).cause.code)


class Checking(WatchSite):
    def checked(self, cluster):
        self.calls.clear()
        operation = self.submit(cluster, OperationKind.CHECK)
        self.ended(operation)
        return self.store.operations.get(operation.id)

    def drift(self, cluster):
        told = self.store.events.after(0, cluster_id=cluster.id)
        return [event.facts for event in told if event.kind == 'drift'][-1]

    def test_it_polls_machines_and_changes_nothing(self):
        cluster = self.created(group(4, health=AT_ONCE))
        machines = set(self.machines())
        nodes = self.nodes(cluster)
        self.cloud.stop(nodes[2].compute_id)
        self.assertIs(OperationState.SUCCEEDED, self.checked(cluster).state)
        self.assertEqual({'statuses': 1}, self.calls)
        self.assertEqual([None, None, 'machine_stopped', None], self.causes(cluster))
        self.assertEqual(machines, set(self.machines()))
        self.assertEqual({'nodes': [], 'of': 4}, dict(self.drift(cluster)))

    def test_it_reports_drift(self):
        cluster = self.created(group(2))
        new = group(2, machine=MachineSpec(image='new'))
        self.succeeded(self.change(cluster, new, kind=OperationKind.RESIZE))
        self.checked(cluster)
        ids = sorted(one.id for one in self.nodes(cluster))
        self.assertEqual(ids, sorted(self.drift(cluster)['nodes']))
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))

    def test_it_reports_backends_that_did_not_answer(self):
        cluster = self.created(group(2, health=Health(max_unhealthy=Portion(0))))
        self.parts.backends.get(None).open_circuit('read')
        ended = self.checked(cluster)
        self.assertEqual((OperationState.FAILED, 'not_seen'), (ended.state, ended.cause.code))
        self.assertEqual('circuit_open', ended.cause.because.code)
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))
