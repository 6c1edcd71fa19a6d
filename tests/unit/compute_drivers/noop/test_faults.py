"""Scripted faults: their parsing, their selection, and their effect on calls."""

import contextlib
import pathlib
import re
import threading
import unittest

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.exceptions import (
    AmbiguousInstanceError,
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    ConfigurationError,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    Outcome,
    QuotaExceeded,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
    Verdict,
)
from kiln.models import State
from kiln.testing.clock import VirtualClock
from tests.hurrying_clock import HurryingClock

GUIDE = pathlib.Path(__file__).parents[4] / 'doc/source/user/rehearsing.rst'


class JumpingClock(VirtualClock):
    """Advances by some seconds just before its n-th reading, as if a reader were slow."""

    readings = 0

    def monotonic(self):
        self.readings -= 1
        if self.readings == 0:
            self.advance(5)
        return super().monotonic()


class FaultCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.clock = VirtualClock()
        self.cloud = NoopCloud(clock=self.clock, seed=3)
        self.driver = NoopDriver(cloud=self.cloud)

    def script(self, text):
        self.cloud.faults.add(Fault.parse(text))

    def hanging(self, function, *args):
        """Return the outcome of a call in a thread, advancing the clock meanwhile."""
        outcome = []

        def run():
            try:
                outcome.append(function(*args))
            except AmphoraComputeError as exc:
                outcome.append(exc)

        thread = threading.Thread(target=run)
        thread.start()
        self.clock.run_until(lambda: not thread.is_alive())
        thread.join()
        return outcome[0]


class ParseTest(unittest.TestCase):
    def test_a_fault_is_parsed_from_one_line(self):
        self.assertEqual(
            Fault.parse('build:timeout_after:times=2,probability=0.5'),
            Fault(call='build', action=Action.TIMEOUT_AFTER, times=2, probability=0.5),
        )
        self.assertEqual(Fault.parse('*:hang=30'), Fault(action='hang', seconds=30))
        self.assertEqual(
            Fault.parse('get:rate_limit=7'), Fault(call='get', action='rate_limit', retry_after=7)
        )
        self.assertEqual(
            Fault.parse('build:error=No valid host:after=1,metadata.role=web,seconds=4'),
            Fault(
                call='build',
                action='error',
                text='No valid host',
                after=1,
                metadata={'role': 'web'},
                seconds=4,
            ),
        )
        self.assertEqual(Fault.parse('delete:never').action, Action.STUCK)

    def test_a_malformed_line_is_refused_with_the_reason(self):
        for text, clue in {
            'build': 'CALL:ACTION',
            'build:explode': 'refuse',
            'fly:refuse': 'suspend',
            'build:refuse:often=1': 'often',
            'build:refuse:times=x': 'times must be a number',
            'build:hang=soon': 'seconds must be a number',
            'build:refuse:probability=2': '0 to 1',
            'build:refuse:times=-1': 'negative',
            'get:quota': 'for build only',
        }.items():
            with self.subTest(text), self.assertRaises(ConfigurationError) as caught:
                Fault.parse(text)
            self.assertIn(clue, str(caught.exception))


class GuideTest(unittest.TestCase):
    def test_the_guide_has_each_action_and_option(self):
        text = GUIDE.read_text()
        told = re.findall(r'^``([a-z_]+)`` +', text, re.MULTILINE)
        self.assertEqual(sorted(Action), sorted(told))
        for option in ('times', 'after', 'probability', 'amphora_id', 'metadata.KEY'):
            self.assertIn(f'``{option}``', text)


