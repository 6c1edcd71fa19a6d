"""A behaviour that hangs ends as a failure, which names the call and its place."""

import signal
import threading
import unittest

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import State
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance
from kiln.testing.minimal import MinimalDriver
from kiln.testing.report import BehaviourOutcome
from kiln.testing.runner import show


class NeverDeletes(MinimalDriver):
    """Waits in a delete for what does not happen."""

    def _delete(self, amphora_id):
        threading.Event().wait()


class NeverBuilds(MinimalDriver):
    """Waits in a build for what does not happen, and catches every error."""

    def _build(self, request):
        while True:
            try:
                threading.Event().wait()
            except Exception:
                continue


class WaitsUntilUp(NoopDriver):
    """Waits in a build for the instance, for as long as the driver is open."""

    def __init__(self):
        super().__init__(cloud=NoopCloud())
        self._closed = threading.Event()

    def _build(self, request):
        amphora_id = super()._build(request)
        while self._status(amphora_id).state is State.BUILDING and not self._closed.wait(0.02):
            pass
        return amphora_id

    def close(self):
        self._closed.set()
        super().close()


class HangTest(unittest.TestCase):
    def reason(self, driver_class, name, suite=ComputeDriverConformance, **attributes):
        """Run a behaviour that hangs, and return the reason of its failure."""

        class Case(suite, unittest.TestCase):
            timeout_s, soon_s, hang_s = 0.1, 0.1, 0.6

            def make_driver(self):
                return driver_class()

        for attribute, value in attributes.items():
            setattr(Case, attribute, value)
        result = show(Case(name), '')
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        return result.reason

    def test_a_call_that_does_not_return_is_a_failure_that_names_it(self):
        reason = self.reason(NeverDeletes, 'test_deleting_an_unknown_instance_is_a_success')
        self.assertRegex(
            reason,
            r'\AExpected: deleting an unknown instance is a success, and each call returns\.\n'
            r'Seen instead: delete\(\) had not returned after 0\.6 s, at '
            r'testing/test_hanging\.py, line \d+, in _delete\(\)\.\n'
            r'Read: AmphoraComputeDriver\.delete, ComputeHooks\._delete',
        )

    def test_a_driver_that_catches_every_error_is_stopped_too(self):
        reason = self.reason(NeverBuilds, 'test_a_build_returns_the_id_of_the_new_instance')
        self.assertIn('build() had not returned', reason)

    def test_a_call_that_hangs_on_another_thread_is_named(self):
        reason = self.reason(
            NeverBuilds, 'test_many_threads_with_keys_of_their_own_build_as_many_instances'
        )
        self.assertRegex(reason, r'build\(\) had not returned .+in _build\(\)')

    def test_a_build_that_waits_for_its_instance_is_a_failure_of_that_build(self):
        name = 'test_a_build_of_an_instance_that_does_not_come_up_returns_soon'
        reason = self.reason(WaitsUntilUp, name, FaultConformance, soon_s=0.5)
        self.assertRegex(reason, r'build\(\) returns within 0\.5 s \(soon_s\), though no effect')
        self.assertRegex(reason, r'It is at testing/test_hanging\.py, line \d+, in _build\(\)')

    def test_a_handler_of_the_signal_is_left_as_it_is(self):
        def handler(number, frame):
            pass

        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        case = type('Case', (ComputeDriverConformance, unittest.TestCase), {})
        case.make_driver = staticmethod(MinimalDriver)
        result = show(case('test_deleting_an_unknown_instance_is_a_success'), '')
        self.assertIs(BehaviourOutcome.PASSED, result.outcome)
        self.assertIs(handler, signal.getsignal(signal.SIGUSR1))
