"""What the kit tells the author of a wrong driver: what, why, where to read, and once."""

import dataclasses
import io
import re
import unittest
from pathlib import Path
from types import MappingProxyType

from kiln.compute_drivers.authoring.bench import Bench, Faults
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.compute_drivers.noop.bench import NoopBench
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import (
    ConfigurationError,
    DriverLoadError,
    DriverNotFound,
    InstanceStateConflict,
    ServiceUnavailable,
)
from kiln.models import Limits, State
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import BehaviourOutcome, ComputeDriverConformance, run_conformance
from kiln.testing.conformance.suite import behaviours
from kiln.testing.minimal import MinimalDriver

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / 'doc/source/contributor/writing-a-driver.rst'
TEMPLATE = ROOT / 'kiln/cli/driver/scaffold/templates/compute/MODULE/bench.py.tmpl'
KIT = [name for _, _, name in behaviours()]
OPENS = 'test_the_driver_opens_with_its_bench'
#: The one shape of a failure.
SHAPE = re.compile(r'Expected: .+\.\nSeen instead: .+\.\nRead: [\w.]+(, [\w.]+)*\.', re.DOTALL)


class LacksAHook(AmphoraComputeDriver):
    limits = Limits()
    _build = MinimalDriver._build
    _delete = MinimalDriver._delete
    _list = MinimalDriver._list


class RenamesAnArgument(MinimalDriver):
    def _get(self, instance_id):
        return super()._get(instance_id)


class NamesAMethodAValue(MinimalDriver):
    _delete = 'soon'


class IsOfTomorrow(MinimalDriver):
    contract_version = 2


class CannotBeMade(MinimalDriver):
    def __init__(self):
        super().__init__()
        raise KeyError('endpoint')


class HasNoSuchBench(MinimalDriver):
    bench = 'no_such_module:Bench'


class BrokenBench(Bench):
    def __init__(self, driver):
        super().__init__(driver)
        raise ServiceUnavailable('Cannot reach the simulator.')


class HasABrokenBench(MinimalDriver):
    bench = f'{__name__}:BrokenBench'


#: Each wrong form, the behaviour that it fails, and what the failure says.
WRONG_FORMS = {
    LacksAHook: (OPENS, r'make_driver.+TypeError: .+LacksAHook.+_get'),
    RenamesAnArgument: (
        'test_hooks_have_the_signatures_of_the_contract',
        r'_get\(self, amphora_id\).+_get\(self, instance_id\).+ComputeHooks\._get',
    ),
    NamesAMethodAValue: (
        'test_hooks_have_the_signatures_of_the_contract',
        r"a method _delete\(\).+_delete is 'soon'.+ComputeHooks\._delete",
    ),
    IsOfTomorrow: (
        'test_the_driver_is_written_for_this_contract',
        'contract_version 1, that of this kiln.+contract_version 2',
    ),
    CannotBeMade: (OPENS, r"KeyError: 'endpoint', raised at testing/test_teaching\.py, line \d+"),
    HasNoSuchBench: (OPENS, "bench of the driver.+Cannot load bench 'no_such_module:Bench'"),
    HasABrokenBench: (
        OPENS,
        r'test_teaching:BrokenBench\(driver\) makes the bench.+ServiceUnavailable: Cannot reach '
        r'the simulator, raised at testing/test_teaching\.py, line \d+, in __init__',
    ),
    dict: ('test_the_driver_is_written_for_this_contract', 'AmphoraComputeDriver.+dict'),
}


