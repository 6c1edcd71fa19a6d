"""After any storm of faults the amphorae are exactly the successful builds."""

import os
import unittest

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.exceptions import KilnError, Outcome
from kiln.models import State
from kiln.testing.clock import VirtualClock
from kiln.wrappers.circuit.settings import CircuitSettings
from kiln.wrappers.executor.settings import ExecutorSettings

BUILDS = 12
# The soak runs more of the same; CI runs enough to notice.
EXAMPLES = int(os.environ.get('KILN_STORM_EXAMPLES', '25'))

FAULTS = st.builds(
    Fault,
    call=st.sampled_from(['build', 'delete', 'find_build', 'status', 'statuses', 'changes', '*']),
    action=st.sampled_from(
        [
            'refuse', 'timeout_before', 'timeout_after', 'lose_answer', 'hang', 'hang_before',
            'rate_limit', 'crash',
        ]
    ),
    times=st.integers(1, 4),
    probability=st.floats(0.1, 1.0),
    seconds=st.floats(1, 90),
    retry_after=st.floats(0.1, 5),
)  # fmt: skip

BUILD_FAULTS = st.builds(
    Fault,
    call=st.just('build'),
    action=st.sampled_from(['error', 'vanish', 'stuck', 'quota', 'capacity', 'conflict', 'late']),
    times=st.integers(1, 3),
    probability=st.floats(0.1, 1.0),
    seconds=st.floats(0.1, 3),
    text=st.sampled_from(['No valid host was found', 'Quota exceeded', 'boom']),
)


class Storm(unittest.TestCase):
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        faults=st.lists(st.one_of(FAULTS, BUILD_FAULTS), max_size=8),
        cancelled=st.sets(st.integers(0, BUILDS - 1), max_size=3),
        until=st.sampled_from([Until.ACCEPTED, Until.ACTIVE]),
        drawn=st.booleans(),
        seed=st.integers(0, 2**16),
    )
    def test_the_amphorae_are_the_successful_builds(self, faults, cancelled, until, drawn, seed):
        clock = VirtualClock()
        cloud = NoopCloud(clock=clock, build_s=10, delete_s=2, seed=seed)
        for fault in faults:
            cloud.faults.add(fault)
        compute = Compute(
            NoopDriver(cloud=cloud),
            settings=StackSettings(
                executor=ExecutorSettings(timeout_s=60, cleanup_timeout_s=3600),
                circuit=CircuitSettings(open_s=5, open_max_s=10),
            ),
        )
        self.addCleanup(compute.close, 0.1)
        operations = []
        for i in range(BUILDS):
            try:
                key = None if drawn else f'storm-{i}'
                operations.append(compute.build(build_key=key, until=until, timeout=120))
            except KilnError:
                # Refused at once: nothing was sent to the backend.
                continue
            if i in cancelled:
                operations[-1].cancel()
        clock.run_until(lambda: all(operation.done() for operation in operations))
        # The faults end, and lost machines are found and removed.
        cloud.faults.clear()
        wanted = {
            operation.result(): operation.build_key
            for operation in operations
            if operation.exception() is None
        }

        # What a failed build leaves, since it runs and another may have been given it by
        # the key that its error names: its caller was not told that there is nothing.
        errors = {one: one.exception() for one in operations if one.exception() is not None}
        doubtful = {
            error.build_key
            for operation, error in errors.items()
            if operation.cancelled() or error.outcome is not Outcome.NOT_APPLIED
        }

        def there():
            return {
                one.id: one.build_key
                for one in cloud.instances()
                if one.build_key not in doubtful or one.state is not State.ACTIVE
            }

        vanished = {f.action for f in faults} & {'vanish', 'error'} and until is Until.ACCEPTED

        def calm():
            left = there()
            return left == wanted or (vanished and left.items() <= wanted.items())

        clock.run_until(calm, real_timeout_s=60)
        # What was lost may land late, and is removed then too; the threads that
        # do it need real time, which a leap of the clock does not give them.
        clock.advance(300)
        clock.run_until(calm, real_timeout_s=60)
        keys = [one.build_key for one in cloud.instances()]
        self.assertEqual(len(keys), len(set(keys)))
        compute.close(0.1)
