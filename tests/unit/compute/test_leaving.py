"""Closing: what close() removes, keeps and waits for, and its warnings."""

import asyncio
import gc
import threading
import time
import warnings
import weakref

from kiln.compute.facade import Compute, Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import OperationCancelled, OperationRejected, Outcome
from kiln.models import State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.operation import OperationState
from tests.unit.compute.facade_case import FacadeTest
from tests.unit.compute.test_repeated_builds import Held


class LeavingTest(FacadeTest):
    settings = StackSettings(executor=ExecutorSettings(max_workers=3))

    def begun(self, count=1, **arguments):
        """Return builds that the backend has accepted, and that are not active."""
        begun = [
            self.compute.build(build_key=f'k{n}', until=Until.ACTIVE, **arguments)
            for n in range(count)
        ]
        self.until(lambda: all(one.state is OperationState.WAITING for one in begun))
        return begun

    def successor(self):
        compute = Compute(NoopDriver(cloud=self.cloud), settings=self.settings)
        self.addCleanup(compute.close, 0.1)
        return compute


class Keeping(LeavingTest):
    def test_d9_builds_in_flight_are_left_to_the_next_build_with_their_keys(self):
        left = self.begun(10)
        self.compute.close(keep_builds=True)
        for number, operation in enumerate(left):
            error = operation.exception(0)
            self.assertIsInstance(error, OperationCancelled)
            self.assertIs(error.outcome, Outcome.APPLIED)
            self.assertEqual((f'k{number}', operation.amphora_id),
                             (error.build_key, error.amphora_id))  # fmt: skip
            self.assertIn(f"build again with build_key='k{number}'", str(error))
        successor = self.successor()
        again = [successor.build(build_key=f'k{n}', until=Until.ACTIVE) for n in range(10)]
        self.settle(*again)
        self.assertEqual([one.amphora_id for one in left], [one.result() for one in again])
        self.assertEqual(10, self.cloud.count())

    def test_a_build_in_look_up_after_a_lost_answer_is_left(self):
        self.cloud.faults.add(Fault(call='build', action='lose_answer'))
        self.cloud.faults.add(Fault(call='find_build', action='refuse'))
        operation = self.compute.build(build_key='k', until=Until.ACTIVE)
        self.until(lambda: any(one.name == 'lost' for one in operation.events))
        self.compute.close(keep_builds=True)
        self.assertIs(operation.exception(0).outcome, Outcome.UNKNOWN)
        self.assertEqual(1, self.cloud.count())

    def test_a_build_that_waits_for_its_probe_is_left(self):
        asked = threading.Event()
        operation = self.compute.build(until=Until.READY, probe=lambda _: asked.set())
        self.until(asked.is_set)
        self.compute.close(keep_builds=True)
        error = operation.exception(0)
        self.assertIs(error.outcome, Outcome.APPLIED)
        self.assertIn('is left under its key', str(error))
        self.assertEqual(1, self.cloud.count())

    def test_the_removal_of_a_failed_build_continues(self):
        self.cloud.faults.add(Fault(call='build', action='error', times=1))
        (failing,) = self.begun()
        self.until(lambda: any(one.name == 'removing' for one in failing.events))
        self.compute.close(30, keep_builds=True)
        self.assertIn('went to error', str(failing.exception(0)))
        self.nothing_left()

    def test_any_call_that_keeps_builds_overrides_the_others(self):
        self.begun(3)
        self.compute.close(keep_builds=True)
        self.compute.close()
        self.assertEqual(3, self.cloud.count())