class DecisionTest(FaultCase):
    def outcomes(self, count):
        made = ''
        for _ in range(count):
            try:
                self.driver.build()
                made += 'x'
            except ServiceUnavailable:
                made += '-'
        return made

    def test_a_fault_skips_and_counts(self):
        self.script('build:refuse:after=1,times=2')
        self.assertEqual(self.outcomes(5), 'x--xx')

    def test_clear_ends_all_faults(self):
        self.script('build:refuse')
        self.assertEqual(self.outcomes(2), '--')
        self.cloud.faults.clear()
        self.assertEqual(self.outcomes(2), 'xx')
        self.assertEqual(len(self.cloud.faults), 0)

    def test_probabilities_repeat_with_the_seed(self):
        runs = set()
        for _ in range(2):
            self.driver = NoopDriver(
                cloud=NoopCloud(seed=3, faults=[Fault.parse('build:refuse:probability=0.5')])
            )
            runs.add(self.outcomes(40))
        (run,) = runs
        self.assertGreater(run.count('-'), 10)
        self.assertGreater(run.count('x'), 10)

    def test_the_first_fault_that_fires_wins(self):
        self.script('build:refuse:times=1')
        self.script('build:rate_limit')
        self.assertRaises(ServiceUnavailable, self.driver.build)
        self.assertRaises(RateLimited, self.driver.build)

    def test_a_fault_can_select_an_amphora_or_metadata(self):
        web = self.driver.build(metadata={'role': 'web'})
        db = self.driver.build(metadata={'role': 'db'})
        self.script(f'status:refuse:amphora_id={db}')
        self.script('suspend:refuse:metadata.role=web')
        self.driver.status(web)
        self.assertRaises(ServiceUnavailable, self.driver.status, db)
        self.driver.suspend(db)
        self.assertRaises(ServiceUnavailable, self.driver.suspend, web)
        self.assertRaises(InstanceNotFoundError, self.driver.suspend, 'nobody')
        self.script('build:refuse:metadata.role=web')
        self.driver.build(metadata={'role': 'db'})
        with self.assertRaises(ServiceUnavailable):
            self.driver.build(metadata={'role': 'web', 'more': 'x'})

    def test_a_request_can_script_its_own_fault(self):
        def build(fault, key=None):
            return self.driver.build(metadata={'noop:fault': fault}, build_key=key)

        self.assertRaises(ServiceUnavailable, build, 'refuse')
        self.assertRaises(ServiceUnavailable, build, 'refuse:times=1', 'k')
        build('refuse:times=1', 'k')
        self.assertRaises(ServiceUnavailable, build, 'refuse:times=1', 'another')
        stuck = build('never')
        self.clock.advance(1e9)
        self.assertIs(self.driver.status(stuck).state, State.BUILDING)
        failed = self.driver.status(build('error=No valid host was found'))
        self.assertEqual((failed.state, failed.fault_code), (State.ERROR, 'insufficient_capacity'))
        with self.assertRaises(InvalidBuildRequest) as caught:
            build('explode')
        self.assertIn('noop:fault', str(caught.exception))


