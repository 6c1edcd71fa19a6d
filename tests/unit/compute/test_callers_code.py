"""Callers' code that blocks or fails: callbacks, status callbacks and probes."""

import concurrent.futures
import logging
import threading
import warnings

from kiln.compute.facade import Compute, Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import BuildTimeout
from kiln.models import State
from kiln.wrappers.operations.operation import OperationState
from tests.unit.compute.facade_case import FacadeTest


class CallersCode(FacadeTest):
    settings = StackSettings(callback_threads=3, probe_threads=30)

    def setUp(self):
        super().setUp()
        # Code that blocks here blocks until the end of the test.
        self.gate = threading.Event()
        self.addCleanup(self.gate.set)
        self.blocked = threading.Semaphore(0)

    def block(self, _=None):
        self.blocked.release()
        self.gate.wait()

    def block_callbacks(self, count):
        for _ in range(count):
            operation = self.compute.check()
            operation.add_done_callback(self.block)
        for _ in range(count):
            self.assertTrue(self.blocked.acquire(timeout=60))


class Callbacks(CallersCode):
    def test_d7_a_blocking_callback_does_not_keep_other_builds_from_their_goal(self):
        first = self.compute.build(until=Until.ACTIVE)
        first.add_done_callback(self.block)
        self.settle(first)
        self.assertTrue(self.blocked.acquire(timeout=60))
        innocent = self.compute.build(until=Until.ACTIVE, timeout=30)
        self.settle(innocent)
        self.assertIs(State.ACTIVE, self.machine(innocent.result()).state)

    def test_d7_a_blocking_status_callback_does_not_keep_a_build_from_its_goal(self):
        first = self.compute.build(until=Until.ACTIVE, on_status=self.block)
        innocent = self.compute.build(until=Until.ACTIVE, timeout=30)
        self.settle(first, innocent)
        watched = self.compute.watch(first.result(), on_status=self.block)
        self.settle(watched)

    def test_d7_a_callback_can_wait_for_results_of_other_operations(self):
        found = []

        def go_on(done):
            amphora_id = self.compute.build(until=Until.ACTIVE).result()
            found.append((done.backend, self.compute.status(amphora_id).result().state))

        operation = self.compute.check()
        operation.add_done_callback(go_on)
        self.until(lambda: found)
        self.assertEqual([('noop', State.ACTIVE)], found)

    def test_when_all_threads_are_blocked_only_callbacks_wait(self):
        self.block_callbacks(3)
        heard = threading.Event()
        operation = self.compute.build(until=Until.READY, probe=lambda _: True)
        operation.add_done_callback(lambda _: heard.set())
        self.settle(operation)
        self.settle(self.compute.delete(operation.result(), wait=True))
        self.assertFalse(heard.is_set())
        self.gate.set()
        self.assertTrue(heard.wait(60))

    def test_callbacks_of_another_backend_still_run(self):
        self.block_callbacks(3)
        other = Compute(NoopDriver(cloud=self.cloud))
        self.addCleanup(other.close, 0.1)
        heard = threading.Event()
        other.check().add_done_callback(lambda _: heard.set())
        self.assertTrue(heard.wait(60))

    def test_callbacks_run_in_order_after_each_status(self):
        heard = []
        operation = self.compute.build(
            until=Until.ACTIVE, on_status=lambda status: heard.append(status.state)
        )
        operation.add_done_callback(lambda _: heard.append(1))
        operation.add_done_callback(lambda _: heard.append(2))
        self.settle(operation)
        operation.add_done_callback(lambda _: heard.append(3))
        self.until(lambda: 3 in heard)
        self.assertEqual([State.ACTIVE, 1, 2, 3], heard[-4:])
        self.assertNotIn(1, heard[:-3])

    def test_a_blocking_callback_delays_later_callbacks(self):
        heard = []
        operation = self.compute.check()
        operation.add_done_callback(self.block)
        operation.add_done_callback(heard.append)
        self.block_callbacks(1)
        self.assertEqual([], heard)
        self.gate.set()
        self.until(lambda: heard)

    def test_system_exit_in_a_callback_is_logged_as_the_callers_error(self):
        def leave(_):
            raise SystemExit(3)

        with self.assertLogs('kiln', logging.ERROR) as logs:
            operation = self.compute.check()
            heard = threading.Event()
            operation.add_done_callback(leave)
            operation.add_done_callback(lambda _: heard.set())
            self.assertTrue(heard.wait(60))
        self.assertEqual(1, len(logs.output))
        self.assertRegex(logs.output[0], 'callback passed in by the caller failed: .*leave.*check')
        self.assertIn('SystemExit: 3', logs.output[0])
        self.assertIsNone(operation.exception())

    def test_callbacks_and_probes_run_on_threads_named_by_backend_and_role(self):
        names = []
        operation = self.compute.build(
            until=Until.READY,
            probe=lambda _: names.append(threading.current_thread().name) or True,
            on_status=lambda _: names.append(threading.current_thread().name),
        )
        operation.add_done_callback(lambda _: names.append(threading.current_thread().name))
        self.settle(operation)
        self.until(lambda: len(names) > 2)
        self.assertEqual({'noop-callback', 'noop-probe'}, {n.rpartition('-')[0] for n in names})
        kilns = {thread.name for thread in threading.enumerate()}
        self.assertLessEqual({'noop-lane-1', 'noop-scheduler', 'noop-watcher'}, kilns)

    def test_an_operation_without_callbacks_starts_no_callback_thread(self):
        self.build()
        names = {thread.name.rpartition('-')[0] for thread in threading.enumerate()}
        self.assertNotIn('noop-callback', names)