class AtTheGate(LeavingTest):
    """Builds in progress at the backend while the controller leaves."""

    def setUp(self):
        super().setUp()
        self.driver = Held(cloud=self.cloud)
        self.driver.hold()
        self.addCleanup(self.driver.gate.set)
        self.compute = Compute(self.driver, settings=self.settings)
        self.addCleanup(self.compute.close, 0.1)

    def open_clock(self):
        # All wait while the gate is shut, and no time must pass then.
        return VirtualClock()

    def until(self, so):
        self.clock.run_until(so, step_s=0)

    def test_a_build_in_progress_at_the_backend_is_left(self):
        operation = self.compute.build(build_key='k', until=Until.ACTIVE)
        self.assertTrue(self.driver.entered.wait(120))
        self.compute.close(0.01, keep_builds=True)
        error = operation.exception(0)
        self.assertIs(error.outcome, Outcome.UNKNOWN)
        self.assertIn("What it might make is left under its key: build again with build_key='k'",
                      str(error))  # fmt: skip
        self.driver.gate.set()
        self.until(lambda: self.cloud.count() == 1)
        self.clock.advance(700)
        self.assertEqual(1, self.cloud.count())

    def test_a_build_accepted_in_time_is_named_by_its_id(self):
        active = self.compute.build(build_key='k', until=Until.ACTIVE)
        self.assertTrue(self.driver.entered.wait(120))
        threading.Timer(0.05, self.driver.gate.set).start()
        self.compute.close(30, keep_builds=True)
        error = active.exception(0)
        self.assertIs(error.outcome, Outcome.APPLIED)
        self.assertEqual(NoopDriver(cloud=self.cloud).find_build('k').id, error.amphora_id)

    def test_the_error_of_a_build_that_was_never_sent_states_so(self):
        builds = [self.compute.build(build_key=f'k{n}', until=Until.ACTIVE) for n in range(5)]
        self.assertTrue(self.driver.entered.wait(120))
        self.compute.close(0.01, keep_builds=True)
        error = builds[-1].exception(0)
        self.assertIsInstance(error, OperationCancelled)
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)
        self.assertIn('never sent', str(error))
        self.driver.gate.set()
        self.until(lambda: self.cloud.count() == 1)

    def test_aclose_does_not_block_the_loop_and_can_keep_builds(self):
        async def control():
            operation = self.compute.build(build_key='k')
            await asyncio.to_thread(self.driver.entered.wait, 120)
            closing = asyncio.ensure_future(self.compute.aclose(60, keep_builds=True))
            await asyncio.sleep(0)
            # If the loop were blocked, nothing would open the gate.
            self.driver.gate.set()
            await closing
            return operation.result(0)

        built = asyncio.run(control())
        self.assertEqual(NoopDriver(cloud=self.cloud).find_build('k').id, built)


class Closing(LeavingTest):
    def test_builds_in_flight_are_removed(self):
        left = self.begun(3)
        self.compute.close()
        for operation in left:
            self.assertIsInstance(operation.exception(0), OperationCancelled)
        self.nothing_left()

    def test_a_build_that_waits_for_its_probe_ends_and_is_removed(self):
        asked = threading.Event()
        operation = self.compute.build(until=Until.READY, probe=lambda _: asked.set())
        self.until(asked.is_set)
        self.compute.close()
        self.assertIsInstance(operation.exception(0), OperationCancelled)
        self.nothing_left()

    def test_a_machine_that_waits_for_its_probe_stays_under_the_callers_key(self):
        asked = threading.Event()
        operation = self.compute.build(
            until=Until.READY, probe=lambda _: asked.set(), build_key='k'
        )
        self.until(asked.is_set)
        self.compute.close()
        self.assertIn('was left as it is', str(operation.exception(0)))
        self.assertEqual(1, self.cloud.count())

    def test_a_hanging_probe_does_not_delay_closing(self):
        gate, asked = threading.Event(), threading.Event()
        self.addCleanup(gate.set)
        operation = self.compute.build(
            until=Until.READY, probe=lambda _: asked.set() or gate.wait(120)
        )
        self.until(asked.is_set)
        self.compute.close(60)
        self.assertIsInstance(operation.exception(0), OperationCancelled)

    def test_callbacks_have_run_when_close_returns(self):
        heard = []
        for operation in self.begun(3):
            operation.add_done_callback(lambda done: heard.append(done.build_key))
        self.compute.close()
        self.assertEqual(['k0', 'k1', 'k2'], sorted(heard))

    def test_a_callback_can_close(self):
        ended = threading.Event()

        def close(_):
            self.compute.close(60)
            ended.set()

        first, second = self.begun(2)
        first.add_done_callback(close)
        first.cancel()
        self.assertTrue(ended.wait(60))
        self.assertIsInstance(second.exception(0), OperationCancelled)
        self.nothing_left()

    def test_a_status_callback_can_close(self):
        ended = threading.Event()
        self.begun(1, on_status=lambda _: (self.compute.close(60), ended.set()))
        self.until(ended.is_set)

    def test_several_threads_can_close_at_once(self):
        self.begun(3)
        closing = [threading.Thread(target=self.compute.close) for _ in range(4)]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(60)
        self.assertEqual([False] * 4, [thread.is_alive() for thread in closing])
        with self.assertRaises(OperationRejected):
            self.compute.check()
        self.nothing_left()

    def test_no_thread_is_left(self):
        before = set(threading.enumerate())
        compute = self.successor()
        heard = []
        operation = compute.build(until=Until.READY, probe=lambda _: True, on_status=heard.append)
        operation.add_done_callback(heard.append)
        self.settle(operation)
        compute.close()
        until = time.monotonic() + 60
        while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
            time.sleep(0.001)
        self.assertEqual(set(), left)


