"""Tests of operations in the store: submit, cancel, retry and query."""

import dataclasses

from kiln.clusters.exceptions import ClusterBusy, ClusterChanged, ClusterNotFound
from kiln.clusters.models import OperationKind, OperationState
from tests.unit.db import samples
from tests.unit.db.case import TERM_S, ClusterCase, StoreCase


class Operations(ClusterCase):
    def settle(self, op_id='op-web', state=OperationState.FAILED):
        self.write(self.lease, operation=samples.operation(op_id, state=state))

    def submit(self, op_id='op-2', kind=OperationKind.REBOOT, **how):
        self.store.operations.submit(samples.operation(op_id, kind=kind), **how)

    def test_every_settled_state_accepts_the_next_operation(self):
        settled = [state for state in OperationState if state.ended]
        self.assertEqual(4, len(settled))
        last = 'op-web'
        for state in settled:
            self.settle(last, state)
            last = f'op-after-{state}'
            self.submit(last)

    def test_a_second_running_operation_is_refused(self):
        for state in (state for state in OperationState if not state.ended):
            self.settle(state=state)
            with self.assertRaisesRegex(ClusterBusy, f"cluster 'web': its create is {state}"):
                self.submit()
        self.assertEqual(1, len(self.store.operations.of('c-web')))

    def test_a_deletion_supersedes_a_running_operation(self):
        self.submit(kind=OperationKind.DELETE, supersede=True)
        old, new = self.store.operations.open('c-web')
        self.assertEqual((True, False), (old.cancelled, new.cancelled))

    def test_a_deletion_joins_one_that_does_as_much(self):
        forced = {'args': {'force': True}}
        cases = ((1, {}, {}), (1, forced, {}), (2, {}, forced), (1, forced, forced))
        for number, (kept, first, second) in enumerate(cases):
            with self.subTest(first=first, second=second):
                for one in self.store.operations.open('c-web'):
                    self.settle(one.id)
                ids = [f'op-{number}-1', f'op-{number}-2']
                entered = [
                    self.store.operations.submit(
                        samples.operation(op_id, kind=OperationKind.DELETE, **args), supersede=True
                    )
                    for op_id, args in zip(ids, (first, second), strict=True)
                ]
                self.assertEqual(ids[-1 if kept == 2 else 0], entered[1].id)
                running = self.store.operations.open('c-web')
                self.assertEqual(ids[:kept], [one.id for one in running])

    def test_a_deletion_does_not_join_one_that_is_being_cancelled(self):
        self.submit('op-2', OperationKind.DELETE, supersede=True)
        self.store.operations.cancel('op-2')
        self.submit('op-3', OperationKind.DELETE, supersede=True)
        self.assertFalse(self.store.operations.get('op-3').cancelled)

    def test_an_operation_needs_a_cluster(self):
        with self.assertRaisesRegex(ClusterNotFound, "'nothing'"):
            self.store.operations.submit(samples.operation('op-2', 'nothing'))

    def test_a_cancellation_is_a_request(self):
        asked = self.store.operations.cancel('op-web')
        self.assertEqual((True, OperationState.QUEUED), (asked.cancelled, asked.state))
        self.assertEqual(asked, self.store.operations.cancel('op-web'))

    def test_an_ended_operation_is_not_cancelled(self):
        self.settle()
        self.assertFalse(self.store.operations.cancel('op-web').cancelled)
        with self.assertRaisesRegex(ClusterNotFound, "'nothing'"):
            self.store.operations.cancel('nothing')

    def test_the_newest_operation_is_the_last_written_whatever_the_clocks(self):
        self.settle()
        late = dataclasses.replace(samples.operation('op-2'), created_at=-5.0)
        self.store.operations.submit(late)
        self.settle('op-2')
        self.assertEqual('op-2', self.store.operations.newest()['c-web'].id)
        self.assertEqual(['op-2', 'op-web'], [one.id for one in self.store.operations.of('c-web')])

    def test_an_operation_keeps_its_arguments(self):
        self.settle()
        asked = samples.operation('op-2', args={'nodes': ['n-1'], 'hard': True}, generation=4)
        self.store.operations.submit(asked)
        self.assertEqual(asked, self.store.operations.get('op-2'))


