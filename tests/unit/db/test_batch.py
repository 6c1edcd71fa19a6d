"""Tests of write batches: atomic, and without undoing writes of other processes."""

import dataclasses

from kiln.clusters.exceptions import ClusterNotEmpty, ClusterNotFound, StoreError
from kiln.clusters.models import Aim, NodeState, OperationKind, OperationState, Secret, StepState
from tests.unit.db import samples
from tests.unit.db.case import ClusterCase


class Batches(ClusterCase):
    def test_everything_comes_back_as_it_was_written(self):
        web = dataclasses.replace(
            self.web,
            former=dataclasses.replace(self.web.aim, spec=samples.spec(create_timeout_s=60.0)),
            driver_handle='stack-1',
            driver_state={'a': {'b': [1, None]}}, updated_at=5.5,
        )  # fmt: skip
        operation = samples.operation('op-web', state=OperationState.WAITING, cause=samples.CAUSE)
        operation = dataclasses.replace(operation, started_at=1.5)
        done = samples.step('s-2', state=StepState.DONE, ended_at=3.5, result={'id': 'server-1'})
        done = dataclasses.replace(done, operation_id='op-web', cause=samples.CAUSE)
        intended = samples.step(operation_id='op-web', deadline_at=8.5)
        self.write(
            self.lease, cluster=web, operation=operation, step=[intended, done],
            node=samples.full_node(), holding=samples.holding(gone_at=4.5),
        )  # fmt: skip
        self.assertEqual(web, self.store.clusters.get('web'))
        self.assertEqual(operation, self.store.operations.get('op-web'))
        self.assertEqual((intended, done), self.store.journal.of('op-web'))
        self.assertEqual((samples.full_node(),), self.store.nodes.of('c-web'))
        self.assertEqual((samples.holding(gone_at=4.5),), self.store.receipts.holdings('c-web'))

    def test_an_extended_deadline_survives_writes_of_the_engine(self):
        operation = samples.operation('op-web')
        with self.store.writing(self.lease) as batch:
            batch.put_off(operation, 99.5)
        self.write(self.lease, operation=operation)
        self.assertEqual(99.5, self.store.operations.get('op-web').deadline_at)

    def test_an_operation_dated_back_keeps_its_time_and_what_was_added_to_it(self):
        # Submitted at 1000, retried at 2000 with 600 seconds, then resumed after 50 seconds.
        row = {'created': 1000.0, 'args': '{"retried_at": 2000.0}', 'deadline': 2650.0}
        self.change(
            'UPDATE operation SET created_at = :created, args = :args, deadline_at = :deadline',
            **row,
        )  # fmt: skip
        seen = self.store.operations.get('op-web')
        self.write(self.lease, step=samples.step(operation_id='op-web', started_at=2100.0))
        seen = dataclasses.replace(seen, deadline_at=2600.0)
        with self.store.writing(self.lease) as batch:
            batch.date_back(seen.asked(500.0), seen.asked_at)
        there = self.store.operations.get('op-web')
        self.assertEqual((500.0, 500.0, 1150.0), (there.created_at, there.retried_at,
                                                  there.deadline_at))  # fmt: skip
        self.assertEqual([500.0], [one.started_at for one in self.store.journal.of('op-web')])

    def test_an_operation_dated_back_without_a_deadline_gets_none(self):
        self.change('UPDATE operation SET created_at = 1000')
        seen = self.store.operations.get('op-web')
        with self.store.writing(self.lease) as batch:
            batch.date_back(seen.asked(500.0), seen.asked_at)
        there = self.store.operations.get('op-web')
        self.assertEqual((500.0, 0.0), (there.created_at, there.deadline_at))

    def test_000_15_handle_and_state_of_a_driver_are_optional(self):
        self.write(self.lease, cluster=self.web)
        self.assertEqual(
            [(None, None)], self.rows('SELECT driver_handle, driver_state FROM cluster')
        )
        self.assertIsNone(self.store.clusters.get('web').driver_handle)

    def test_000_20_a_cluster_can_have_many_kinds_of_machines(self):
        nodes = [
            samples.node('n-1', group='control', backend='nova'),
            samples.node('n-2', backend='metal', place=samples.Place('flavor_y', 'az2')),
            samples.node('n-3', backend='metal', place=samples.Place()),
        ]
        self.write(self.lease, node=nodes)
        self.assertEqual(samples.MIXED, self.store.clusters.get('web').spec.groups)
        self.assertEqual(tuple(nodes), self.store.nodes.of('c-web'))

    def test_if_the_block_raises_nothing_is_written(self):
        with self.assertRaises(ZeroDivisionError), self.store.writing(self.lease) as batch:
            batch.node(samples.node())
            batch.accept(samples.node(), 'server-1')
            batch.step(samples.step(operation_id='op-web'))
            raise ZeroDivisionError
        self.assertEqual((), self.store.nodes.of('c-web'))
        self.assertEqual((), self.store.journal.of('op-web'))

    def test_if_one_change_fails_nothing_is_written(self):
        with self.assertRaisesRegex(StoreError, 'Cannot write the store') as caught:
            self.write(self.lease, node=samples.node(), step=samples.step(operation_id='none'))
        self.assertFalse(caught.exception.retryable)
        self.assertEqual((), self.store.nodes.of('c-web'))

    def test_a_thousand_intents_are_one_commit(self):
        steps = [samples.step(f's-{i:04}', 'op-web', node_id=f'n-{i}') for i in range(1000)]
        self.write(self.lease, step=steps)
        self.assertEqual(tuple(steps), self.store.journal.open('op-web'))
        self.write(self.lease, step=dataclasses.replace(steps[500], state=StepState.DONE))
        self.assertEqual(999, len(self.store.journal.open('op-web')))
        self.assertEqual(1000, len(self.store.journal.of('op-web')))

    def test_the_later_of_two_changes_is_written(self):
        doomed = samples.node(state=NodeState.FAILED)
        self.write(self.lease, node=[samples.node(), doomed])
        self.assertEqual((doomed,), self.store.nodes.of('c-web'))

    def test_a_cancelled_operation_is_not_uncancelled_by_its_engine(self):
        known = self.store.operations.get('op-web')
        self.store.operations.cancel('op-web')
        self.write(self.lease, operation=dataclasses.replace(known, state=OperationState.RUNNING))
        found = self.store.operations.get('op-web')
        self.assertEqual((OperationState.RUNNING, True), (found.state, found.cancelled))

    def test_the_engine_does_not_undo_the_desired_state(self):
        other = samples.operation('op-2', kind=OperationKind.UPDATE)
        wanted = samples.spec(create_timeout_s=1.0)
        self.store.clusters.change('c-web', wanted, generation=1, operation=other, supersede=True)
        self.store.clusters.pause('c-web')
        self.write(self.lease, cluster=dataclasses.replace(self.web, driver_handle='h'))
        found = self.store.clusters.get('web')
        self.assertEqual((wanted, 2, True), (found.spec, found.generation, found.paused))
        self.assertEqual('h', found.driver_handle)

    def test_a_rollback_applies_unless_the_owner_changed_the_cluster(self):
        pin = dataclasses.replace(self.web.pin, version='0.9.0')
        former = Aim(
            spec=samples.spec(create_timeout_s=1.0), pin=pin, decision={'steps': ['chosen']}
        )
        with self.store.writing(self.lease) as batch:
            self.assertTrue(batch.change_aim(former, generation=1))
        found = self.store.clusters.get('web')
        self.assertEqual((former, 2), (found.aim, found.generation))
        self.assertEqual(former.decision, found.decision)
        with self.store.writing(self.lease) as batch:
            self.assertFalse(batch.change_aim(self.web.aim, generation=1))
        self.assertEqual(found, self.store.clusters.get('web'))


