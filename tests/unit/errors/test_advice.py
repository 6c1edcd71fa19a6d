"""Controllers that follow only the advice of errors."""

import hypothesis
from hypothesis import strategies as st

from kiln.compute.facade import Compute, Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import Advice, AmphoraComputeError, BuildNotRunning, DeleteFailed
from kiln.models import State
from kiln.wrappers.executor.settings import ExecutorSettings
from tests.examples import examples
from tests.unit.compute.facade_case import FacadeTest


class Controller:
    """A controller that follows only the advice of an error."""

    #: Maximum number of repeats before it gives up.
    MOST = 12

    def __init__(self, compute, clock, settled_error):
        self._compute, self._clock, self._settled_error = compute, clock, settled_error
        self.errors = []

    def machine(self, key):
        """Return the id of the one desired machine, or None after giving up."""
        for attempt in range(self.MOST):
            made = self._try(
                self._compute.build,
                build_key=key,
                until=Until.ACTIVE,
                timeout=60,
            )
            if not isinstance(made, AmphoraComputeError):
                return made.result()
            if not made.advice.again:
                return None
            self._pause(made, attempt)
        return None

    def without(self, amphora_id):
        """Return True if a machine is gone."""
        for attempt in range(self.MOST):
            made = self._try(self._compute.delete, amphora_id, wait=True, timeout=60)
            if not isinstance(made, AmphoraComputeError):
                return True
            if not made.advice.again:
                return False
            self._pause(made, attempt)
        return False

    def _try(self, call, *args, **given):
        try:
            operation = call(*args, **given)
            error = self._settled_error(operation)
        except AmphoraComputeError as exc:
            error = exc
        if error is None:
            return operation
        self.errors.append(error)
        return error

    def _pause(self, error, attempt):
        if error.advice is Advice.WAIT:
            self._clock.sleep(error.retry_after or 2.0**attempt)


#: Faults of a build in the cloud; each ends after a while, or never.
BUILD_FAULTS = (
    'refuse', 'rate_limit', 'quota', 'capacity', 'conflict', 'timeout_before', 'crash', 'late',
    'timeout_after', 'lose_answer', 'error', 'stuck', 'vanish',
)  # fmt: skip
DELETE_FAULTS = ('refuse', 'rate_limit', 'timeout_before', 'timeout_after', 'error', 'stuck')
READ_FAULTS = ('refuse', 'rate_limit', 'timeout_before')

scripts = st.lists(
    st.one_of(
        st.builds(
            Fault,
            call=st.just('build'),
            action=st.sampled_from(BUILD_FAULTS),
            times=st.integers(1, 4),
            after=st.integers(0, 2),
            seconds=st.sampled_from([1.0, 15.0]),
        ),
        st.builds(
            Fault,
            call=st.just('delete'),
            action=st.sampled_from(DELETE_FAULTS),
            times=st.integers(1, 4),
        ),
        st.builds(
            Fault,
            call=st.sampled_from(['find_build', 'changes', 'statuses']),
            action=st.sampled_from(READ_FAULTS),
            times=st.integers(1, 6),
        ),
    ),
    max_size=4,
)


class Following(FacadeTest):
    settings = StackSettings(executor=ExecutorSettings(timeout_s=30, cleanup_timeout_s=4000))

    def controller(self):
        return Controller(self.compute, self.clock, self.settled_error)

    def follow(self, script):
        for fault in script:
            self.cloud.faults.add(fault)
        controller = self.controller()
        made = controller.machine('web')
        self.cloud.faults.clear()
        # Lost requests arrive, and machines to be removed are removed.
        self.clock.sleep(600)
        left = self.cloud.instances()
        said = [(error.code, error.advice.value, str(error)) for error in controller.errors]
        self.assertLessEqual(len(controller.errors), Controller.MOST)
        self.assertLessEqual(len(left), 1, said)
        if made:
            self.assertEqual([(made, State.ACTIVE)], [(one.id, one.state) for one in left], said)
        for one in left:
            # After giving up or not, an existing machine can be adopted by its key.
            self.assertEqual('web', one.build_key, said)
        return made, controller

    def test_a_temporary_failure_is_waited_out(self):
        for action in ('refuse', 'rate_limit', 'capacity', 'timeout_before', 'timeout_after',
                       'lose_answer', 'error', 'stuck', 'vanish', 'late'):  # fmt: skip
            with self.subTest(action):
                made, _ = self.follow([Fault(call='build', action=action, times=2, seconds=1.0)])
                self.assertIsNotNone(made)
                self.assertTrue(self.controller().without(made))

    def test_a_failure_that_needs_a_repair_is_given_up_at_once(self):
        for action in ('quota', 'conflict', 'crash'):
            with self.subTest(action):
                made, controller = self.follow([Fault(call='build', action=action)])
                self.assertIsNone(made)
                self.assertEqual([Advice.REPAIR], [error.advice for error in controller.errors])

    def test_a_stopped_machine_under_the_key_is_given_up_until_it_is_repaired(self):
        made, _ = self.follow([])
        self.cloud.stop(made)
        controller = self.controller()
        self.assertIsNone(controller.machine('web'))
        [error] = controller.errors
        self.assertEqual((BuildNotRunning, Advice.REPAIR), (type(error), error.advice))
        self.cloud.start(made)
        self.assertEqual(made, self.controller().machine('web'))

    def test_a_failed_delete_is_repeated_or_given_up_as_advised(self):
        made, _ = self.follow([])
        self.cloud.faults.add(Fault(call='delete', action='error', times=1))
        controller = self.controller()
        self.assertFalse(controller.without(made))
        self.assertEqual([DeleteFailed], [type(error) for error in controller.errors])
        for action in ('refuse', 'timeout_before', 'stuck'):
            self.cloud.faults.add(Fault(call='delete', action=action, times=1))
        self.assertTrue(self.controller().without(made))
        self.assertEqual(0, self.cloud.count())

    @hypothesis.settings(max_examples=examples(4), deadline=None, database=None)
    @hypothesis.given(scripts)
    def test_any_sequence_of_faults_ends_with_at_most_one_machine(self, script):
        self.compute.close(0.1)
        self.cloud.faults.clear()
        for one in self.cloud.instances():
            self.cloud.vanish(one.id)
        self.compute = Compute(NoopDriver(cloud=self.cloud), settings=self.settings)
        self.addCleanup(self.compute.close, 0.1)
        self.follow(script)