class Retrying(ClusterCase):
    def end(self, state, op_id='op-web'):
        ended = samples.operation(op_id, state=state, started_at=5.0, ended_at=9.0)
        self.write(self.lease, operation=ended)

    def retry(self, op_id='op-web'):
        return self.store.operations.reopen(op_id, deadline_at=700.0)

    def test_a_failed_operation_is_retried_under_its_id(self):
        self.store.operations.cancel('op-web')
        for state in (OperationState.FAILED, OperationState.CANCELLED):
            with self.subTest(state=state):
                self.end(state)
                retried = self.retry()
                (there,) = self.store.operations.open('c-web')
                self.assertEqual(retried, there)
                self.assertEqual(
                    ('op-web', OperationState.QUEUED, 700.0, False, None, None, None),
                    (there.id, there.state, there.deadline_at, there.cancelled,
                     there.started_at, there.ended_at, there.cause),
                )  # fmt: skip
                self.assertEqual(self.clock.time(), there.retried_at)

    def test_after_a_clock_was_set_back_what_failed_before_a_retry_stays_before_it(self):
        failed = samples.step('s-1', operation_id='op-web', started_at=self.clock.time())
        self.write(self.lease, step=failed)
        self.end(OperationState.FAILED)
        self.clock.step(-86400)
        retried = self.retry()
        (step,) = self.store.journal.of('op-web')
        self.assertLessEqual(step.started_at, retried.retried_at)

    def test_a_finished_operation_is_not_retried(self):
        for state in (OperationState.SUCCEEDED, OperationState.ROLLED_BACK):
            self.end(state)
            with self.assertRaisesRegex(ClusterChanged, f'ended as {state}'):
                self.retry()

    def test_a_running_operation_is_not_retried(self):
        with self.assertRaisesRegex(ClusterBusy, "cluster 'web': its create is queued"):
            self.retry()

    def test_a_superseded_operation_is_not_retried(self):
        self.end(OperationState.FAILED)
        self.store.operations.submit(samples.operation('op-2'))
        with self.assertRaisesRegex(ClusterChanged, 'a newer operation was submitted'):
            self.retry()

    def test_a_missing_operation_is_not_retried(self):
        with self.assertRaisesRegex(ClusterNotFound, 'nothing'):
            self.retry('nothing')
        self.end(OperationState.FAILED)
        with self.store.writing(self.lease) as batch:
            batch.bury()
        with self.assertRaisesRegex(ClusterNotFound, 'c-web'):
            self.retry()


class Work(StoreCase):
    def test_a_cluster_has_work_until_it_is_done_or_while_it_is_paused(self):
        has_work = self.store.operations.has_work
        self.assertFalse(has_work('c-web'))
        self.create()
        self.assertTrue(has_work('c-web'))
        lease = self.claim()
        self.assertTrue(has_work('c-web'), 'even while an engine works on it')
        self.store.clusters.pause('c-web')
        self.assertFalse(has_work('c-web'))
        self.store.operations.cancel('op-web')
        self.assertTrue(has_work('c-web'))
        ended = samples.operation('op-web', state=OperationState.CANCELLED)
        self.write(lease, operation=ended)
        self.assertFalse(has_work('c-web'))

    def test_clusters_with_work_are_ordered_by_their_operations(self):
        for name in ('b', 'a', 'c'):
            self.create(name)
        self.assertEqual(('c-b', 'c-a', 'c-c'), self.store.operations.runnable())
        self.assertEqual(('c-b',), self.store.operations.runnable(limit=1))

    def test_excluded_clusters_do_not_use_up_the_limit(self):
        asked = [f'c-{number}' for number in range(250)]
        for cluster_id in asked:
            self.create(cluster_id.removeprefix('c-'))
        runnable = self.store.operations.runnable
        self.assertEqual(tuple(asked[:100]), runnable())
        self.assertEqual(tuple(asked[200:]), runnable(besides=asked[:200]))
        self.assertEqual(tuple(asked[201:203]), runnable(besides=asked[:201], limit=2))

    def test_a_leased_cluster_is_not_offered_until_its_lease_expires(self):
        self.create()
        lease = self.claim()
        self.assertEqual((), self.store.operations.runnable())
        self.pass_time(TERM_S + 5)
        self.assertEqual(('c-web',), self.store.operations.runnable())
        self.store.leases.renew(lease, TERM_S)
        self.assertEqual((), self.store.operations.runnable())

    def test_an_ended_operation_is_not_work(self):
        self.create()
        lease = self.claim()
        self.write(lease, operation=samples.operation('op-web', state=OperationState.CANCELLED))
        self.store.leases.release(lease)
        self.assertEqual((), self.store.operations.runnable())

    def test_a_cluster_with_two_operations_is_offered_once(self):
        self.create()
        self.store.operations.submit(samples.operation('op-2'), supersede=True)
        self.assertEqual(('c-web',), self.store.operations.runnable())


class NodesAtALook(ClusterCase):
    def test_a_node_is_found_by_its_id_and_by_its_name(self):
        self.write(self.lease, node=[samples.node('n-1'), samples.node('n-2', name='n-1')])
        self.assertEqual('n-1', self.store.nodes.get('c-web', 'n-1').id)
        self.assertEqual('n-1', self.store.nodes.get('c-web', 'web-n-1').id)
        for cluster_id, word in (('c-web', 'n-3'), ('c-other', 'n-1')):
            with self.assertRaisesRegex(ClusterNotFound, f'{word}.*{cluster_id}'):
                self.store.nodes.get(cluster_id, word)

    def test_nodes_are_counted_by_cluster_and_state(self):
        nodes = [samples.node(f'n-{i}', state='ready') for i in range(3)]
        nodes = [dataclasses.replace(one, state=samples.NodeState.READY) for one in nodes]
        self.write(self.lease, node=[*nodes, samples.node('n-9')])
        counts = self.store.nodes.counts()
        self.assertEqual({'c-web'}, set(counts))
        self.assertEqual(
            {samples.NodeState.READY: 3, samples.NodeState.PLANNED: 1}, dict(counts['c-web'])
        )