class Probes(CallersCode):
    def ready(self, probe, **arguments):
        return self.compute.build(until=Until.READY, probe=probe, **arguments)

    def test_a_probe_result_that_is_not_a_bool_is_not_a_success(self):
        async def serves(amphora):
            return True

        async def several():
            yield True

        answers = {
            'coroutine': serves,
            'Operation': lambda amphora: self.compute.status(amphora.id),
            'Future': lambda _: concurrent.futures.Future(),
            'generator': lambda _: (answer for answer in [True]),
            'async_generator': lambda _: several(),
            'str': lambda _: 'not yet',
            'int': lambda _: 1,
        }
        for name, answer in answers.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter('error')
                # A lambda around each, because a coroutine function would be refused.
                build = self.ready(lambda amphora, answer=answer: answer(amphora), timeout=60)
                error = self.settled_error(build)
                self.assertIsInstance(error, BuildTimeout)
                self.assertRegex(
                    str(error),
                    rf'never succeeded \(it returned an object of type {name}, .* True or False\)',
                )
        self.nothing_left()

    def test_a_probe_that_returns_none_has_not_succeeded(self):
        answers = iter([None, False, True])
        self.settle(self.ready(lambda _: next(answers), timeout=60))
        self.assertEqual([], list(answers))

    def test_d7_twenty_blocking_probes_do_not_starve_the_next(self):
        for _ in range(20):
            self.ready(self.block)
        for _ in range(20):
            self.until(lambda: self.blocked.acquire(blocking=False))
        self.settle(self.ready(lambda _: True, timeout=60))
        # Neither callbacks nor calls.
        heard = threading.Event()
        self.compute.check().add_done_callback(lambda _: heard.set())
        self.assertTrue(heard.wait(60))

    def test_a_probe_without_a_thread_is_not_reported_as_a_failed_probe(self):
        for _ in range(30):
            self.ready(self.block)
        for _ in range(30):
            self.until(lambda: self.blocked.acquire(blocking=False))
        error = self.settled_error(self.ready(lambda _: True, timeout=60))
        self.assertIsInstance(error, BuildTimeout)
        self.assertRegex(str(error), 'it waited for one of 30 threads that probes hold')

    def test_a_blocking_probe_ends_its_build_at_the_deadline_and_is_reported(self):
        error = self.settled_error(self.ready(self.block, timeout=60))
        self.assertIsInstance(error, BuildTimeout)
        self.assertIn('its last run did not return', str(error))

    def test_a_waiting_probe_of_an_ended_build_does_not_run(self):
        for _ in range(30):
            self.ready(self.block)
        for _ in range(30):
            self.until(lambda: self.blocked.acquire(blocking=False))
        late = self.ready(self.fail, timeout=60)
        self.settled_error(late)
        self.gate.set()
        self.settle(self.ready(lambda _: True))
        self.assertIs(OperationState.FAILED, late.state)


class FewProbes(CallersCode):
    settings = StackSettings(probe_threads=1)

    def test_a_failed_probe_goes_to_the_end_of_the_queue(self):
        asked = []
        never = self.compute.build(until=Until.READY, probe=lambda _: asked.append(1))
        self.until(lambda: asked)
        self.settle(self.compute.build(until=Until.READY, probe=lambda _: True, timeout=60))
        self.assertFalse(never.done())