class WrongFormTest(unittest.TestCase):
    def test_it_is_one_failure_and_nothing_else_is_run(self):
        for driver, (behaviour, words) in WRONG_FORMS.items():
            with self.subTest(driver.__name__):
                report = run_conformance(driver)
                self.assertEqual({behaviour}, report.of(BehaviourOutcome.FAILED))
                self.assertEqual(set(KIT) - {behaviour}, report.of(BehaviourOutcome.NOT_RUN))
                self.assertRegex(report.results[0].reason, SHAPE)
                self.assertRegex(report.results[0].reason, re.compile(words, re.DOTALL))
                self.assertFalse(report.ok)

    def test_the_summary_counts_what_was_not_run(self):
        report = run_conformance(CannotBeMade)
        others = len(KIT) - 1
        self.assertIn(f' 1 failed, {others} not run because of the failure, ', report.render())
        self.assertEqual(others, report.to_dict()['not_run'])
        # Those would fill screens, and have one reason.
        self.assertEqual(1, report.render().count('Read: '))

    def test_it_is_reported_even_if_other_behaviours_are_selected(self):
        report = run_conformance(RenamesAnArgument, select=['test_a_list_has_*'])
        outcomes = [one.outcome for one in report.results]
        self.assertEqual(['failed', *['not_run'] * 3], outcomes)

    def test_each_result_is_told_to_the_caller(self):
        told = []
        report = run_conformance(CannotBeMade, select=['deleting'], progress=told.append)
        self.assertEqual(list(report.results), told)

    def test_a_runner_of_tests_shows_one_failure_too(self):
        for driver, (_, words) in WRONG_FORMS.items():
            with self.subTest(driver.__name__):
                case = type(
                    'Case', (ComputeDriverConformance, unittest.TestCase), {'make_driver': driver}
                )
                tests = unittest.defaultTestLoader.loadTestsFromTestCase(case)
                result = unittest.TextTestRunner(io.StringIO()).run(tests)
                ((_, trace),) = result.failures
                self.assertRegex(trace, re.compile(words, re.DOTALL))
                self.assertEqual([], result.errors)
                self.assertEqual(result.testsRun - 1, len(result.skipped))
                self.assertIn('not run, because', result.skipped[0][1])

    def test_a_driver_that_once_opened_is_judged_to_the_end(self):
        class Case(ComputeDriverConformance, unittest.TestCase):
            opened = 0

            def make_driver(self):
                Case.opened += 1
                if Case.opened == 2:
                    raise OSError('out of files')
                return MinimalDriver()

        tests = [Case('test_capabilities_are_plain_data') for _ in range(3)]
        result = unittest.TestResult()
        unittest.TestSuite(tests).run(result)
        self.assertEqual((1, 0), (len(result.failures), len(result.skipped)))

    def test_what_the_caller_got_wrong_is_raised(self):
        for error in (
            DriverNotFound('Cannot find it.'),
            ConfigurationError('Cannot use it.'),
            DriverLoadError('Cannot load it.', install='pip install it'),
        ):

            def make_driver(error=error):
                raise error

            with self.subTest(type(error)), self.assertRaises(type(error)):
                run_conformance(make_driver)

    def test_a_driver_that_cannot_be_loaded_is_a_failure(self):
        def make_driver():
            raise DriverLoadError('Cannot load it: it lacks _get.')

        report = run_conformance(make_driver)
        self.assertIn('it lacks _get', report.results[0].reason)

    def test_a_vendor_can_skip_the_tests_without_a_failure(self):
        class Case(ComputeDriverConformance, unittest.TestCase):
            def make_driver(self):
                self.skipTest('no backend here')

        result = unittest.TestResult()
        Case('test_capabilities_are_plain_data').run(result)
        self.assertEqual([], result.failures + result.errors)
        self.assertEqual('no backend here', result.skipped[0][1])


class Fails(MinimalDriver):
    """Fails in a line of its own, below the contract's code."""

    def _delete(self, amphora_id):
        raise KeyError(amphora_id)


class Never(MinimalDriver):
    """Never finishes a build."""

    def _status(self, amphora_id):
        status = super()._status(amphora_id)
        return type(status)(amphora_id=amphora_id, state=State.BUILDING)


class NeverRetries(NoopDriver):
    """Calls every conflict final."""

    def __init__(self):
        super().__init__(cloud=NoopCloud(clock=VirtualClock(), build_s=30))

    def perform(self, call, *args):
        try:
            return super().perform(call, *args)
        except InstanceStateConflict as exc:
            raise InstanceStateConflict(str(exc), amphora_id=exc.amphora_id) from exc


class Altering(NoopDriver):
    """Builds with other files than were requested."""

    change = None

    def _build(self, request):
        files = tuple(dataclasses.replace(one, **self.change) for one in request.files)
        return super()._build(dataclasses.replace(request, files=files))


class LosesModes(Altering):
    change = MappingProxyType({'mode': 0o644})


class LosesOwners(Altering):
    change = MappingProxyType({'owner': 'root'})