class Acceptance(ClusterCase):
    def accept(self, node, compute_id):
        with self.store.writing(self.lease) as batch:
            return batch.accept(node, compute_id)

    def compute_id(self):
        return self.store.nodes.get('c-web', 'n-1').compute_id

    def test_one_machine_is_accepted_for_a_node_and_no_second_one(self):
        self.write(self.lease, node=samples.node())
        self.assertTrue(self.accept(samples.node(), 'server-1'))
        self.assertFalse(self.accept(samples.node(), 'server-2'))
        self.assertEqual('server-1', self.compute_id())

    def test_accepting_the_same_machine_again_succeeds(self):
        self.write(self.lease, node=samples.node())
        self.assertEqual([True, True], [self.accept(samples.node(), 'x') for _ in range(2)])

    def test_a_machine_of_another_attempt_is_not_accepted(self):
        self.write(self.lease, node=samples.node(attempt=2))
        self.assertFalse(self.accept(samples.node(attempt=1), 'server-1'))
        self.assertIsNone(self.compute_id())

    def test_a_missing_node_accepts_no_machine(self):
        self.assertFalse(self.accept(samples.node(), 'server-1'))

    def test_a_node_can_be_written_and_accepted_in_one_batch(self):
        with self.store.writing(self.lease) as batch:
            batch.node(samples.node())
            self.assertTrue(batch.accept(samples.node(), 'server-1'))
        self.assertEqual('server-1', self.compute_id())

    def test_an_engine_with_an_old_node_does_not_undo_an_acceptance(self):
        self.write(self.lease, node=samples.node())
        self.accept(samples.node(), 'server-1')
        self.write(self.lease, node=samples.node(state=NodeState.BOOTING))
        self.assertEqual('server-1', self.compute_id())
        self.write(self.lease, node=samples.node(compute_id='server-2'))
        self.assertEqual('server-1', self.compute_id())

    def test_the_next_attempt_starts_without_a_machine(self):
        self.write(self.lease, node=samples.node())
        self.accept(samples.node(), 'server-1')
        again = samples.node(attempt=2)
        self.write(self.lease, node=again)
        self.assertIsNone(self.compute_id())
        self.assertTrue(self.accept(again, 'server-2'))

    def test_the_rest_of_a_batch_is_written_whatever_is_accepted(self):
        self.write(self.lease, node=samples.node(compute_id='server-1'))
        with self.store.writing(self.lease) as batch:
            if not batch.accept(samples.node(), 'server-2'):
                batch.event(samples.event('a twin'))
        self.assertEqual('a twin', self.store.events.after()[0].message)


