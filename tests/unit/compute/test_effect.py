"""Multi-step operations after acceptance: failures, cancels, full queues."""

import contextlib
import dataclasses

from kiln.clock import Deadline
from kiln.compute.build import Builder, BuildFlow
from kiln.compute.facade import Compute
from kiln.compute.goals import BuildGoal, Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    BuildTimeout,
    InstanceNotFoundError,
    InstanceStateConflict,
    OperationCancelled,
    OperationRejected,
    OperationTimeout,
)
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.errand import Errand
from kiln.wrappers.operations.operation import OperationState
from tests.unit.compute.facade_case import FacadeTest


class EffectTest(FacadeTest):
    def waits(self, operation):
        self.until(lambda: operation.state is OperationState.WAITING)

    def test_a_refusal_ends_the_wait_for_its_effect(self):
        amphora_id = self.build()
        self.cloud.stop(amphora_id)
        error = self.settled_error(self.compute.suspend(amphora_id, wait=True))
        self.assertIsInstance(error, InstanceStateConflict)

    def test_an_amphora_that_vanishes_before_the_effect_is_not_found(self):
        amphora_id = self.build()
        self.cloud.faults.add(Fault(call='suspend', action='stuck'))
        operation = self.compute.suspend(amphora_id, wait=True)
        self.waits(operation)
        self.cloud.vanish(amphora_id)
        self.assertIsInstance(self.settled_error(operation), InstanceNotFoundError)

    def test_an_effect_that_never_comes_is_a_timeout_of_the_operation(self):
        amphora_id = self.build()
        operation = self.compute.reboot(amphora_id, wait=True, timeout=30)
        self.waits(operation)
        self.cloud.stop(amphora_id)
        self.assertIsInstance(self.settled_error(operation), OperationTimeout)

    def test_a_delete_that_the_backend_loses_is_sent_again(self):
        amphora_id = self.build()
        self.cloud.faults.add(Fault(call='delete', action='stuck', times=2))
        started = self.clock.monotonic()
        operation = self.compute.delete(amphora_id, wait=True)
        self.settle(operation)
        again = [event for event in operation.events if event.name == 'repeated']
        self.assertEqual(2, len(again))
        # After a minute, and after two more.
        self.assertGreaterEqual(self.clock.monotonic() - started, 180)
        self.nothing_left()

    def test_a_delete_with_a_timely_effect_is_sent_once(self):
        amphora_id = self.build()
        operation = self.compute.delete(amphora_id, wait=True)
        self.settle(operation)
        self.clock.sleep(200)
        self.assertNotIn('repeated', [event.name for event in operation.events])

    def test_a_repeated_delete_that_is_refused_is_tried_again_later(self):
        amphora_id = self.build()
        self.cloud.faults.add(Fault(call='delete', action='stuck', times=1))
        operation = self.compute.delete(amphora_id, wait=True)
        self.waits(operation)
        self.compute.open_circuit('change')
        self.until(lambda: 'repeated' in [one.name for one in operation.events])
        self.compute.close_circuit('change')
        self.settle(operation)
        self.nothing_left()

    def test_cancelling_the_wait_does_not_cancel_the_effect(self):
        amphora_id = self.build()
        operation = self.compute.delete(amphora_id, wait=True)
        self.waits(operation)
        operation.cancel()
        self.assertIsInstance(operation.exception(), OperationCancelled)
        self.nothing_left()


class CursorAtHand(NoopDriver):
    """Returns the present cursor without a request, and counts reads by id."""

    soonest_build_s = 5.0

    def __init__(self, cloud):
        super().__init__(cloud=cloud)
        self.asked = []

    def cursor(self):
        return self._changes('').cursor

    def _statuses(self, amphora_ids):
        self.asked += amphora_ids
        return super()._statuses(amphora_ids)


class LookTest(FacadeTest):
    def setUp(self):
        super().setUp()
        self.driver = CursorAtHand(self.cloud)
        self.compute = Compute(self.driver)
        self.addCleanup(self.compute.close, 0.1)

    def test_changes_alone_suffice_for_builds_to_become_active(self):
        builds = [self.compute.build(until=Until.ACTIVE) for _ in range(4)]
        self.settle(*builds)
        self.assertEqual([], self.driver.asked)

    def test_an_amphora_found_by_its_build_key_is_polled_by_id(self):
        found = self.build(build_key='k')
        self.clock.sleep(60.0)
        self.assertEqual(found, self.build(build_key='k'))
        self.assertEqual([found], self.driver.asked)


class BuildTest(FacadeTest):
    settings = StackSettings(executor=ExecutorSettings(max_workers=3, max_queue=4))

    def tearDown(self):
        # A call that hangs in virtual time outlives its test, and its thread would keep
        # the whole run from ending.
        self.cloud.faults.clear()
        self.until(lambda: not self.clock.waiting)

    def fill_the_queue(self, seconds):
        self.cloud.faults.add(Fault(call='list', action='hang', seconds=seconds, times=50))
        with contextlib.suppress(OperationRejected):
            for _ in range(50):
                self.compute.list_amphorae(timeout=seconds)

    def test_a_full_queue_is_not_a_probe_result(self):
        probed = []

        def probe(amphora):
            probed.append(amphora.id)
            if len(probed) == 1:
                self.fill_the_queue(20)
            return len(probed) > 1

        operation = self.compute.build(until=Until.READY, probe=probe)
        self.assertEqual([self.settle(operation)] * 2, probed)

    def test_a_queue_that_stays_full_is_the_reason_of_the_timeout(self):
        operation = self.compute.build(
            until=Until.READY, probe=lambda amphora: self.fill_the_queue(500), timeout=60
        )
        error = self.settled_error(operation)
        self.assertIsInstance(error, BuildTimeout)
        self.assertRegex(str(error), r'never succeeded \(Cannot get .* \d operations wait')

    def test_a_build_active_before_its_deadline_succeeds_even_with_rare_polls(self):
        # The polls of a wait of fifteen minutes are half a minute apart at its end.
        for build_s, seconds in (0.1, 0.85), (895, 900):
            with self.subTest(build_s):
                gate = self.cloud.gate
                gate.latencies = dataclasses.replace(gate.latencies, build_s=build_s)
                operation = self.compute.build(until=Until.ACTIVE, timeout=seconds)
                self.assertTrue(self.settle(operation))

    def test_a_build_cancelled_while_it_is_watched_leaves_nothing(self):
        seen = []
        operation = self.compute.build(until=Until.ACTIVE, on_status=seen.append)
        self.until(lambda: seen)
        self.assertTrue(operation.cancel())
        self.nothing_left()
        self.assertEqual(0, self.compute.builds_in_flight)

    def test_a_build_cancelled_as_its_answer_arrives_leaves_nothing(self):
        operation = Errand(
            'build', backend='noop', subject='web', build_key='k', clock=self.clock,
            deadline=Deadline.after(60, self.clock),
        )  # fmt: skip
        builder = Builder(self.compute._stack)
        flow = BuildFlow(builder, operation, BuildGoal(Until.ACTIVE))
        flow.start()
        self.assertEqual(1, builder.in_flight)
        amphora_id = self.settle(self.compute.build(build_key='k'))
        operation.cancel()
        flow.accepted(operation, amphora_id)
        self.assertTrue(operation.cancelled())
        self.assertEqual(0, builder.in_flight)
        self.nothing_left()