class FailureTest(unittest.TestCase):
    def test_a_conflict_that_is_not_retryable_names_the_fact_and_the_error(self):
        name = 'test_a_conflict_with_what_is_being_built_is_retryable'
        self.assertRegex(
            self.reason(NeverRetries, name),
            r'Expected: \w+\(\) raises an error with retryable=True\.\n'
            'Seen instead: InstanceStateConflict with retryable=False: Cannot ',
        )

    def test_the_part_of_a_file_that_is_lost_is_named(self):
        name = 'test_keys_files_and_user_data_reach_the_backend'
        reason = self.reason(LosesModes, name)
        self.assertIn("Seen instead: 'files', because of their mode: with 0644 they arr", reason)
        name = 'test_a_file_of_an_account_that_only_the_image_has_is_taken_or_refused'
        reason = self.reason(LosesOwners, name)
        self.assertIn("Seen instead: 'files', because of their owner: with root they arr", reason)

    def reason(self, driver, name, **options):
        (result,) = run_conformance(driver, select=[name], **options).results
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertRegex(result.reason, SHAPE)
        return result.reason

    def test_an_error_comes_with_the_line_of_the_driver(self):
        reason = self.reason(Fails, 'test_deleting_an_unknown_instance_is_a_success')
        self.assertIn(
            'Expected: deleting an unknown instance is a success, without an error.\n', reason
        )
        self.assertRegex(
            reason, r'KeyError.+raised at testing/test_teaching\.py, line \d+, in _del'
        )
        self.assertIn('\nRead: AmphoraComputeDriver.delete, ComputeHooks._delete.', reason)

    def test_a_runner_of_tests_has_the_same_words_as_a_note(self):
        class Case(ComputeDriverConformance, unittest.TestCase):
            make_driver = staticmethod(Fails)

        result = unittest.TestResult()
        Case('test_deleting_an_unknown_instance_is_a_success').run(result)
        ((_, trace),) = result.errors
        self.assertIn('\nExpected: deleting an unknown instance is a success, without an', trace)
        self.assertIn('\nRead: AmphoraComputeDriver.delete', trace)

    def test_each_behaviour_has_its_own_subject_to_read_in_a_class_of_all(self):
        class Case(ComputeDriverConformance, unittest.TestCase):
            make_driver = staticmethod(MinimalDriver)

        for name, place in (
            ('test_a_list_has_each_instance_once', 'AmphoraComputeDriver.list_amphorae'),
            ('test_suspending_again_is_a_success', 'AmphoraComputeDriver.suspend'),
        ):
            read = [one.__qualname__ for one in Case(name).read()]
            self.assertIn(place, read)

    def test_each_behaviour_has_something_to_read(self):
        for suite, _, name in behaviours():
            case = type('Case', (suite, unittest.TestCase), {})(name)
            self.assertTrue(case.read(), name)

    def test_a_promise_that_is_not_kept_is_given_up_after_half_a_minute(self):
        reason = self.reason(Never, 'test_a_new_instance_becomes_active', clock=VirtualClock())
        self.assertIn('Expected: within 30 s (timeout_s), amphora ', reason)
        self.assertIn('Seen instead: building.', reason)

    def test_a_backend_that_needs_longer_has_that_in_its_bench(self):
        patient = type('Patient', (Never,), {'bench': f'{__name__}:PatientBench'})
        name = 'test_a_new_instance_becomes_active'
        self.assertIn('within 90 s', self.reason(patient, name, clock=VirtualClock()))
        self.assertIn('within 7 s', self.reason(patient, name, clock=VirtualClock(), timeout_s=7))

    def test_a_call_must_return_as_soon_as_the_bench_has_it(self):
        class Slow(MinimalDriver):
            bench = f'{__name__}:PatientBench'

            def _build(self, request):
                clock.advance(20)
                return super()._build(request)

        clock = VirtualClock()
        name = 'test_a_build_returns_before_its_effect'
        reason = self.reason(Slow, name, clock=clock)
        self.assertIn('build returns within 15 s (soon_s)', reason)
        self.assertIn('it took 20.0 s', reason)

    def test_a_simulated_cloud_is_waited_for_as_long_as_it_takes(self):
        for options, seconds in (
            ({}, 10.0),
            ({'build_s': 40.0, 'jitter': 0.5}, 190.0),
            ({'reboot_s': 1e6}, 600.0),
        ):
            bench = NoopBench(NoopDriver(cloud=NoopCloud(**options)))
            self.assertEqual(seconds, bench.timeout_s)


class PatientBench(Bench):
    timeout_s = 90.0
    soon_s = 15.0


class GuideTest(unittest.TestCase):
    def test_it_has_all_that_a_bench_can_say(self):
        guide = GUIDE.read_text()
        for name in (*vars(Bench), *vars(Faults)):
            if not name.startswith('_'):
                self.assertIn(f'``{name}', guide)

    def test_it_has_the_seconds_of_a_bench(self):
        words = ' '.join(GUIDE.read_text().split())
        self.assertIn(f'{Bench.timeout_s:g} if the bench does not set it', words)
        self.assertIn(f'{Bench.soon_s:g} if the bench does not set it', words)
        self.assertIn(f'timeout_s = {10:.1f}', TEMPLATE.read_text())
        self.assertIn('10 as generated', words)
