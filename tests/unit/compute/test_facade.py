"""The facade for controllers, on a Noop cloud and a virtual clock."""

import asyncio
import inspect
import threading
import time
import unittest

import kiln
from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.calls import Traffic
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    AmbiguousInstanceError,
    AmphoraBuildError,
    BuildOutcomeUnknown,
    BuildTimeout,
    CircuitOpenError,
    DeleteTimeout,
    InstanceNotFoundError,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    OperationCancelled,
    OperationRejected,
    QuotaExceeded,
    UnsupportedOperation,
)
from kiln.models import Ability, Resource, State
from kiln.telemetry.events import Listener
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.operation import Operation, OperationState
from kiln.wrappers.rate import RateSettings
from tests.unit.compute.facade_case import FacadeTest


class Building(FacadeTest):
    def test_build_has_the_signature_of_the_contract(self):
        contract = inspect.signature(AmphoraComputeDriver.build).parameters
        own = inspect.signature(Compute.build).parameters
        self.assertEqual({**contract}, {name: own.get(name) for name in contract})

    def test_a_build_is_done_when_the_backend_has_accepted(self):
        amphora_id = self.settle(self.compute.build(name='a'))
        status = self.settle(self.compute.status(amphora_id))
        self.assertIs(State.BUILDING, status.state)

    def test_until_active_waits_until_the_amphora_is_active(self):
        amphora_id = self.build(name='a')
        self.assertIs(State.ACTIVE, self.settle(self.compute.status(amphora_id)).state)
        self.assertGreaterEqual(self.clock.monotonic(), 20)

    def test_a_build_is_not_polled_before_it_can_be_done(self):
        class Slow(NoopDriver):
            soonest_build_s = 15.0

        compute = Compute(Slow(cloud=self.cloud))
        self.addCleanup(compute.close, 0.1)
        heard = []
        operation = compute.build(
            until=Until.ACTIVE, on_status=lambda status: heard.append(self.clock.monotonic())
        )
        self.settle(operation)
        self.assertGreaterEqual(heard[0], 15.0)

    def test_the_operation_records_its_events(self):
        operation = self.compute.build(until='active', build_key='k1')
        self.settle(operation)
        names = [event.name for event in operation.events]
        self.assertIn('accepted', names)
        self.assertIn('active', names)
        self.assertEqual('k1', operation.build_key)
        self.assertEqual(operation.result(), operation.amphora_id)

    def test_the_result_of_each_call_shows_only_public_members(self):
        compute, built = self.compute, self.compute.build()
        others = [compute.build(until='active'), compute.get_amphora('a'), compute.watch('a')]
        for operation in (built, *others, compute.recover(built.to_dict())):
            self.assertIsInstance(operation, Operation)
            self.assertEqual(dir(Operation), dir(operation))

    def test_until_ready_repeats_the_probe_until_it_succeeds(self):
        answers = iter([False, False, True])
        seen = []

        def probe(amphora):
            seen.append(amphora.state)
            return next(answers)

        operation = self.compute.build(until=Until.READY, probe=probe)
        self.settle(operation)
        self.assertEqual([State.ACTIVE] * 3, seen)

    def test_a_probe_that_never_succeeds_is_a_timeout_with_its_reason_and_leaves_nothing(self):
        def probe(amphora):
            raise OSError('port 22 is closed')

        operation = self.compute.build(until=Until.READY, probe=probe, timeout=60)
        error = self.settled_error(operation)
        self.assertIsInstance(error, BuildTimeout)
        self.assertIn('port 22 is closed', str(error))
        self.nothing_left()

    def test_a_hanging_probe_does_not_delay_the_deadline(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        operation = self.compute.build(
            until=Until.READY, probe=lambda amphora: gate.wait(120), timeout=60
        )
        self.assertIsInstance(self.settled_error(operation), BuildTimeout)
        self.nothing_left()

    def test_an_amphora_that_vanishes_during_the_probe_fails_the_build(self):
        def probe(amphora):
            self.cloud.vanish(amphora.id)
            return False

        error = self.settled_error(self.compute.build(until=Until.READY, probe=probe))
        self.assertIsInstance(error, AmphoraBuildError)

    def test_wrong_arguments_raise_at_once_and_reach_no_backend(self):
        with self.assertRaises(InvalidBuildRequest):
            self.compute.build(name='')
        with self.assertRaisesRegex(InvalidRequest, 'accepted, active, ready'):
            self.compute.build(until='someday')
        with self.assertRaisesRegex(InvalidRequest, 'needs a probe'):
            self.compute.build(until=Until.READY)
        with self.assertRaisesRegex(InvalidRequest, 'only with until'):
            self.compute.build(probe=lambda amphora: True)
        self.assertEqual(0, self.cloud.count())

    def test_a_build_that_ends_in_error_is_removed_before_it_is_reported(self):
        self.cloud.faults.add(Fault(call='build', action='error', text='No valid host was found'))
        error = self.settled_error(self.compute.build(until=Until.ACTIVE))
        self.assertIsInstance(error, InsufficientCapacity)
        self.assertIn('No valid host', error.fault)
        self.nothing_left()

    def test_a_build_that_is_never_active_times_out_and_leaves_nothing(self):
        operation = self.compute.build(
            until=Until.ACTIVE, timeout=100, metadata={'noop:fault': 'stuck'}
        )
        error = self.settled_error(operation)
        self.assertIsInstance(error, BuildTimeout)
        self.assertEqual(operation.amphora_id, error.amphora_id)
        self.nothing_left()

    def test_a_build_whose_amphora_vanishes_reports_it(self):
        operation = self.compute.build(
            until=Until.ACTIVE, metadata={'noop:fault': 'vanish=5'}, build_key='gone'
        )
        error = self.settled_error(operation)
        self.assertIsInstance(error, AmphoraBuildError)
        self.assertIsInstance(error.__cause__, InstanceNotFoundError)
        self.assertEqual('gone', error.build_key)

    def test_a_cancelled_build_leaves_nothing(self):
        operation = self.compute.build(until=Until.ACTIVE)
        self.until(lambda: operation.amphora_id is not None)
        self.assertTrue(operation.cancel())
        with self.assertRaises(OperationCancelled):
            operation.result()
        self.nothing_left()

    def test_a_build_cancelled_before_acceptance_leaves_nothing(self):
        self.cloud.faults.add(Fault(call='build', action='hang', seconds=30))
        operation = self.compute.build(until=Until.ACTIVE)
        self.until(lambda: self.clock.waiting > 0)
        self.assertTrue(operation.cancel())
        self.clock.sleep(60)
        self.nothing_left()

    def test_without_discard_an_uncertain_build_is_left_to_its_caller(self):
        self.cloud.faults.add(Fault(call='build', action='hang', seconds=30))
        operation = self.compute.build(build_key='k', timeout=5, discard=False)
        self.assertIsInstance(self.settled_error(operation), BuildOutcomeUnknown)
        self.clock.sleep(120)
        self.assertEqual(1, self.cloud.count())
        again = self.compute.build(build_key='k', discard=False)
        self.settle(again)
        self.assertEqual(1, self.cloud.count())

    def test_discard_false_is_valid_only_until_accepted(self):
        with self.assertRaises(InvalidRequest):
            self.compute.build(until=Until.ACTIVE, discard=False)

    def test_a_refusal_by_the_backend_is_the_operations_error(self):
        self.cloud.faults.add(Fault(call='build', action='quota'))
        self.assertIsInstance(
            self.settled_error(self.compute.build(until=Until.ACTIVE)), QuotaExceeded
        )

    def test_one_key_builds_one_amphora(self):
        first = self.compute.build(build_key='k', until=Until.ACTIVE)
        second = self.compute.build(build_key='k', until=Until.ACTIVE)
        self.settle(first, second)
        self.assertEqual(first.result(), second.result())
        self.assertEqual(1, self.cloud.count())

    def test_on_status_is_called_for_each_change(self):
        states = []
        self.settle(
            self.compute.build(until=Until.ACTIVE, on_status=lambda s: states.append(s.state))
        )
        # Called on a separate thread, perhaps after the end of the operation.
        self.until(lambda: states and states[-1] is State.ACTIVE)


class Deleting(FacadeTest):
    def test_delete_is_done_when_the_backend_has_accepted(self):
        amphora_id = self.build()
        self.settle(self.compute.delete(amphora_id))
        self.assertIs(State.DELETING, self.settle(self.compute.status(amphora_id)).state)

    def test_delete_with_wait_is_done_when_it_is_gone(self):
        amphora_id = self.build()
        self.settle(self.compute.delete(amphora_id, wait=True))
        self.assertIsInstance(
            self.settled_error(self.compute.status(amphora_id)), InstanceNotFoundError
        )

    def test_a_delete_that_takes_too_long_is_a_delete_timeout(self):
        amphora_id = self.build()
        operation = self.compute.delete(amphora_id, wait=True, timeout=2)
        self.until(lambda: operation.state is OperationState.WAITING)
        self.assertIsInstance(self.settled_error(operation), DeleteTimeout)

    def test_waiting_for_a_delete_can_be_cancelled(self):
        amphora_id = self.build()
        operation = self.compute.delete(amphora_id, wait=True)
        self.assertTrue(operation.cancel())
        self.assertIsInstance(operation.exception(), OperationCancelled)


class Finding(FacadeTest):
    def test_an_amphora_is_found_by_name_by_id_and_by_key(self):
        amphora_id = self.build(name='web', build_key='k')
        for found in (
            self.compute.get_amphora('web'),
            self.compute.get_amphora(amphora_id=amphora_id),
            self.compute.get_amphora('web', amphora_id),
            self.compute.find_build('k'),
        ):
            self.assertEqual(amphora_id, self.settle(found).id)

    def test_two_amphorae_of_a_name_are_ambiguous_and_none_is_chosen(self):
        self.build(name='web')
        self.build(name='web')
        error = self.settled_error(self.compute.get_amphora('web'))
        self.assertIsInstance(error, AmbiguousInstanceError)

    def test_a_name_that_does_not_match_the_id_is_not_found(self):
        amphora_id = self.build(name='web')
        error = self.settled_error(self.compute.get_amphora('db', amphora_id))
        self.assertIsInstance(error, InstanceNotFoundError)
        self.assertIn("'web'", str(error))

    def test_neither_name_nor_id_is_refused_at_once(self):
        with self.assertRaisesRegex(InvalidRequest, 'name or its id'):
            self.compute.get_amphora()

    def test_lists_statuses_and_changes(self):
        ids = {self.build(), self.build()}
        self.assertEqual(ids, {a.id for a in self.settle(self.compute.list_amphorae())})
        self.assertEqual(ids, set(self.settle(self.compute.statuses([*ids, 'nobody']))))
        changes = self.settle(self.compute.changes())
        self.assertEqual(ids, {status.amphora_id for status in changes.statuses})

    def test_latest_returns_the_last_polled_status_without_a_request(self):
        amphora_id = self.build()
        self.assertIs(State.ACTIVE, self.compute.latest(amphora_id).state)
        self.assertIsNone(self.compute.latest('never-seen'))


class ChangingState(FacadeTest):
    def test_suspend_resume_reboot_and_rebuild_can_be_waited_for(self):
        amphora_id = self.build()
        self.settle(self.compute.suspend(amphora_id, wait=True))
        self.assertIs(State.SUSPENDED, self.settle(self.compute.status(amphora_id)).state)
        self.settle(self.compute.resume(amphora_id, wait=True))
        self.settle(self.compute.reboot(amphora_id, hard=True, wait=True))
        self.settle(self.compute.rebuild(amphora_id, image_id='other', wait=True))
        self.assertEqual('other', self.settle(self.compute.get_amphora(None, amphora_id)).image_id)

    def test_resuming_an_amphora_that_is_not_suspended_has_its_own_error(self):
        error = self.settled_error(self.compute.resume(self.build(), wait=True))
        self.assertIsInstance(error, NotSuspendedError)

    def test_watch_ends_at_any_of_its_states(self):
        amphora_id = self.build()
        watched = self.compute.watch(amphora_id, {State.STOPPED, State.ERROR})
        self.cloud.stop(amphora_id)
        self.assertIs(State.STOPPED, self.settle(watched).state)

    def test_a_watch_can_be_cancelled(self):
        watched = self.compute.watch(self.build(), {State.ERROR})
        self.assertTrue(watched.cancel())
        self.assertIsInstance(watched.exception(), OperationCancelled)

    def test_a_watched_amphora_that_is_deleted_from_outside_is_reported(self):
        amphora_id = self.build()
        watched = self.compute.watch(amphora_id, {State.STOPPED})
        self.cloud.vanish(amphora_id)
        self.assertIsInstance(self.settled_error(watched), InstanceNotFoundError)


class PortsGroupsAndTheRest(FacadeTest):
    def test_ports_and_networks_are_attached_and_detached(self):
        amphora_id = self.build()
        attached = self.settle(self.compute.attach_port(amphora_id, 'port-1'))
        self.assertEqual('port-1', attached.port_id)
        self.settle(self.compute.detach_port(amphora_id, 'port-1'))
        self.settle(self.compute.attach_network(amphora_id, 'net-1', address='10.9.9.9'))
        amphora = self.settle(self.compute.get_amphora(None, amphora_id))
        self.assertIn('10.9.9.9', {address.address for address in amphora.addresses})
        self.settle(self.compute.detach_network(amphora_id, 'net-1'))

    def test_server_groups_are_created_and_deleted(self):
        group = self.settle(self.compute.create_server_group('g', 'anti-affinity'))
        amphora_id = self.build(server_group_id=group.id)
        amphora = self.settle(self.compute.get_amphora(None, amphora_id))
        self.assertEqual(group.id, amphora.server_group_id)
        self.settle(self.compute.delete_server_group(group.id))

    def test_validation_uses_the_backend(self):
        self.settle(self.compute.validate_flavor('small'))
        self.settle(self.compute.validate_image('any'))
        self.settle(self.compute.validate_zone('az1'))
        self.settle(self.compute.validate_network('any'))
        self.settle(self.compute.validate_security_group('any'))
        self.settle(self.compute.check_ports(['any'], ['22/tcp']))
        amphora_id = self.cloud.make_unowned('by-hand')
        self.settle(self.compute.claim(amphora_id, 'by-hand-1'))
        self.settle(self.compute.claim(amphora_id=amphora_id, build_key='by-hand-1'))
        error = self.settled_error(self.compute.validate_zone('atlantis'))
        self.assertIsInstance(error, InvalidRequest)

    def test_resources_of_another_owner_are_refused_at_once(self):
        with self.assertRaisesRegex(InvalidRequest, 'not this site'):
            self.compute.delete_resource(Resource(kind='port', id='p', owner='another'))
        self.assertEqual((), tuple(self.settle(self.compute.list_resources())))
        self.settle(self.compute.delete_resource(Resource(kind='port', id='p', owner='kiln')))

    def test_console_health_and_capabilities(self):
        amphora_id = self.build()
        self.assertIsInstance(self.settle(self.compute.console_log(amphora_id, lines=5)), str)
        with self.assertRaises(InvalidRequest):
            self.compute.console_log(amphora_id, lines=0)
        self.assertTrue(self.settle(self.compute.check()).healthy)
        self.assertIn(Ability.SUSPEND, self.compute.capabilities().abilities)
        self.assertEqual(self.compute.driver.name, self.compute.name)


class ANarrowBackend(FacadeTest):
    def test_a_missing_ability_is_refused_at_once_by_one_error(self):
        amphora_id = self.build()
        self.compute.driver.missing_abilities = frozenset({Ability.SUSPEND})
        with self.assertRaises(UnsupportedOperation) as caught:
            self.compute.suspend(amphora_id)
        self.assertIsInstance(caught.exception, NotImplementedError)


class Shown(FacadeTest):
    def test_repr_shows_the_backend(self):
        self.assertEqual('<Compute noop>', repr(self.compute))


class ARefusingBackend(FacadeTest):
    settings = StackSettings(
        circuit=CircuitSettings(minimum_calls=2, open_s=30),
        executor=ExecutorSettings(timeout_s=10, first_delay_s=0.1),
    )

    def test_the_circuit_opens_refuses_and_closes_after_one_probe(self):
        self.cloud.faults.add(Fault(call='status', action='refuse'))
        self.settled_error(self.compute.status('x'))
        with self.assertRaises(CircuitOpenError) as caught:
            self.compute.status('x')
        self.assertGreater(caught.exception.retry_after, 0)
        self.cloud.faults.clear()
        self.clock.advance(60)
        error = self.settled_error(self.compute.status('x'))
        self.assertIsInstance(error, InstanceNotFoundError)
        self.assertEqual({'closed'}, {circuit.state for circuit in self.compute.circuits()})

    def test_waits_go_on_as_soon_as_a_circuit_closes(self):
        stack, resumed = self.compute._stack, []
        self.assertEqual(stack.watcher.resume, stack.breaker.on_close)
        stack.breaker.on_close = lambda: resumed.append(stack.watcher.resume())
        self.cloud.faults.add(Fault(call='status', action='refuse'))
        self.settled_error(self.compute.status('x'))
        self.cloud.faults.clear()
        self.assertEqual([], resumed)
        self.clock.advance(60)
        self.settled_error(self.compute.status('x'))
        self.assertEqual([None], resumed)

    def test_deletes_continue_while_builds_are_refused(self):
        amphora_id = self.build()
        self.cloud.faults.add(Fault(call='build', action='refuse'))
        self.settled_error(self.compute.build(timeout=5))
        self.assertEqual('open', self.circuit('build'))
        self.settle(self.compute.delete(amphora_id, wait=True))

    def circuit(self, traffic):
        (state,) = [c.state for c in self.compute.circuits() if c.name.endswith(f'/{traffic}')]
        return state

    def test_a_circuit_can_be_opened_and_closed_by_hand(self):
        self.compute.open_circuit('read')
        with self.assertRaises(CircuitOpenError):
            self.compute.status('x')
        self.compute.close_circuit(f'{self.compute.name}/{Traffic.READ}')
        self.assertIsInstance(self.settled_error(self.compute.status('x')), InstanceNotFoundError)
        with self.assertRaisesRegex(InvalidRequest, 'no circuit'):
            self.compute.open_circuit('nonsense')


class ARatedBackend(FacadeTest):
    settings = StackSettings(rate=RateSettings(rate_per_s=1.0, burst=1))

    def test_rate_limited_calls_wait_in_the_queue_and_none_fails(self):
        operations = [self.compute.build(timeout=60) for _ in range(10)]
        self.settle(*operations)
        self.assertGreaterEqual(self.clock.monotonic(), 8)
        self.assertEqual(10, self.cloud.count())


class Hearing(FacadeTest):
    class Recorder(Listener):
        def __init__(self):
            self.calls, self.builds = [], []

        def call_finished(self, record):
            self.calls.append(record.operation)

        def builds_changed(self, backend, in_flight):
            self.builds.append(in_flight)

    def setUp(self):
        self.recorder = self.Recorder()
        self.listeners = [self.recorder]
        super().setUp()

    def test_listeners_are_notified_of_calls_and_of_builds_in_flight(self):
        self.build()
        self.assertIn('build', self.recorder.calls)
        self.assertEqual([1, 0], self.recorder.builds)
        self.assertEqual(0, self.compute.builds_in_flight)


class Ending(FacadeTest):
    def test_a_closed_facade_rejects_calls_and_leaves_no_operation_unfinished(self):
        open_ones = [
            self.compute.build(until=Until.ACTIVE, metadata={'noop:fault': 'stuck'}),
            self.compute.watch(self.build(), {State.ERROR}),
        ]
        self.compute.close(0.1)
        for operation in open_ones:
            self.assertTrue(operation.done())
        with self.assertRaises(OperationRejected):
            self.compute.status('x')

    def test_closing_twice_is_harmless_and_threads_end(self):
        before = set(threading.enumerate())
        self.build()
        self.compute.close()
        self.compute.close()
        # The workers are ending; nothing waits for them.
        give_up = time.monotonic() + 120
        while (left := set(threading.enumerate()) - before) and time.monotonic() < give_up:
            time.sleep(0.001)
        self.assertEqual(set(), left)


class OnTheRealClock(unittest.TestCase):
    def test_the_package_opens_noop_by_name_and_operations_can_be_awaited(self):
        async def main(compute):
            amphora_id = await compute.build(until='active')
            await compute.delete(amphora_id, wait=True)
            with self.assertRaises(InstanceNotFoundError):
                await compute.status(amphora_id)

        with kiln.open_compute('noop') as compute:
            asyncio.run(main(compute))