class Block(LeavingTest):
    def test_the_end_of_a_with_block_removes_builds_in_flight(self):
        with self.compute:
            (operation,) = self.begun()
        self.assertIsInstance(operation.exception(0), OperationCancelled)
        self.nothing_left()

    def test_an_exception_in_a_with_block_removes_builds_in_flight(self):
        with self.assertRaises(SystemExit), self.compute:
            self.begun()
            raise SystemExit
        self.nothing_left()

    def test_builds_that_were_kept_within_a_with_block_stay(self):
        with self.assertRaises(SystemExit), self.compute:
            self.begun()
            self.compute.close(keep_builds=True)
            raise SystemExit
        self.assertEqual(1, self.cloud.count())

    def test_the_end_of_an_async_with_block_removes_builds_in_flight(self):
        async def move():
            # A loop waits in C, where the clock does not see the wait.
            while True:
                self.clock.advance(0.05)
                await asyncio.sleep(0.001)

        async def control():
            moving = asyncio.ensure_future(move())
            async with self.compute as compute:
                self.assertIs(compute, self.compute)
                (operation,) = self.begun()
            moving.cancel()
            return operation

        self.assertIsInstance(asyncio.run(control()).exception(0), OperationCancelled)
        self.nothing_left()


class Collected(LeavingTest):
    def drop(self, compute):
        """Drop the last reference, which the caller has given up; return the warnings."""
        there = weakref.ref(compute[0])
        give_up = time.monotonic() + 120
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            del compute[:]
            # A thread might still be leaving a call of it. The warning itself keeps a
            # reference to its source.
            while there() is not None and not caught and time.monotonic() < give_up:
                gc.collect()
                time.sleep(0.001)
        return [str(one.message) for one in caught if one.category is ResourceWarning]

    def settings_of(self):
        return Compute(NoopDriver(cloud=self.cloud), settings=self.settings)

    def test_an_unclosed_compute_warns_and_its_threads_end(self):
        before = set(threading.enumerate())
        compute = [self.settings_of()]
        self.settle(compute[0].build(until=Until.READY, probe=lambda _: True))
        self.assertEqual(["unclosed Compute of backend 'noop'"], self.drop(compute))
        until = time.monotonic() + 120
        while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
            self.clock.advance(1)
            time.sleep(0.001)
        self.assertEqual(set(), left)
        self.assertEqual(1, self.cloud.count())

    def test_an_operation_of_a_collected_compute_runs_to_its_end(self):
        compute = [self.settings_of()]
        operation = compute[0].build(until=Until.ACTIVE)
        self.drop(compute)
        self.settle(operation)
        self.assertIs(State.ACTIVE, self.machine(operation.result()).state)

    def test_a_closed_compute_does_not_warn(self):
        compute = [self.settings_of()]
        compute[0].close()
        self.assertEqual([], self.drop(compute))
