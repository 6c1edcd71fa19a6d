"""Drawn keys: a key that kiln drew is the caller's own as soon as it can be read.

Each test has a build without a key whose machine is active and waits for its probe, and
another controller on the same backend, which stands for another process.
"""

import subprocess
import sys
import threading

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    Advice,
    BuildOutcomeUnknown,
    BuildTimeout,
    ForkedError,
    OperationCancelled,
    Outcome,
)
from kiln.models import State
from kiln.wrappers.operations.build_key import BuildKey
from kiln.wrappers.operations.errand import Errand
from tests.unit.compute.facade_case import FacadeTest


class Drawn(FacadeTest):
    def setUp(self):
        super().setUp()
        self.other = Compute(NoopDriver(cloud=self.cloud), settings=self.settings)
        self.addCleanup(self.other.close, 0.1)

    def probed(self, **given):
        """Return a build without a key whose machine is active but never ready."""
        asked = threading.Event()
        operation = self.compute.build(
            name='x', until=Until.READY, probe=lambda _: asked.set(), **given
        )
        self.until(asked.is_set)
        return operation

    def assert_in_service(self, amphora_id):
        self.clock.sleep(700)
        self.assertIs(State.ACTIVE, self.machine(amphora_id).state)


class Read(Drawn):
    def test_a_machine_built_with_a_key_that_was_read_outlives_a_cancel_of_the_first(self):
        operation = self.probed()
        for compute in self.compute, self.other:
            given = self.settle(
                compute.build(name='x', until=Until.ACTIVE, build_key=operation.build_key)
            )
        operation.cancel()
        error = operation.exception(0)
        self.assertIn('unless it has run: then it stays under its key', str(error))
        self.assertEqual(operation.build_key, error.build_key)
        self.assert_in_service(given)

    def test_a_machine_recovered_by_another_process_outlives_the_close_of_the_first(self):
        operation = self.probed()
        given = self.settle(self.other.recover(operation.to_dict(), probe=lambda _: True))
        self.compute.close()
        error = operation.exception(0)
        self.assertIn('was left as it is', str(error))
        self.assertIs(Outcome.APPLIED, error.outcome)
        self.assert_in_service(given)

    def test_a_machine_built_with_the_key_that_an_error_names_stays(self):
        self.cloud.faults.add(Fault(call='build', action='timeout_after', times=1))
        self.cloud.faults.add(Fault(call='find_build', action='refuse'))
        error = self.settled_error(self.compute.build(name='x', until=Until.ACTIVE, timeout=1))
        self.assertIsInstance(error, BuildOutcomeUnknown)
        self.assertIn(f'Build again with build_key={error.build_key!r}', str(error))
        given = self.settle(
            self.other.build(name='x', until=Until.ACTIVE, build_key=error.build_key)
        )
        self.cloud.faults.clear()
        self.assert_in_service(given)

    def test_a_machine_stays_if_its_key_is_read_between_cancel_and_delete(self):
        operation = self.probed()
        self.cloud.faults.add(Fault(call='delete', action='refuse', times=3))
        operation.cancel()
        given = self.settle(
            self.other.build(name='x', until=Until.ACTIVE, build_key=operation.build_key)
        )
        self.cloud.faults.clear()
        self.assert_in_service(given)

    def test_after_a_failed_probe_the_error_states_that_the_machine_is_left_under_its_key(self):
        for key in 'k', None:
            with self.subTest(key):
                operation = self.probed(build_key=key, timeout=60)
                key = operation.build_key
                error = self.settled_error(operation)
                self.assertIs(BuildTimeout, type(error))
                self.assertEqual(
                    (Outcome.APPLIED, Advice.REPEAT, key, operation.amphora_id),
                    (error.outcome, error.advice, error.build_key, error.amphora_id),
                )
                self.assertIn(f'has run, so it is left under build key {key!r}', str(error))
                self.assert_in_service(operation.amphora_id)


class Unread(Drawn):
    def test_a_cancel_removes_a_machine_that_has_run_and_names_no_key(self):
        operation = self.probed()
        operation.cancel()
        error = operation.exception(0)
        self.assertIsInstance(error, OperationCancelled)
        self.assertIsNone(error.build_key)
        self.assertIn('is removed, unless it has run and its build_key is read first', str(error))
        self.nothing_left()

    def test_after_a_failed_probe_a_machine_that_has_run_is_removed_and_no_key_is_named(self):
        error = self.settled_error(self.probed(timeout=60))
        self.assertEqual((BuildTimeout, None), (type(error), error.build_key))
        self.assertIn('is being removed', str(error))
        self.nothing_left()

    def test_internal_use_of_the_key_does_not_count_as_reading_it(self):
        operation = self.probed()
        repr(operation), operation.events, operation.attempt, operation.id
        self.assertTrue(operation.key.private)


class InAChild(FacadeTest):
    def test_an_operation_of_the_parent_advises_to_build_again_with_its_key(self):
        build, read = (
            Errand('build', backend='noop', build_key=BuildKey('k', drawn=True)),
            Errand('status', backend='noop', subject='a'),
        )
        for operation, advice, key in (build, Advice.REPEAT, 'k'), (read, Advice.LOOK, None):
            operation.disown()
            error = operation.exception(0)
            self.assertEqual((ForkedError, advice, key),
                             (type(error), error.advice, error.build_key))  # fmt: skip
        self.assertIn("build again with build_key='k'", str(build.exception(0)))


class TheKey(FacadeTest):
    def test_a_callers_key_is_never_private(self):
        self.assertFalse(BuildKey('k').private)

    def test_a_drawn_key_is_private_until_it_is_read(self):
        key = BuildKey('k', drawn=True)
        self.assertEqual((True, None), (key.private, key.known))
        self.assertEqual('k', key.read())
        self.assertEqual((False, 'k'), (key.private, key.known))

    def test_a_drawn_key_is_private_until_the_process_forks(self):
        # In a process with one thread, because a fork of this process might hang.
        program = (
            'import os\n'
            'from kiln.wrappers.operations.build_key import BuildKey\n'
            'key = BuildKey("k", drawn=True)\n'
            'if (child := os.fork()) == 0: os._exit(key.private)\n'
            'print(os.waitpid(child, 0)[1], key.private, BuildKey("k", drawn=True).private)\n'
        )
        reported = subprocess.run([sys.executable, '-c', program], capture_output=True, check=True)
        self.assertEqual([b'0', b'False', b'True'], reported.stdout.split())