class PreventedTest(FaultCase):
    def test_a_refused_call_has_no_effect(self):
        for action, error in {
            'refuse': ServiceUnavailable,
            'rate_limit=9': RateLimited,
            'quota': QuotaExceeded,
            'capacity': InsufficientCapacity,
            'conflict': BuildConflict,
        }.items():
            self.script(f'build:{action}:times=1')
            with self.subTest(action), self.assertRaises(error) as caught:
                self.driver.build(build_key='k')
            self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)
            self.assertEqual(caught.exception.build_key, 'k')
            self.assertEqual(self.cloud.count(), 0)
            if error is RateLimited:
                self.assertEqual(caught.exception.retry_after, 9)

    def test_a_refusal_can_have_retry_after(self):
        for fault, pause_s in {
            'refuse': None,
            'refuse:retry_after=9': 9,
            'rate_limit': 1,
            'rate_limit:retry_after=0': 0,
        }.items():
            action, _, options = fault.partition(':')
            self.script(f'build:{action}:times=1,{options}')
            with self.subTest(fault), self.assertRaises(AmphoraComputeError) as caught:
                self.driver.build()
            self.assertEqual(caught.exception.retry_after, pause_s)

    def test_a_conflict_of_an_action_is_a_state_conflict_and_that_of_a_delete_a_refusal(self):
        amphora_id = self.driver.build()
        self.script('*:conflict')
        for act, error in (
            (self.driver.suspend, InstanceStateConflict),
            (self.driver.delete, DeleteFailed),
        ):
            with self.assertRaises(error) as caught:
                act(amphora_id)
            self.assertEqual(caught.exception.amphora_id, amphora_id)

    def test_build_faults_meant_for_all_calls_leave_the_others_alone(self):
        self.script('*:quota')
        amphora_id = 'nobody'
        self.assertRaises(InstanceNotFoundError, self.driver.status, amphora_id)
        self.assertRaises(QuotaExceeded, self.driver.build)

    def test_a_timeout_leaves_the_outcome_unknown(self):
        for action, count in {'timeout_before': 0, 'timeout_after': 1, 'lose_answer': 1}.items():
            self.script(f'build:{action}:times=1')
            with self.subTest(action), self.assertRaises(BuildOutcomeUnknown) as caught:
                self.driver.build(build_key=action)
            self.assertIs(caught.exception.outcome, Outcome.UNKNOWN)
            found = self.driver.find_build(action)
            self.assertEqual(int(found is not None), count)
            if found:
                self.assertEqual(self.driver.build(build_key=action), found.id)

    def test_other_calls_time_out_as_a_service_does(self):
        amphora_id = self.driver.build()
        self.script('suspend:timeout_after')
        self.assertRaises(ServiceTimeout, self.driver.suspend, amphora_id)
        self.assertIs(self.driver.status(amphora_id).state, State.SUSPENDED)
        self.script('status:timeout_before')
        self.assertRaises(ServiceTimeout, self.driver.status, amphora_id)

    def test_a_hanging_call_takes_the_scripted_time(self):
        self.script('build:hang=30:times=1')
        self.assertIn(self.hanging(self.driver.build), [i.id for i in self.cloud.instances()])
        self.assertGreaterEqual(self.clock.monotonic(), 30)
        self.script('build:hang_before=30')
        self.assertIsInstance(self.hanging(self.driver.build), BuildOutcomeUnknown)
        self.assertGreaterEqual(self.clock.monotonic(), 60)
        self.assertEqual(self.cloud.count(), 1)

    def test_a_crash_is_a_defect_of_the_driver(self):
        self.script('build:crash')
        with self.assertRaises(AmphoraComputeError) as caught:
            self.driver.build()
        self.assertIsInstance(caught.exception.__cause__, RuntimeError)
        self.assertIs(caught.exception.circuit, Verdict.FAILURE)

    def test_a_late_build_appears_after_its_error(self):
        self.script('build:late=10:times=1')
        self.assertRaises(BuildOutcomeUnknown, lambda: self.driver.build(build_key='z'))
        self.clock.advance(9)
        self.assertIsNone(self.driver.find_build('z'))
        self.clock.advance(1)
        zombie = self.driver.find_build('z')
        self.assertIs(zombie.state, State.ACTIVE)

    def test_a_late_build_does_not_duplicate_a_repeated_build(self):
        self.script('build:late=10:times=1')
        self.assertRaises(BuildOutcomeUnknown, lambda: self.driver.build(build_key='z'))
        again = self.driver.build(build_key='z')
        self.clock.advance(20)
        self.assertEqual([i.id for i in self.cloud.instances()], [again])

    def test_late_effects_happen_at_their_own_time(self):
        cloud = NoopCloud(clock=self.clock, build_s=5, delete_s=5)
        driver = NoopDriver(cloud=cloud)
        amphora_id = driver.build()
        cloud.faults.add(Fault.parse('delete:late=10'))
        self.assertRaises(ServiceTimeout, driver.delete, amphora_id)
        self.clock.advance(16)
        self.assertEqual(cloud.count(), 0)

    def test_a_late_effect_on_a_missing_amphora_is_ignored(self):
        amphora_id = self.driver.build()
        self.script('suspend:late=10:times=1')
        self.assertRaises(ServiceTimeout, self.driver.suspend, amphora_id)
        self.driver.delete(amphora_id)
        self.clock.advance(20)
        self.assertEqual(self.cloud.count(), 0)