class Doom(ClusterCase):
    def doomed(self):
        return {one.id: one.doomed for one in self.store.nodes.of('c-web')}

    def test_a_mark_for_removal_survives_writes_of_the_engine(self):
        self.write(self.lease, node=[samples.node('n-1'), samples.node('n-2')])
        asked = {'doomed': {'n-1': 'asked for'}, 'operation': samples.operation('op-2')}
        self.store.clusters.change('c-web', samples.spec(), generation=1, supersede=True, **asked)
        self.write(self.lease, node=samples.node('n-1', state=NodeState.READY))
        self.assertEqual({'n-1': 'asked for', 'n-2': ''}, self.doomed())

    def test_an_engine_can_mark_a_node_for_removal(self):
        self.write(self.lease, node=samples.node())
        self.write(self.lease, node=samples.node(doomed='unhealthy'))
        self.assertEqual({'n-1': 'unhealthy'}, self.doomed())


class Burial(ClusterCase):
    def bury(self, **how):
        with self.store.writing(self.lease) as batch:
            batch.event(samples.event('gone'))
            batch.bury(**how)

    def test_000_5_a_cluster_is_not_deleted_while_a_resource_might_exist(self):
        gone = [samples.holding('port-0', gone_at=5.0)]
        there = [samples.holding(f'port-{i}') for i in range(1, 13)]
        self.write(self.lease, holding=gone + there, node=samples.node())
        with self.assertRaises(ClusterNotEmpty) as caught:
            self.bury()
        self.assertIn('port port-1 on nova, ', str(caught.exception))
        self.assertIn(' and 2 more', str(caught.exception))
        self.assertNotIn('port-0', str(caught.exception))
        self.assertEqual(1, len(self.store.nodes.of('c-web')))
        self.assertEqual((), self.store.events.after())

    def test_an_empty_cluster_leaves_a_receipt_and_a_free_name(self):
        secret = Secret(cluster_id='c-web', name='token', value='hush')
        self.write(self.lease, node=samples.node(), secret=secret, holding=samples.holding())
        with self.store.writing(self.lease) as batch:
            # Confirmed and deleted in one commit.
            batch.holding(samples.holding(gone_at=5.0))
            batch.operation(samples.operation('op-web', state=OperationState.SUCCEEDED))
            batch.bury()
        receipt = self.store.receipts.get('web')
        self.assertEqual((samples.holding(gone_at=5.0),), receipt.holdings)
        self.assertEqual(((), self.clock.time()), (receipt.abandoned, receipt.deleted_at))
        self.assertEqual(receipt, self.store.receipts.get('c-web'))
        self.assertEqual((), self.store.clusters.list() + self.store.nodes.of('c-web'))
        with self.assertRaises(ClusterNotFound):
            self.store.secrets.read('c-web', 'token')
        self.assertIs(OperationState.SUCCEEDED, self.store.operations.of('c-web')[0].state)
        self.create('web', id='c-web-2')

    def test_abandoned_resources_are_on_the_receipt(self):
        self.write(self.lease, holding=samples.holding())
        self.bury(forced=True)
        receipt = self.store.receipts.get('web')
        self.assertEqual(((), (samples.holding(),)), (receipt.holdings, receipt.abandoned))

    def test_deleting_a_cluster_again_changes_nothing(self):
        self.bury()
        receipt = self.store.receipts.get('web')
        self.pass_time(1)
        self.bury()
        self.assertEqual(receipt, self.store.receipts.get('web'))
