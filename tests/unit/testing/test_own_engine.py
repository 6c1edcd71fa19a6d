"""What the kit for engines of a driver's own stands on; the kit itself is tried on a zoo."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.exceptions import DriverLoadError
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import (
    EngineBench,
    OwnEngineConformance,
    find_driver,
    run_cluster_conformance,
)
from kiln.testing.clusters.engine_bench import engine_bench_of
from kiln.testing.clusters.simulation.own_engine_calls import (
    Waited,
    promptly,
    starved_s,
    without_sleep,
)
from kiln.testing.report import BehaviourOutcome, BehaviourResult, ConformanceReport
from kiln.testing.runner import show
from tests.kit.own_engine_stack import Right, StackBench, StackEngine
from tests.unit.cli.cluster.driver_shell import STACK, write_driver
from tests.unit.foreign_driver import Foreign

BENCH = """\
from kiln.testing.clusters import EngineBench


class StackBench(EngineBench):
    takes_s = 7.0
"""


class Benches(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def driver(self, bench):
        """Return a driver in a folder that names a bench."""
        named = f"provides = [('*', '*', 'stack')]\n    bench = {bench!r}"
        source = STACK.replace("provides = [('*', '*', 'stack')]", named)
        (self.folder / 'stack_v1').mkdir()
        (self.folder / 'stack_v1' / 'bench.py').write_text(BENCH)
        write_driver(self.folder / 'stack_v1', source)
        return find_driver(str(self.folder / 'stack_v1'))

    def test_a_bench_beside_a_driver_is_found_by_its_relative_name(self):
        bench_class = engine_bench_of(self.driver('.bench:StackBench'))
        self.assertEqual(('StackBench', 7.0), (bench_class.__name__, bench_class.takes_s))

    def test_a_bench_is_found_by_its_full_name(self):
        self.assertIs(StackBench, engine_bench_of(Right))

    def test_a_bench_that_does_not_exist_is_refused_by_name(self):
        with self.assertRaisesRegex(DriverLoadError, r"Cannot load bench '\.bench:Stuck'"):
            engine_bench_of(self.driver('.bench:Stuck'))

    def test_a_class_of_another_kind_is_not_a_bench(self):
        with self.assertRaisesRegex(DriverLoadError, 'not a subclass of EngineBench'):
            engine_bench_of(self.driver('pathlib:Path'))

    def test_without_a_bench_the_driver_is_opened_as_it_is(self):
        bench = engine_bench_of(Foreign)(Foreign, self.folder, VirtualClock())
        self.assertIs(Foreign, type(bench.open()))

    def test_what_a_bench_lacks_cannot_be_shown(self):
        bench = EngineBench(Foreign, self.folder, VirtualClock())
        for lacking in (
            lambda: bench.nodes(None),
            bench.resources,
            lambda: bench.fail('x'),
            bench.go_away,
            bench.come_back,
            lambda: bench.lose(None),
        ):
            with self.assertRaisesRegex(CannotBeShown, 'is not among what the bench'):
                lacking()


class Calls(unittest.TestCase):
    def test_a_call_that_sleeps_is_ended_without_the_time(self):
        started = time.monotonic()
        with without_sleep(), self.assertRaisesRegex(Waited, r'look sleeps \(3600 s'):
            promptly(lambda: time.sleep(3600), 60.0, 'look')
        self.assertLess(time.monotonic() - started, 60)

    def test_many_short_sleeps_are_a_wait_too(self):
        def call():
            while True:
                time.sleep(0.01)

        with without_sleep(), self.assertRaises(Waited):
            promptly(call, 60.0, 'look')

    def test_a_moment_of_sleep_is_allowed(self):
        with without_sleep():
            self.assertIsNone(promptly(lambda: time.sleep(0.1), 60.0, 'look'))

    def test_a_call_that_hangs_is_ended(self):
        ends = threading.Event()
        self.addCleanup(ends.set)
        with self.assertRaisesRegex(Waited, 'look has not returned within 0.05 s'):
            promptly(ends.wait, 0.05, 'look')

    def test_time_without_a_processor_does_not_count(self):
        processor = {min(os.sched_getaffinity(0))}
        spin = f'import os\nos.sched_setaffinity(0, {processor})\nwhile True: pass'
        other = subprocess.Popen([sys.executable, '-c', spin])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        seen = []

        def work():
            os.sched_setaffinity(0, processor)
            while starved_s(threading.current_thread()) < 0.02:
                pass
            seen.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual([True], seen)
        # Python's thread ends before the system's does.
        while pathlib.Path(f'/proc/self/task/{thread.native_id}').exists():
            pass
        self.assertEqual(0.0, starved_s(thread), 'it has ended')

    def test_the_error_of_a_call_reaches_its_caller(self):
        with self.assertRaises(ZeroDivisionError):
            promptly(lambda: 1 / 0, 60.0, 'look')


def results(subject, **counts):
    return tuple(
        BehaviourResult(
            name=f'test_{outcome}_{number}', sentence='', subject=subject,
            outcome=BehaviourOutcome(outcome), reason='Cannot be shown here: no bench.'
        )
        for outcome, count in counts.items()
        for number in range(count)
    )  # fmt: skip


class Verdicts(unittest.TestCase):
    def report(self, *results, **more):
        return ConformanceReport(driver='stack_v1', results=results, **more)

    def test_a_run_that_shows_less_than_half_is_not_a_pass(self):
        report = self.report(*results('Life', passed=14, not_shown=30))
        self.assertFalse(report.ok)
        self.assertEqual('not_shown', report.to_dict()['verdict'])
        self.assertIn('not a pass: of 44 behaviours of the driver, 30 were not', report.render())
        self.assertIn('   30  Cannot be shown here: no bench.', report.render())

    def test_a_run_that_shows_most_is_a_pass(self):
        report = self.report(*results('Life', passed=30, not_shown=14))
        self.assertEqual('passed', report.to_dict()['verdict'])
        self.assertTrue(report.ok)
        self.assertNotIn('not a pass', report.render())

    def test_subjects_that_are_not_essential_do_not_make_a_pass(self):
        shown = results('Declaration', passed=30)
        report = self.report(
            *shown, *results('Life', passed=2, not_shown=3), essential=frozenset({'Life'})
        )
        self.assertEqual('not_shown', report.verdict.value)
        self.assertIn("of 5 behaviours of the driver's own engine, 3 were not", report.render())

    def test_a_failure_is_a_failure_however_little_is_shown(self):
        report = self.report(*results('Life', failed=1, not_shown=30))
        self.assertEqual('failed', report.verdict.value)

    def test_a_run_without_any_behaviour_is_not_a_pass(self):
        self.assertEqual('not_shown', self.report().verdict.value)

    def test_the_advice_is_given_only_where_something_is_not_shown(self):
        for not_shown in (0, 1):
            report = self.report(
                *results('Life', passed=5, not_shown=not_shown), advice='Write a bench.'
            )
            self.assertEqual(not_shown, report.render().count('Write a bench.'))
            self.assertEqual('Write a bench.' * not_shown, report.to_dict()['advice'])


class Unattended(Right):
    """Finds its engine by itself."""

    bench = None
    engine = None

    @classmethod
    def open(cls, *, overrides=None):
        driver = super().open(overrides=overrides)
        driver.engine = cls.found
        return driver

    def started(self, cluster, **state):
        # An engine on a clock of its own, which is fast.
        self.engine.work(3600)
        return super().started(cluster, **state)


class SharedBench(StackBench):
    """Opens the driver on one engine for all behaviours, which others use, too."""

    @property
    def engine(self):
        return Shared.found


class Shared(Right):
    bench = f'{__name__}:SharedBench'


class Swept(unittest.TestCase):
    def engine(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        return StackEngine(folder / 'engine.json')

    def test_what_others_have_in_the_engine_of_a_bench_is_not_counted_and_nothing_is_left(self):
        Shared.found = self.engine()
        Shared.found.want('of-others', {}, owner='others')
        Shared.found.work(3600)
        with Shared.found.open() as content:
            before = content['stacks']
        report = run_cluster_conformance(
            f'{__name__}:Shared', select=['Life in an engine*', 'test_*creation_repeated*']
        )
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.FAILED), report.render())
        self.assertGreaterEqual(len(report.of(BehaviourOutcome.PASSED)), 10)
        with Shared.found.open() as content:
            self.assertEqual(before, content['stacks'])

    def test_nothing_is_left_in_an_engine_that_the_driver_finds_by_itself(self):
        Unattended.found = self.engine()
        report = run_cluster_conformance(
            f'{__name__}:Unattended', select=['Life in an engine*', 'test_two_clusters*']
        )
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.FAILED), report.render())
        with Unattended.found.open() as content:
            self.assertEqual({}, content['stacks'])


class Suites(unittest.TestCase):
    def test_a_driver_of_nodes_is_sent_to_the_other_suite(self):
        class Judged(OwnEngineConformance, unittest.TestCase):
            driver = 'nodes_v1'

        result = show(Judged('test_a_cluster_of_a_file_is_created'), 'Life')
        self.assertIn('Judge nodes_v1 by ClusterDriverConformance', result.reason)

    def test_a_class_of_an_author_can_name_the_bench(self):
        class Judged(OwnEngineConformance, unittest.TestCase):
            driver = f'{Right.__module__}:Right'
            bench_class = StackBench

        self.addCleanup(Judged.doClassCleanups)
        result = show(Judged('test_a_created_cluster_has_the_nodes_of_its_file'), 'Life')
        self.assertIs(BehaviourOutcome.PASSED, result.outcome, result.reason)