class BadEndTest(FaultCase):
    def setUp(self):
        super().setUp()
        self.cloud = NoopCloud(clock=self.clock, build_s=5, suspend_s=5, delete_s=5)
        self.driver = NoopDriver(cloud=self.cloud)

    def test_a_build_can_end_in_error_with_the_code_of_its_fault(self):
        for text, code in {
            'No valid host was found': 'insufficient_capacity',
            'Exceeded maximum number of retries': 'insufficient_capacity',
            'Quota exceeded for cores': 'quota_exceeded',
            'Build of instance aborted': None,
        }.items():
            self.script(f'build:error={text}:times=1')
            amphora_id = self.driver.build()
            self.assertIs(self.driver.status(amphora_id).state, State.BUILDING)
            self.clock.advance(5)
            status = self.driver.status(amphora_id)
            self.assertEqual((status.state, status.fault), (State.ERROR, text))
            self.assertEqual(status.fault_code, code)
            self.assertEqual(self.driver.get_amphora(amphora_id=amphora_id).fault_code, code)

    def test_an_error_without_a_text_has_a_default_text(self):
        self.script('build:error')
        amphora_id = self.driver.build()
        self.clock.advance(5)
        self.assertIn('build', self.driver.status(amphora_id).fault)

    def test_a_stuck_action_never_ends_but_the_amphora_can_be_deleted(self):
        amphora_id = self.driver.build()
        self.clock.advance(5)
        self.script('suspend:stuck')
        self.driver.suspend(amphora_id)
        self.clock.advance(1e6)
        self.assertEqual(self.driver.status(amphora_id).task_state, 'suspending')
        self.driver.delete(amphora_id)
        self.clock.advance(5)
        self.assertEqual(self.cloud.count(), 0)

    def test_a_failed_delete_leaves_an_amphora_in_error(self):
        amphora_id = self.driver.build()
        self.script('delete:error=volume is busy:times=1')
        self.driver.delete(amphora_id)
        self.clock.advance(5)
        self.assertEqual(self.driver.status(amphora_id).fault, 'volume is busy')
        self.driver.delete(amphora_id)
        self.clock.advance(5)
        self.assertEqual(self.cloud.count(), 0)

    def test_build_only_faults_are_refused_for_other_calls_and_not_used_up_by_them(self):
        for action in ('vanish', 'leak', 'quota', 'capacity', 'duplicate_name'):
            with (
                self.subTest(action),
                self.assertRaisesRegex(ConfigurationError, 'it is for build only'),
            ):
                Fault.parse(f'status:{action}')
        self.script('*:vanish=5:times=1')
        self.assertEqual([], list(self.driver.list_amphorae()))
        amphora_id = self.driver.build()
        self.clock.advance(60)
        with self.assertRaises(InstanceNotFoundError):
            self.driver.status(amphora_id)

    def test_an_amphora_that_vanishes_while_it_is_built_is_never_active(self):
        for readings in range(1, 12):
            clock = JumpingClock()
            driver = NoopDriver(cloud=NoopCloud(clock=clock, build_s=10.0))
            driver.cloud.faults.add(Fault.parse('build:vanish=9'))
            amphora_id = driver.build()
            clock.advance(8)
            clock.readings = readings
            with self.subTest(readings), contextlib.suppress(InstanceNotFoundError):
                self.assertIs(State.BUILDING, driver.status(amphora_id).state)

    def test_a_vanished_amphora_is_in_the_changes(self):
        self.script('build:vanish=60')
        amphora_id = self.driver.build()
        self.clock.advance(59)
        self.assertTrue(self.driver.status(amphora_id).ready)
        cursor = self.driver.changes().cursor
        self.clock.advance(1)
        self.assertEqual(self.driver.changes(cursor).gone, (amphora_id,))

    def test_a_leak_leaves_a_port_without_an_amphora(self):
        self.script('build:leak:times=1')
        leaky, tidy = self.driver.build(), self.driver.build()
        self.driver.delete(leaky)
        self.driver.delete(tidy)
        self.clock.advance(5)
        (port,) = self.driver.list_resources()
        self.assertEqual((port.kind, port.amphora_id, port.owner), ('port', None, 'kiln'))
        self.driver.delete_resource(port)
        self.assertEqual(list(self.driver.list_resources()), [])

    def test_a_duplicated_name_is_ambiguous_and_its_key_is_not(self):
        self.script('build:duplicate_name')
        amphora_id = self.driver.build(name='x', build_key='k')
        self.assertRaises(AmbiguousInstanceError, self.driver.get_amphora, 'x')
        self.assertEqual(self.driver.find_build('k').id, amphora_id)

    def test_a_stale_list_lacks_the_newest_amphora_and_a_search_by_key_finds_it(self):
        old = self.driver.build()
        self.clock.advance(10)
        new = self.driver.build(build_key='new')
        self.script('list:stale_list=10')
        self.script('changes:stale_list=10')
        self.assertEqual([i.id for i in self.driver.list_amphorae()], [old])
        self.assertEqual(self.driver.find_build('new').id, new)
        behind = self.driver.changes()
        self.assertTrue(behind.complete)
        self.assertEqual([s.amphora_id for s in behind.statuses], [old])
        self.cloud.faults.clear()
        news = self.driver.changes(behind.cursor)
        self.assertIn(new, [s.amphora_id for s in news.statuses])
        self.script('changes:stale_list=10')
        self.driver.build()
        self.assertEqual(self.driver.changes(news.cursor).statuses, ())
        self.assertEqual(self.driver.changes(news.cursor).cursor, news.cursor)


