"""Clusters that are built by engines which are not kiln's own."""

import dataclasses
import pathlib
import tempfile
import unittest
import uuid

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Progress, StatusReport
from kiln.cluster_exceptions import ClusterDriverError, ClusterNotFound, LeaseLost
from kiln.cluster_models import Cluster, Operation, OperationKind, OperationState
from kiln.cluster_spec import ClusterSpec
from kiln.db.store import open_store
from kiln.engine.foreign import ASK_S, ForeignWork
from kiln.engine.parts import Backends, Parts
from kiln.testing.clock import VirtualClock
from tests.unit.engine.site import PIN, group

DONE = StatusReport(progress=Progress.COMPLETE)
BUSY = StatusReport(progress=Progress.IN_PROGRESS, reason='2 of 3 servers')


class Orchestra(ClusterDriver):
    """A driver of an engine that says what a test has it say."""

    name = 'orchestra'
    version = '1.0.0'
    provides = (('vm', '*', 'nodes'),)

    def __init__(self):
        self.calls = []
        self.answers = []

    def say(self, call, cluster):
        self.calls.append((call, cluster.driver_handle))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def create_cluster(self, context, cluster, cluster_create_timeout):
        self.timeout_s = cluster_create_timeout
        return self.say('create', cluster)

    def update_cluster(self, context, cluster, scale_manager=None, rollback=False):
        return self.say('update', cluster)

    def delete_cluster(self, context, cluster):
        return self.say('delete', cluster)

    def update_cluster_status(self, context, cluster):
        return self.say('status', cluster)

    def resize_cluster(self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()):
        self.resized = (nodegroup.name, node_count)
        return self.say('resize', cluster)

    def upgrade_cluster(self, context, cluster, *, cluster_template, nodegroups, strategy):
        self.upgraded = [one.name for one in nodegroups]
        return self.say('upgrade', cluster)

    def reboot_cluster(self, context, cluster, *, hard=False, nodes=None):
        self.hard = hard
        return self.say('reboot', cluster)


