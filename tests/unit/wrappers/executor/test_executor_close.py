"""Operations when the executor is closed."""

import threading
import time

from kiln.compute_drivers.calls import Call
from kiln.exceptions import OperationCancelled, OperationRejected, Outcome, ServiceUnavailable
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.operation import OperationState
from tests.unit.wrappers.scripted import StageCase


class Closing(StageCase):
    def stage(self, **options):
        # Closing gives what runs real time, in which a clock of its own would run ahead.
        return super().stage(moving=False, **options)

    def test_all_operations_are_resolved_and_no_more_are_accepted(self):
        stage = self.stage(threads=True, settings=ExecutorSettings(max_workers=3), list=['refuse'])
        gate, inside = self.hung(stage)
        running = stage.executor.submit(Call.GET, 'a')
        self.arrive(inside)
        queued = stage.executor.submit(Call.GET, 'b')
        stage.executor.close(0.05)
        for operation in (running, queued):
            self.assertIsInstance(operation.exception(0), OperationCancelled)
        self.assertIs(queued.exception().outcome, Outcome.NOT_APPLIED)
        self.assertIs(running.exception().outcome, Outcome.UNKNOWN)
        with self.assertRaisesRegex(OperationRejected, 'closed'):
            stage.executor.submit(Call.GET, 'c')
        gate.set()
        stage.executor.close(120)
        self.assertEqual(stage.driver.closed, 1)

    def test_running_calls_can_end_within_wait_s(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'list')
        operation = stage.executor.submit(Call.LIST, 'kiln')
        self.arrive(inside)
        threading.Timer(0.05, gate.set).start()
        stage.executor.close(120)
        self.assertEqual(operation.result(0), ())

    def test_an_operation_that_waits_for_a_retry_ends_at_once(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'list')
        stage.driver.scripts['list'].append('refuse')
        hangs = stage.executor.submit(Call.LIST, 'kiln')
        self.arrive(inside)
        retried = stage.executor.submit(Call.LIST, 'kiln')
        stage.until(lambda: retried.state is OperationState.WAITING)
        threading.Timer(0.05, gate.set).start()
        stage.executor.close(120)
        self.assertEqual(hangs.result(0), ())
        self.assertIsInstance(retried.exception(0), OperationCancelled)

    def test_a_failure_while_closing_is_not_retried(self):
        stage = self.stage(threads=True)
        gate, inside = self.hung(stage, 'list')

        def fail():
            inside.release()
            gate.wait(120)
            raise ServiceUnavailable('down')

        stage.driver.scripts['list'] = [fail]
        operation = stage.executor.submit(Call.LIST, 'kiln')
        self.arrive(inside)
        threading.Timer(0.05, gate.set).start()
        stage.executor.close(120)
        self.assertIsInstance(operation.exception(0), OperationCancelled)
        self.assertEqual(len(stage.driver.sent), 1)

    def test_a_callback_that_submits_while_closing_is_rejected_not_locked(self):
        stage = self.stage(threads=True, settings=ExecutorSettings(max_workers=3))
        _, inside = self.hung(stage)
        stage.executor.submit(Call.GET, 'a')
        self.arrive(inside)
        outcomes = []

        def submit(_):
            try:
                stage.executor.submit(Call.GET, 'again')
            except OperationRejected as exc:
                outcomes.append(exc)

        stage.executor.submit(Call.GET, 'b').add_done_callback(submit)
        stage.executor.close(0.01)
        self.assertEqual(len(outcomes), 1)

    def test_it_leaves_no_thread(self):
        before = set(threading.enumerate())
        stage = self.stage(threads=True)
        for _ in range(9):
            stage.executor.submit(Call.LIST, 'kiln').result(120)
        stage.executor.close(120)
        stage.scheduler.close()
        give_up = time.monotonic() + 120
        while (left := set(threading.enumerate()) - before) and time.monotonic() < give_up:
            time.sleep(0.001)
        self.assertEqual(left, set())
