"""Repeated builds: a build with a known key never removes a machine that has run.

Each test has two controllers on one backend: one whose build succeeded, and one that
repeats the build and fails. The machine must survive the second.
"""

import dataclasses
import threading

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import (
    Advice,
    BuildDiffers,
    BuildFailed,
    BuildNotRunning,
    BuildTimeout,
    OperationCancelled,
    Outcome,
)
from kiln.models import State
from tests.unit.compute.facade_case import FacadeTest


class Held(NoopDriver):
    """Holds builds and look-ups of a key at a gate, on request."""

    def __init__(self, *, cloud):
        super().__init__(cloud=cloud)
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()

    def hold(self):
        self.gate.clear()

    def _build(self, request):
        self._pass()
        return super()._build(request)

    def _find_build(self, build_key):
        self._pass()
        return super()._find_build(build_key)

    def _pass(self):
        self.entered.set()
        self.gate.wait(120)


class Repeating(FacadeTest):
    """A machine in service, and a second controller that repeats its build."""

    def setUp(self):
        super().setUp()
        self.serving = self.build(build_key='k', name='web')
        self.held = Held(cloud=self.cloud)
        self.addCleanup(self.held.gate.set)
        self.restarted = Compute(self.held, settings=self.settings)
        self.addCleanup(self.restarted.close, 0.1)

    def state(self):
        return self.machine(self.serving).state

    def latency(self, **latencies):
        gate = self.cloud.gate
        gate.latencies = dataclasses.replace(gate.latencies, **latencies)

    def later(self, seconds=100):
        self.clock.sleep(seconds)


class InTime(Repeating):
    def test_a_repeat_with_other_arguments_is_refused_and_leaves_the_machine(self):
        for until in Until.ACCEPTED, Until.ACTIVE:
            with self.subTest(until):
                repeated = self.restarted.build(name='other', build_key='k', until=until)
                error = self.settled_error(repeated)
                self.assertIsInstance(error, BuildDiffers)
                self.assertEqual(
                    (self.serving, 'k', 'build'),
                    (error.amphora_id, error.build_key, error.operation),
                )
        self.later()
        self.assertIs(State.ACTIVE, self.state())

    def test_a_repeat_adopts_if_only_one_build_gave_a_name(self):
        again = self.restarted.build(build_key='k', until=Until.ACTIVE)
        self.assertEqual(self.serving, self.settle(again))
        unnamed = self.build(build_key='web-1')
        again = self.restarted.build(build_key='web-1', name='web', until=Until.ACTIVE)
        self.assertEqual(unnamed, self.settle(again))

    def test_a_repeat_with_other_arguments_and_a_lost_answer_leaves_the_machine(self):
        self.cloud.faults.add(Fault(call='build', action='timeout_before', times=1))
        repeated = self.restarted.build(name='other', build_key='k', until=Until.ACTIVE)
        self.assertIsInstance(self.settled_error(repeated), BuildDiffers)
        self.later()
        self.assertIs(State.ACTIVE, self.state())

    def test_d1a_a_timeout_while_the_backend_is_unreadable_leaves_the_machine(self):
        for call in ('status', 'statuses', 'changes', 'list', 'get'):
            self.cloud.faults.add(Fault(call=call, action='refuse', times=50))
        repeated = self.restarted.build(build_key='k', until=Until.ACTIVE, timeout=2)
        error = self.settled_error(repeated)
        self.assertIsInstance(error, BuildTimeout)
        self.assertIn('is being removed, unless it has run;', str(error))
        self.cloud.faults.clear()
        self.later()
        self.assertIs(State.ACTIVE, self.state())

    def test_d1b_a_rebooting_machine_is_awaited_and_left_at_the_deadline(self):
        self.latency(reboot_s=60)
        self.settle(self.compute.reboot(self.serving))
        repeated = self.restarted.build(build_key='k', until=Until.ACTIVE, timeout=5)
        self.assertIsInstance(self.settled_error(repeated), BuildTimeout)
        self.later()
        self.assertIs(State.ACTIVE, self.state())

    def test_d1b_a_stopped_machine_is_reported_at_once_and_left(self):
        def suspend():
            self.settle(self.compute.suspend(self.serving, wait=True))

        for rest, state in (
            (lambda: self.cloud.stop(self.serving), State.STOPPED),
            (suspend, State.SUSPENDED),
            (lambda: self.cloud.crash(self.serving), State.ERROR),
        ):
            for until, more in (
                (Until.ACTIVE, {}),
                (Until.ACTIVE, {'on_status': lambda status: None}),
                (Until.READY, {'probe': lambda amphora: True}),
            ):
                with self.subTest(state, until=until, **more):
                    rest()
                    self.assert_reported(state, until=until, **more)

    def assert_reported(self, state, **given):
        """Repeat the build; fail unless it reports the machine at once, and leaves it."""
        began, ended = self.clock.monotonic(), []
        repeated = self.restarted.build(build_key='k', **given)
        repeated.add_done_callback(lambda _: ended.append(self.clock.monotonic()))
        error = self.settled_error(repeated)
        self.until(lambda: ended)
        self.assertLess(ended[0] - began, 3)
        self.assertIs(BuildFailed if state is State.ERROR else BuildNotRunning, type(error))
        self.assertEqual((self.serving, 'k'), (error.amphora_id, error.build_key))
        self.assertEqual((Advice.REPAIR, Outcome.APPLIED), (error.advice, error.outcome))
        for reported in (
            self.serving,
            "build key 'k'",
            state.value,
            'left as it is',
            'or delete it',
        ):
            self.assertIn(reported, str(error))
        self.later()
        self.assertIs(state, self.state())
        self.cloud.start(self.serving)

    def test_a_machine_that_is_being_resumed_is_awaited(self):
        self.settle(self.compute.suspend(self.serving, wait=True))
        self.latency(resume_s=60)
        self.settle(self.compute.resume(self.serving))
        repeated = self.restarted.build(build_key='k', until=Until.ACTIVE)
        self.assertEqual(self.serving, self.settle(repeated))

    def test_a_stopped_machine_of_a_recovered_build_is_reported_at_once(self):
        saved = self.compute.build(build_key='k', until=Until.ACTIVE).to_dict()
        self.settle(self.compute.suspend(self.serving, wait=True))
        error = self.settled_error(self.restarted.recover(saved))
        self.assertIs(BuildNotRunning, type(error))
        self.assertIs(State.SUSPENDED, self.state())

    def test_a_machine_that_failed_after_it_served_is_left_and_reported(self):
        self.cloud.faults.add(Fault(call='reboot', action='error'))
        self.settle(self.compute.reboot(self.serving))
        self.until(lambda: self.state() is State.ERROR)
        repeated = self.restarted.build(build_key='k', until=Until.ACTIVE)
        error = self.settled_error(repeated)
        self.assertIs(Outcome.APPLIED, error.outcome)
        self.assertEqual(self.serving, error.amphora_id)
        self.assertIn('left as it is', str(error))
        self.assertIs(State.ERROR, self.state())

    def test_a_failed_probe_leaves_the_machine_and_the_error_states_so(self):
        repeated = self.restarted.build(
            build_key='k', until=Until.READY, probe=lambda amphora: False, timeout=30
        )
        self.assertIsInstance(self.settled_error(repeated), BuildTimeout)
        self.later()
        self.assertIs(State.ACTIVE, self.state())