class ForeignCase(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = VirtualClock()
        self.store = open_store(f'sqlite:///{folder}/kiln.db', clock=self.clock)
        self.addCleanup(self.store.close)
        self.driver = Orchestra()
        self.cluster_id = str(uuid.uuid4())
        spec = ClusterSpec(name='web', groups=(group(3),))
        cluster = Cluster(id=self.cluster_id, name='web', spec=spec, generation=1, pin=PIN)
        self.created = self.operation(OperationKind.CREATE)
        self.store.clusters.create(cluster, self.created)
        self.takeover()

    def operation(self, kind, **args):
        now = self.clock.time()
        return Operation(
            id=str(uuid.uuid4()), cluster_id=self.cluster_id, kind=kind, args=args,
            created_at=now, deadline_at=now + 600.0,
        )  # fmt: skip

    def submit(self, kind, **args):
        operation = self.operation(kind, **args)
        self.store.operations.submit(operation)
        self.work.reload()
        return operation

    def takeover(self):
        """Have another process take the cluster."""
        lease = self.store.leases.claim(self.cluster_id, str(uuid.uuid4()), 1.0)
        if lease is None:
            self.clock.advance(2.0)
            lease = self.store.leases.claim(self.cluster_id, str(uuid.uuid4()), 1.0)
        self.news, self.launched = [], []
        parts = Parts(
            store=self.store, backends=Backends(lambda name: None, default='none'), drivers=None,
            clock=self.clock, run=self.launched.append,
        )  # fmt: skip
        self.work = ForeignWork(parts, lease, self.driver, self.news.append)

    def turn(self, *answers):
        """Have a turn, let what it began run, and have it told."""
        self.driver.answers += answers
        self.work.turn([])
        if self.launched:
            self.launched.pop()()
            self.work.turn([self.news.pop()])

    def later(self, *answers):
        self.clock.advance(ASK_S)
        self.turn(*answers)

    def state(self, operation):
        return self.store.operations.get(operation.id).state

    def calls(self):
        return [call for call, _ in self.driver.calls]


class Creating(ForeignCase):
    def test_000_11_a_driver_is_asked_once_and_then_how_far_it_has_come(self):
        self.turn(StatusReport(progress=Progress.IN_PROGRESS, driver_handle='stack-1'))
        self.later(BUSY)
        self.assertEqual(
            '2 of 3 servers', self.store.operations.get(self.created.id).cause.message
        )
        self.later(DONE)
        self.assertEqual(['create', 'status', 'status'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))
        self.assertTrue(self.work.idle)

    def test_000_14_what_a_driver_knows_is_kept_and_handed_back(self):
        self.turn(StatusReport(driver_handle='stack-1', driver_state={'step': 2}))
        self.later(DONE)
        self.assertEqual([('create', None), ('status', 'stack-1')], self.driver.calls)
        cluster = self.store.clusters.get('web')
        self.assertEqual(('stack-1', {'step': 2}), (cluster.driver_handle, cluster.driver_state))
        self.assertEqual(cluster.spec, cluster.former)

    def test_000_3_the_time_that_is_left_is_told(self):
        self.turn(DONE)
        self.assertAlmostEqual(600.0, self.driver.timeout_s, delta=1.0)

    def test_one_who_says_nothing_is_asked_at_once_how_far_he_is(self):
        self.turn(None)
        self.turn(DONE)
        self.assertEqual(['create', 'status'], self.calls())

    def test_it_is_not_asked_before_its_time(self):
        self.turn(BUSY)
        self.clock.advance(ASK_S / 2)
        self.turn()
        self.assertEqual(['create'], self.calls())
        self.assertAlmostEqual(ASK_S / 2, self.work.due - self.clock.monotonic())

    def test_a_failure_of_its_engine_is_told_in_its_words(self):
        self.turn(StatusReport(progress=Progress.FAILED, reason='no valid host'))
        ended = self.store.operations.get(self.created.id)
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertEqual('no valid host', ended.cause.message)

    def test_one_whose_engine_cannot_be_asked_is_waited_for(self):
        self.turn(BUSY)
        self.later(StatusReport(progress=Progress.UNKNOWN))
        self.assertIs(OperationState.WAITING, self.state(self.created))
        self.later(ClusterDriverError('The engine is away.'))
        waiting = self.store.operations.get(self.created.id)
        self.assertIs(OperationState.WAITING, waiting.state)
        self.assertIn('away', waiting.cause.message)
        self.later(DONE)
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_what_a_driver_refuses_for_good_has_failed(self):
        self.turn(ClusterDriverError('There is no such network.'))
        self.assertIs(OperationState.FAILED, self.state(self.created))
        (step,) = self.store.journal.of(self.created.id)
        self.assertEqual('failed', step.state.value)

    def test_what_a_driver_refuses_for_now_is_asked_again(self):
        self.turn(ClusterDriverError('Busy.', retryable=True))
        self.later(DONE)
        self.assertEqual(['create', 'create'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_a_defect_of_a_driver_is_its_own(self):
        self.turn(RuntimeError('oops'))
        self.assertIn('oops', self.store.operations.get(self.created.id).cause.message)

    def test_it_ends_by_its_deadline(self):
        self.turn(BUSY)
        self.clock.advance(601)
        self.turn()
        ended = self.store.operations.get(self.created.id)
        self.assertEqual(('failed', 'deadline'), (ended.state.value, ended.cause.code))
        self.assertEqual('2 of 3 servers', ended.cause.because.message)

    def test_it_can_be_cancelled(self):
        self.turn(BUSY)
        self.store.operations.cancel(self.created.id)
        self.work.reload()
        self.turn()
        self.assertIs(OperationState.CANCELLED, self.state(self.created))

    def test_nothing_is_asked_of_one_that_is_paused(self):
        self.store.clusters.pause(self.cluster_id)
        self.work.reload()
        self.turn()
        self.assertEqual([], self.calls())


class TakenOver(ForeignCase):
    def test_one_that_was_asked_is_not_asked_again(self):
        self.turn(BUSY)
        self.takeover()
        self.turn(DONE)
        self.assertEqual(['create', 'status'], self.calls())

    def test_one_of_whom_it_is_not_known_is_asked_again(self):
        self.work.turn([])
        self.takeover()
        self.turn(DONE)
        self.assertEqual(['create'], self.calls())
        self.assertIs(OperationState.SUCCEEDED, self.state(self.created))

    def test_one_who_lost_the_cluster_writes_nothing(self):
        self.work.turn([])
        before, told, launched = self.work, self.news, self.launched
        self.takeover()
        launched.pop()()
        with self.assertRaises(LeaseLost):
            before.turn(told)
        self.assertIs(OperationState.RUNNING, self.state(self.created))

    def test_an_answer_to_an_earlier_operation_is_nothing(self):
        self.work.turn([])
        self.launched.pop()()
        (late,) = self.news
        self.store.operations.cancel(self.created.id)
        self.takeover()
        self.turn()
        self.submit(OperationKind.REBOOT)
        self.work.turn([late])
        self.assertFalse(self.work.idle)


class Settled(ForeignCase):
    def setUp(self):
        super().setUp()
        self.turn(DONE)
        self.driver.calls.clear()

    def test_each_operation_has_its_call(self):
        for kind, call, args in (
            (OperationKind.UPDATE, 'update', {}),
            (OperationKind.RESIZE, 'resize', {'group': 'work'}),
            (OperationKind.UPGRADE, 'upgrade', {}),
            (OperationKind.REBOOT, 'reboot', {'hard': True}),
            (OperationKind.CHECK, 'status', {}),
        ):
            with self.subTest(kind=kind):
                operation = self.submit(kind, **args)
                self.later(DONE)
                self.assertIs(OperationState.SUCCEEDED, self.state(operation))
                self.assertEqual(call, self.calls()[-1])
        self.assertEqual(('work', 3), self.driver.resized)
        self.assertEqual(['work'], self.driver.upgraded)
        self.assertTrue(self.driver.hard)

    def test_what_a_driver_lacks_is_said(self):
        for kind in (OperationKind.REBUILD, OperationKind.ROTATE, OperationKind.REPLACE):
            with self.subTest(kind=kind):
                operation = self.submit(kind)
                self.later()
                ended = self.store.operations.get(operation.id)
                self.assertEqual('missing_capability', ended.cause.code)

    def test_a_check_ends_whatever_it_finds(self):
        operation = self.submit(OperationKind.CHECK)
        self.later(None)
        self.assertIs(OperationState.SUCCEEDED, self.state(operation))

    def test_000_5_a_cluster_is_gone_when_its_driver_says_so(self):
        operation = self.submit(OperationKind.DELETE)
        self.later(BUSY)
        self.assertEqual('web', self.store.clusters.get('web').name)
        self.later(DONE)
        self.assertIs(OperationState.SUCCEEDED, self.state(operation))
        with self.assertRaises(ClusterNotFound):
            self.store.clusters.get('web')
        self.assertEqual('web', self.store.receipts.get('web').name)

    def test_what_somebody_changes_meanwhile_is_seen(self):
        there = self.store.clusters.get('web')
        spec = dataclasses.replace(there.spec, groups=(group(4),))
        operation = self.operation(OperationKind.RESIZE, group='work')
        self.store.clusters.change(there.id, spec, generation=1, operation=operation)
        self.work.reload()
        self.later(DONE)
        self.assertEqual(('work', 4), self.driver.resized)