class Deadlines(FaultCase):
    """A caller never waits longer than its deadline; the cloud does what it was asked."""

    def setUp(self):
        self.clock = HurryingClock()
        self.cloud = NoopCloud(clock=self.clock, seed=3)
        self.driver = NoopDriver(cloud=self.cloud)

    def within(self, seconds, function):
        """Return the outcome of a call with a deadline, and how long it took."""
        started = self.clock.monotonic()
        try:
            with deadline_scope(Deadline.after(seconds, self.clock)):
                outcome = function()
        except AmphoraComputeError as exc:
            outcome = exc
        return outcome, self.clock.monotonic() - started

    def test_a_hanging_build_ends_by_its_deadline_and_takes_effect_later(self):
        self.script('build:hang=30')
        outcome, took_s = self.within(5, lambda: self.driver.build(build_key='k'))
        self.assertEqual((BuildOutcomeUnknown, 'k'), (type(outcome), outcome.build_key))
        self.assertEqual(5, took_s)
        self.assertEqual(0, self.cloud.count())
        self.clock.advance(26)
        self.assertEqual(1, self.cloud.count())

    def test_a_call_that_hangs_before_its_effect_never_has_it(self):
        amphora_id = self.driver.build()
        self.script('delete:hang_before=30')
        outcome, took_s = self.within(5, lambda: self.driver.delete(amphora_id))
        self.assertEqual((ServiceTimeout, 5), (type(outcome), took_s))
        self.clock.advance(26)
        self.assertEqual(1, self.cloud.count())

    def test_a_slow_api_is_cut_off_by_the_deadline_too(self):
        self.cloud = NoopCloud(clock=self.clock, accept_s=8)
        self.driver = NoopDriver(cloud=self.cloud)
        outcome, took_s = self.within(5, self.driver.check)
        self.assertEqual((ServiceTimeout, 5), (type(outcome), took_s))
        outcome, took_s = self.within(20, self.driver.build)
        self.assertEqual(8, took_s)
        self.assertEqual(outcome, next(iter(self.cloud.instances())).id)

    def test_a_call_without_time_left_ends_at_once(self):
        self.script('status:hang=30')
        amphora_id = self.driver.build()
        outcome, took_s = self.within(-1, lambda: self.driver.status(amphora_id))
        self.assertEqual((ServiceTimeout, 0), (type(outcome), took_s))
