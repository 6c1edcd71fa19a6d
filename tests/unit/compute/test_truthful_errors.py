"""Errors are truthful about what is left, and about their object."""

import dataclasses

from kiln.compute.facade import Compute, Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    Advice,
    AmphoraComputeError,
    BuildFailed,
    BuildNotFound,
    BuildOutcomeUnknown,
    BuildTimeout,
    BuildVanished,
    ChangeFailed,
    DeleteFailed,
    DeleteTimeout,
    InstanceNotFoundError,
    InstanceStateConflict,
    OperationRejected,
    OperationTimeout,
    Outcome,
    QuotaExceeded,
    ServiceTimeout,
)
from kiln.models import State
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.errand import Errand
from tests.unit.compute.facade_case import FacadeTest


class Truth(FacadeTest):
    """A failed build reports truthfully what is left."""

    def failing(self, action, **given):
        self.cloud.faults.add(Fault(call='build', action=action, times=1, seconds=3.0))
        return self.settled_error(self.compute.build(build_key='k', until=Until.ACTIVE, **given))

    def test_the_error_of_a_failed_build_states_the_removal_after_it(self):
        error = self.failing('error')
        self.assertEqual(0, self.cloud.count())
        self.assertIs(BuildFailed, type(error))
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)
        self.assertIs(Advice.BUILD_ANEW, error.advice)
        self.assertRegex(str(error), r'failure to build\. What it built was removed\.$')

    def test_an_unconfirmed_removal_states_how_to_find_the_machine(self):
        self.cloud.faults.add(Fault(call='delete', action='refuse'))
        error = self.failing('error', timeout=60)
        self.assertEqual(1, self.cloud.count())
        self.assertIs(Outcome.UNKNOWN, error.outcome)
        self.assertIs(Advice.REPEAT, error.advice)
        self.assertIn("Look for its key, 'k'", str(error))
        [left] = self.cloud.instances()
        self.assertEqual((left.id, 'k'), (error.amphora_id, error.build_key))

    def test_after_a_deadline_the_machine_is_not_reported_as_gone(self):
        error = self.failing('stuck', timeout=60)
        self.assertIs(BuildTimeout, type(error))
        self.assertIs(Outcome.UNKNOWN, error.outcome)
        self.assertIs(Advice.REPEAT, error.advice)
        self.assertIn("Look for its key, 'k'", str(error))
        self.assertTrue(self.build(build_key='k'))

    def test_a_look_up_that_must_wait_states_when_to_repeat(self):
        self.cloud.faults.add(Fault(call='build', action='lose_answer', times=1))
        self.cloud.faults.add(Fault(call='find_build', action='rate_limit', retry_after=40.0))
        error = self.settled_error(self.compute.build(build_key='k', timeout=20))
        self.assertIs(BuildOutcomeUnknown, type(error))
        self.assertEqual((Advice.WAIT, 40.0), (error.advice, error.retry_after))
        self.cloud.faults.clear()
        self.clock.sleep(error.retry_after)
        self.assertTrue(self.build(build_key='k'))
        self.assertEqual(1, self.cloud.count())

    def test_a_vanished_build_has_its_own_error(self):
        error = self.failing('vanish')
        self.assertIs(BuildVanished, type(error))
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)

    def test_a_recovered_build_that_is_not_found_has_its_own_error(self):
        saved = Errand('build', backend='noop', subject='a', build_key='k').to_dict()
        error = self.settled_error(self.compute.recover(saved))
        self.assertIs(BuildNotFound, type(error))
        self.assertIs(Advice.BUILD_ANEW, error.advice)

    def test_a_machine_in_error_that_served_needs_a_repair(self):
        serving = self.build(build_key='k')
        self.cloud.crash(serving)
        for operation in (
            self.compute.build(build_key='k', until=Until.ACTIVE),
            self.compute.watch(serving),
        ):
            error = self.settled_error(operation)
            self.assertEqual((Advice.REPAIR, Outcome.APPLIED), (error.advice, error.outcome))
            self.assertIn('left as it is', str(error))
            self.assertEqual(serving, error.amphora_id)

    def test_a_machine_in_service_is_adopted_by_its_key(self):
        serving = self.build(build_key='k')
        never = self.compute.build(
            build_key='k', until=Until.READY, probe=lambda amphora: False, timeout=30
        )
        self.assertIs(Advice.REPEAT, self.settled_error(never).advice)
        self.assertEqual(serving, self.build(build_key='k'))

    def test_a_delete_that_ends_in_error_fails_at_once(self):
        for delete_s in (0, 5):
            with self.subTest(delete_s):
                self.cloud.faults.clear()
                amphora_id = self.build()
                self.cloud.gate.latencies = dataclasses.replace(
                    self.cloud.gate.latencies, delete_s=delete_s
                )
                self.cloud.faults.add(Fault(call='delete', action='error', times=1))
                began = self.clock.monotonic()
                error = self.settled_error(self.compute.delete(amphora_id, wait=True))
                self.assertIs(DeleteFailed, type(error))
                self.assertLess(self.clock.monotonic() - began, 20)
                self.assertEqual('Simulated failure to delete.', error.fault)
                self.settle(self.compute.delete(amphora_id, wait=True))

    def test_a_machine_in_error_before_its_delete_is_deleted_after_a_while(self):
        class Slow(NoopDriver):
            """Continues to report ERROR for a minute after it has accepted a delete."""

            def _delete(inner, amphora_id):  # noqa: N805
                delete = super()._delete
                inner.cloud.gate.later(60, lambda now: delete(amphora_id))

        amphora_id = self.build()
        self.cloud.crash(amphora_id)
        compute = Compute(Slow(cloud=self.cloud))
        self.addCleanup(compute.close, 0.1)
        self.settle(compute.delete(amphora_id, wait=True))
        self.nothing_left()

    def test_a_delete_that_stays_in_error_after_a_repeat_fails_before_the_deadline(self):
        class Deaf(NoopDriver):
            def _delete(inner, amphora_id):  # noqa: N805
                return None

        amphora_id = self.build()
        self.cloud.crash(amphora_id)
        compute = Compute(Deaf(cloud=self.cloud))
        self.addCleanup(compute.close, 0.1)
        began = self.clock.monotonic()
        error = self.settled_error(compute.delete(amphora_id, wait=True))
        self.assertIs(DeleteFailed, type(error))
        self.assertLess(self.clock.monotonic() - began, 200)

    def test_a_failed_change_is_not_reported_as_a_failed_build(self):
        for change in ('suspend', 'reboot', 'rebuild'):
            with self.subTest(change):
                amphora_id = self.build()
                self.cloud.faults.add(Fault(call=change, action='error', times=1))
                error = self.settled_error(getattr(self.compute, change)(amphora_id, wait=True))
                self.assertIs(ChangeFailed, type(error))
                self.assertEqual((Advice.REPAIR, Outcome.APPLIED), (error.advice, error.outcome))
                self.assertEqual((change, amphora_id), (error.operation, error.amphora_id))
                self.assertEqual(f'Simulated failure to {change}.', error.fault)
                self.assertIn('left as it is', str(error))

    def test_resuming_an_active_machine_is_reported_as_such(self):
        error = self.settled_error(self.compute.resume(self.build()))
        self.assertIs(Advice.GIVE_UP, error.advice)
        self.assertRegex(
            str(error), r'it is active and not suspended\. There is nothing to resume'
        )

    def test_an_unknown_machine_is_not_reported_as_deleted_from_outside(self):
        error = self.settled_error(self.compute.watch('nobody'))
        self.assertIs(InstanceNotFoundError, type(error))
        self.assertIn("'noop' has no amphora with that id", str(error))
        self.assertNotIn('somebody', str(error))

    def test_a_change_with_unknown_outcome_is_checked_first(self):
        amphora_id = self.build()
        self.cloud.faults.add(Fault(call='reboot', action='timeout_after', times=1))
        error = self.settled_error(self.compute.reboot(amphora_id))
        self.assertIs(ServiceTimeout, type(error))
        self.assertEqual((Advice.LOOK, False), (error.advice, error.retryable))
        self.cloud.faults.add(Fault(call='suspend', action='stuck', times=1))
        self.clock.sleep(60)
        error = self.settled_error(self.compute.suspend(amphora_id, wait=True, timeout=20))
        self.assertIs(OperationTimeout, type(error))
        self.assertIs(Advice.LOOK, error.advice)

    def test_a_full_queue_advises_to_wait_and_a_closed_one_does_not(self):
        compute = Compute(
            NoopDriver(cloud=self.cloud),
            settings=StackSettings(executor=ExecutorSettings(max_workers=3, max_queue=1)),
        )
        self.addCleanup(compute.close, 0.1)
        self.cloud.faults.add(Fault(call='list', action='hang', seconds=5, times=9))
        with self.assertRaises(OperationRejected) as caught:
            for _ in range(9):
                compute.list_amphorae()
        self.assertIs(Advice.WAIT, caught.exception.advice)
        self.assertGreater(caught.exception.retry_after, 0)
        compute.close(10)
        with self.assertRaises(OperationRejected) as caught:
            compute.list_amphorae()
        self.assertIs(Advice.GIVE_UP, caught.exception.advice)

    def test_a_circuit_opened_by_hand_must_be_closed_by_hand(self):
        self.compute.open_circuit('read')
        with self.assertRaises(AmphoraComputeError) as caught:
            self.compute.status('x')
        self.assertEqual((Advice.REPAIR, False, None), (
            caught.exception.advice, caught.exception.retryable, caught.exception.retry_after,
        ))  # fmt: skip