class AtTheGate(Repeating):
    def test_d1c_closing_during_repeats_leaves_the_machine(self):
        self.held.hold()
        repeats = [self.restarted.build(build_key='k', until=Until.ACTIVE) for _ in range(5)]
        self.assertTrue(self.held.entered.wait(120))
        closing = threading.Thread(target=self.restarted.close, args=(30,))
        closing.start()
        self.until(lambda: self.restarted._stack.executor.closed)
        self.held.gate.set()
        closing.join()
        for repeat in repeats:
            self.assertIsInstance(repeat.exception(0), OperationCancelled)
        self.later()
        self.assertIs(State.ACTIVE, self.state())

    def test_d1d_d3_a_cancel_leaves_the_machine_and_states_whether_the_build_was_sent(self):
        self.held.hold()
        repeat = self.restarted.build(build_key='k', until=Until.ACTIVE)
        queued = self.restarted.build(build_key='k', until=Until.ACTIVE)
        self.assertTrue(self.held.entered.wait(120))
        self.assertTrue(queued.cancel())
        self.assertIs(Outcome.NOT_APPLIED, queued.exception(0).outcome)
        self.assertIn('never sent', str(queued.exception(0)))
        self.assertTrue(repeat.cancel())
        self.assertFalse(repeat.cancel())
        self.assertIs(Outcome.UNKNOWN, repeat.exception(0).outcome)
        self.assertNotIn('never sent', str(repeat.exception(0)))
        self.held.gate.set()
        self.later()
        self.assertIs(State.ACTIVE, self.state())

    def test_a_cancelled_recovery_leaves_the_machine(self):
        saved = self.compute.build(build_key='k').to_dict()
        self.held.hold()
        recovered = self.restarted.recover(saved)
        self.assertTrue(self.held.entered.wait(120))
        recovered.cancel()
        self.held.gate.set()
        self.later()
        self.assertIs(State.ACTIVE, self.state())


class StillBuilding(FacadeTest):
    def test_a_machine_that_stops_under_a_drawn_key_is_removed(self):
        building = self.compute.build(until=Until.READY, probe=lambda amphora: False)
        self.until(lambda: self.cloud.count() == 1)
        self.cloud.stop(self.cloud.instances()[0].id)
        error = self.settled_error(building)
        self.assertEqual((BuildNotRunning, Outcome.NOT_APPLIED), (type(error), error.outcome))
        self.nothing_left()

    def test_an_unfinished_machine_is_adopted_and_removed_if_it_fails(self):
        self.settle(self.compute.build(build_key='k', metadata={'noop:fault': 'stuck'}))
        restarted = Compute(NoopDriver(cloud=self.cloud), settings=self.settings)
        self.addCleanup(restarted.close, 0.1)
        repeated = restarted.build(build_key='k', until=Until.ACTIVE, timeout=30)
        self.assertIsInstance(self.settled_error(repeated), BuildTimeout)
        self.nothing_left()

    def test_an_unfinished_machine_with_other_arguments_is_left_to_its_builder(self):
        stuck = {'noop:fault': 'stuck'}
        first = self.settle(self.compute.build(build_key='k', name='web', metadata=stuck))
        restarted = Compute(NoopDriver(cloud=self.cloud), settings=self.settings)
        self.addCleanup(restarted.close, 0.1)
        for fault in None, Fault(call='build', action='timeout_before', times=1):
            if fault is not None:
                self.cloud.faults.add(fault)
            repeated = restarted.build(build_key='k', name='other', until=Until.ACTIVE)
            self.assertIsInstance(self.settled_error(repeated), BuildDiffers)
        self.clock.sleep(100)
        self.assertIs(State.BUILDING, self.machine(first).state)

    def test_a_machine_in_error_that_never_ran_is_removed_and_its_key_is_free_again(self):
        self.cloud.faults.add(Fault(call='build', action='error', times=1))
        failed = self.compute.build(build_key='k', until=Until.ACTIVE)
        self.assertIsNotNone(self.settled_error(failed))
        self.nothing_left()
        self.assertTrue(self.build(build_key='k'))