class Named(FacadeTest):
    """Every error names its backend, operation, machine and key."""

    def named(self, kind, about, call, *args, **given):
        try:
            error = self.settled_error(call(*args, **given))
        except AmphoraComputeError as exc:
            error = exc
        self.assertIsInstance(error, AmphoraComputeError)
        with self.subTest(kind, error=type(error).__name__):
            self.assertEqual((self.compute.name, kind), (error.backend, error.operation))
            for name, value in about.items():
                self.assertEqual(value, getattr(error, name), name)
            self.assertEqual(error.advice.again, error.retryable)
            if error.advice is Advice.BUILD_ANEW:
                self.assertIs(Outcome.NOT_APPLIED, error.outcome)
            self.assertNotIn('..', str(error))
        return error

    def test_every_failed_build_is_named_by_its_key(self):
        build = self.compute.build
        for action in ('refuse', 'quota', 'capacity', 'conflict', 'crash', 'lose_answer', 'error',
                       'stuck', 'vanish', 'rate_limit', 'timeout_before'):  # fmt: skip
            for until in (Until.ACCEPTED, Until.ACTIVE):
                key = f'{action}-{until.value}'
                # If nothing can be read, no uncertainty can be resolved either.
                self.cloud.faults.add(Fault(call='build', action=action, seconds=3.0))
                self.cloud.faults.add(Fault(call='find_build', action='refuse'))
                accepted = until is Until.ACCEPTED and action in ('error', 'stuck', 'vanish')
                given = {'build_key': key, 'until': until, 'timeout': 40}
                if accepted:
                    self.settle(build(**given))
                else:
                    self.named('build', {'build_key': key}, build, **given)
                self.cloud.faults.clear()
                for circuit in self.compute.circuits():
                    self.compute.close_circuit(circuit.name)
        for wrong in ({'name': ''}, {'until': 'x'}, {'priority': 'high'}):
            self.named('build', {'build_key': 'k'}, build, build_key='k', **wrong)
        cancelled = build(build_key='k', until=Until.ACTIVE)
        cancelled.cancel()
        self.named('build', {'build_key': 'k'}, lambda: cancelled)

    def test_every_failed_change_is_named_by_the_machines_id(self):
        amphora_id = self.build()
        of_it = {'amphora_id': amphora_id}
        self.cloud.stop(amphora_id)
        for kind in ('suspend', 'resume', 'reboot'):
            call = getattr(self.compute, kind)
            for wait in (False, True):
                error = self.named(kind, of_it, call, amphora_id, wait=wait)
                self.assertIsInstance(error, InstanceStateConflict)
            self.named(kind, of_it, call, amphora_id, wait='x')
        for kind in ('delete', 'status', 'watch'):
            call = getattr(self.compute, kind)
            self.named(kind, of_it, call, amphora_id, timeout=-1)
            self.named(kind, {'amphora_id': None}, call, '')
        self.named('watch', of_it, self.compute.watch, amphora_id, {State.ERROR}, timeout=3)
        self.cloud.faults.add(Fault(call='delete', action='stuck'))
        late = self.named('delete', of_it, self.compute.delete, amphora_id, wait=True, timeout=3)
        self.assertIsInstance(late, DeleteTimeout)

    def test_a_missing_machine_is_named_by_the_look_up(self):
        compute, nobody = self.compute, {'amphora_id': 'nobody'}
        self.named('status', nobody, compute.status, 'nobody')
        self.named('get', nobody, compute.get_amphora, amphora_id='nobody')
        self.named('find', {}, compute.get_amphora, 'nobody')
        self.named('get', {}, compute.get_amphora)
        self.named('list', {}, compute.list_amphorae, owner='/')
        self.named('open_circuit', {}, compute.open_circuit, 'x')
        self.named('recover', {}, compute.recover, {})

    def test_a_refusal_by_kiln_names_the_object(self):
        compute = self.compute
        for circuit in ('build', 'read', 'change'):
            compute.open_circuit(circuit)
        self.named('build', {'build_key': 'k'}, compute.build, build_key='k')
        self.named('delete', {'amphora_id': 'x'}, compute.delete, 'x')
        self.named('status', {'amphora_id': 'x'}, compute.status, 'x')
        compute.close(1)
        self.named('check', {}, compute.check)

    def test_an_exceeded_quota_keeps_its_class_after_the_removal(self):
        self.cloud.faults.add(Fault(call='build', action='error', text='Quota exceeded for cores'))
        error = self.named('build', {}, self.compute.build, until=Until.ACTIVE)
        self.assertIsInstance(error, QuotaExceeded)
        self.assertIs(Advice.REPAIR, error.advice)
