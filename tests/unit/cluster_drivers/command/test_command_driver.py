"""A command driver with a program for the shell: requests, answers and secrets."""

import dataclasses
import json
import os
import pathlib
import tempfile
import threading
import unittest

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.values import PlannedChange, Progress
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import OperationKind
from kiln.clusters.spec import MachineSpec
from kiln.programs.detached import Runs
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.command.folders import DESCRIBED, DRIVER, write_driver

DONE = """echo '{"type": "result"}'"""
CREDENTIALS = 'kit'


class CommandCase(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = VirtualClock()
        self.operation = None
        self.soon = threading.Event()
        self.addCleanup(self.end_all)

    def end_all(self):
        last = self.runs().latest() if hasattr(self, 'cluster') else None
        if last is not None:
            last.kill()

    def runs(self):
        return Runs(self.root / 'runs', self.cluster.id)

    def driver(self, cases, *, yaml=DRIVER, described=DESCRIBED, machine=None):
        """Open a driver with a program, and declare a cluster of it."""
        driver_class = load_directory(
            write_driver(self.root, cases, yaml=yaml, described=described)
        )
        driver = driver_class.open()
        driver.runs_in, driver.clock = self.root / 'runs', self.clock
        driver.variables = {'AT': str(self.root)}
        self.cluster = samples.cluster(driver_class, machine or MachineSpec(), 3)
        return driver

    def call(self, driver, method, **more):
        context = samples.context(
            credentials=CREDENTIALS, operation=self.operation, poll_soon=self.soon.set
        )
        report = getattr(driver, method)(context=context, cluster=self.cluster, **more)
        changes = {
            name: value
            for name in ('driver_handle', 'driver_state')
            if (value := getattr(report, name)) is not None
        }
        self.cluster = dataclasses.replace(self.cluster, **changes)
        return report

    def create(self, driver):
        return self.call(driver, 'create_cluster', cluster_create_timeout=60.0)

    def polled(self, driver):
        """Wait for the end of the run, and poll."""
        self.runs().latest().wait()
        return self.call(driver, 'update_cluster_status')


class Requests(CommandCase):
    def test_a_creation_is_begun_and_then_reported(self):
        driver = self.driver(
            'create) echo \'{"type": "progress", "message": "a machine is up"}\'; '
            'echo \'{"type": "state", "state": {"a": 1}, "handle": "stack-1"}\'; '
            'echo \'{"type": "result", "outputs": {"url": "http://a/"}}\' ;;'
        )
        self.assertIs(Progress.IN_PROGRESS, self.create(driver).progress)
        report = self.polled(driver)
        self.assertIs(Progress.COMPLETE, report.progress)
        self.assertEqual(('a machine is up',), report.events)
        self.assertEqual({'url': 'http://a/'}, report.outputs)
        self.assertEqual('stack-1', report.driver_handle)
        self.assertEqual({'a': 1}, report.driver_state['program'])

    def test_the_program_is_given_what_is_desired_and_its_state(self):
        driver = self.driver(
            f'create) cat >"$AT/given"; {DONE} ;; update) cat >"$AT/given"; {DONE} ;;'
        )
        self.create(driver)
        self.polled(driver)
        given = json.loads((self.root / 'given').read_text())
        self.assertEqual('kiln.command/1', given['api'])
        self.assertEqual(('create', 'create'), (given['verb'], given['kind']))
        (group,) = given['desired']['groups']
        self.assertEqual(('work', 3), (group['name'], group['count']))
        first = given['request_id']
        self.cluster = dataclasses.replace(self.cluster, generation=2)
        self.call(driver, 'update_cluster', rollback=True)
        self.polled(driver)
        given = json.loads((self.root / 'given').read_text())
        self.assertEqual('rollback', given['kind'])
        self.assertNotEqual(first, given['request_id'])

    def test_a_run_that_is_at_work_is_found_again_by_another_instance(self):
        driver = self.driver(f'create) echo x >>"$AT/calls"; read x <"$AT/go"; {DONE} ;;')
        os.mkfifo(self.root / 'go')
        before = self.cluster
        self.create(driver)
        # The answer is lost with the process.
        self.cluster = before
        self.create(driver)
        (self.root / 'go').write_text('\n')
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)
        self.assertEqual('x\n', (self.root / 'calls').read_text())

    def test_the_result_of_a_run_that_was_never_reported_counts(self):
        driver = self.driver(f'create) echo x >>"$AT/calls"; {DONE} ;;')
        before = self.cluster
        self.create(driver)
        self.runs().latest().wait()
        # The answer is lost with the process.
        self.cluster = before
        self.assertIs(Progress.COMPLETE, self.create(driver).progress)
        self.assertEqual('x\n', (self.root / 'calls').read_text())

    def test_a_request_that_failed_is_begun_again_when_it_is_retried(self):
        driver = self.driver(f'create) test -e "$AT/ready" && {{ {DONE}; exit 0; }}; exit 1 ;;')
        self.create(driver)
        self.assertIs(Progress.FAILED, self.polled(driver).progress)
        (self.root / 'ready').touch()
        self.create(driver)
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)

    def test_a_failure_has_the_words_of_the_program(self):
        driver = self.driver('create) echo "no quota" >&2; exit 3 ;;')
        self.create(driver)
        report = self.polled(driver)
        self.assertIs(Progress.FAILED, report.progress)
        self.assertEqual('Its program failed: it ended with status 3: no quota.', report.reason)

    def test_a_refusal_is_told_as_one(self):
        driver = self.driver(
            'create) echo \'{"type": "error", "message": "no such image"}\'; exit 65 ;;'
        )
        self.create(driver)
        self.assertEqual('Its program refuses: no such image.', self.polled(driver).reason)

    def test_nonsense_is_one_sentence(self):
        driver = self.driver('create) echo "All is well." ;;')
        self.create(driver)
        report = self.polled(driver)
        self.assertIs(Progress.FAILED, report.progress)
        self.assertIn("line 1 of its output is not JSON: 'All is well.'", report.reason)

    def test_later_is_called_again_once_it_is_time(self):
        driver = self.driver(
            'create) echo x >>"$AT/calls"; test -e "$AT/ready" || '
            '{ echo \'{"type": "result", "message": "it boots", "after_s": 30}\'; exit 75; }; '
            f'{DONE} ;;'
        )
        self.create(driver)
        report = self.polled(driver)
        self.assertEqual((Progress.IN_PROGRESS, 'it boots'), (report.progress, report.reason))
        (self.root / 'ready').touch()
        self.clock.advance(29)
        self.polled(driver)
        self.assertEqual('x\n', (self.root / 'calls').read_text())
        self.clock.advance(1)
        self.polled(driver)
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)

    def test_another_request_ends_the_run_of_the_first(self):
        driver = self.driver(f'create) while :; do sleep 60; done ;; delete) {DONE} ;;')
        self.create(driver)
        report = self.call(driver, 'delete_cluster')
        self.assertEqual('A former run of its program is ending.', report.reason)
        self.polled(driver)
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)

    def test_what_was_abandoned_is_cancelled_if_the_program_can(self):
        driver = self.driver(
            f'create) exit 75 ;; cancel) cat >"$AT/given"; {DONE} ;; delete) {DONE} ;;',
            described=DESCRIBED.replace('"create"', '"create", "cancel"'),
        )
        self.create(driver)
        created = self.cluster.driver_state['request']['id']
        self.polled(driver)
        self.call(driver, 'delete_cluster')
        self.polled(driver)
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)
        given = json.loads((self.root / 'given').read_text())
        self.assertEqual(('cancel', created), (given['verb'], given['request_id']))

    def test_a_run_of_another_host_is_left_alone_until_its_deadline(self):
        driver = self.driver(f'create) {DONE} ;;')
        self.create(driver)
        driver.runs_in = self.root / 'other'
        with self.assertRaises(ClusterDriverError) as caught:
            self.call(driver, 'update_cluster_status')
        self.assertTrue(caught.exception.retryable)
        self.clock.advance(121)
        self.assertIs(Progress.IN_PROGRESS, self.call(driver, 'update_cluster_status').progress)
        Runs(self.root / 'other', self.cluster.id).latest().wait()


class Cancelled(CommandCase):
    """Requests whose operation was cancelled, and what a check does about them."""

    STATUS = 'status) echo \'{"type": "result", "condition": "complete"}\' ;;'

    def begun(self, cases, **more):
        driver = self.driver(f'{cases} {self.STATUS}', **more)
        self.operation = 'deletion'
        self.call(driver, 'delete_cluster')
        return driver

    def checked(self, driver):
        self.operation = 'check'
        return self.call(driver, 'update_cluster_status')

    def test_a_run_at_work_is_ended_and_not_begun_again(self):
        driver = self.begun('delete) echo x >>"$AT/calls"; while :; do sleep 60; done ;;')
        report = self.checked(driver)
        self.assertEqual('A former run of its program is ending.', report.reason)
        self.runs().latest().wait()
        report = self.checked(driver)
        self.assertIs(Progress.COMPLETE, report.progress)
        self.assertIsNone(self.cluster.driver_state['request'])
        self.assertEqual(1, self.runs().latest().number)

    def test_what_was_to_be_repeated_is_not_repeated(self):
        driver = self.begun('delete) exit 75 ;;')
        self.runs().latest().wait()
        self.clock.advance(50)
        self.assertIs(Progress.COMPLETE, self.checked(driver).progress)
        self.assertEqual(1, self.runs().latest().number)

    def test_a_deletion_that_was_cancelled_begins_no_creation(self):
        driver = self.driver(f'create) while :; do sleep 60; done ;; {self.STATUS}')
        self.operation = 'creation'
        self.create(driver)
        self.operation = 'deletion'
        self.call(driver, 'delete_cluster')
        self.runs().latest().wait()
        self.assertIs(Progress.COMPLETE, self.checked(driver).progress)
        self.assertEqual(1, self.runs().latest().number)

    def test_the_program_cancels_it_if_it_can_even_after_the_deadline(self):
        driver = self.begun(
            f'delete) exit 75 ;; cancel) cat >"$AT/given"; {DONE} ;;',
            described=DESCRIBED.replace('"create"', '"create", "cancel"'),
        )
        deleted = self.cluster.driver_state['request']['id']
        self.runs().latest().wait()
        self.clock.advance(7200)
        self.assertIn('cancels', self.checked(driver).reason)
        self.runs().latest().wait()
        self.assertIs(Progress.COMPLETE, self.checked(driver).progress)
        given = json.loads((self.root / 'given').read_text())
        self.assertEqual(('cancel', deleted), (given['verb'], given['request_id']))
        self.assertGreater(given['deadline'], self.clock.time())

    def test_an_operation_that_is_retried_goes_on(self):
        os.mkfifo(self.root / 'go')
        driver = self.begun(f'delete) read x <"$AT/go"; {DONE} ;;')
        self.checked(driver)
        self.runs().latest().wait()
        self.operation = 'deletion'
        self.call(driver, 'delete_cluster')
        while self.runs().latest().number < 2:
            self.call(driver, 'update_cluster_status')
        (self.root / 'go').write_text('\n')
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)


class Noticed(CommandCase):
    def test_a_driver_asks_to_be_polled_as_soon_as_a_state_is_printed(self):
        driver = self.driver(
            'create) echo \'{"type": "state", "state": {"a": 1}}\'; '
            f'read x <"$AT/go"; {DONE} ;;'
        )
        os.mkfifo(self.root / 'go')
        report = self.create(driver)
        while not report.driver_state['program']:
            self.soon.wait()
            self.soon.clear()
            report = self.call(driver, 'update_cluster_status')
        self.assertEqual({'a': 1}, report.driver_state['program'])
        (self.root / 'go').write_text('\n')
        while report.progress is not Progress.COMPLETE:
            self.soon.wait()
            self.soon.clear()
            report = self.call(driver, 'update_cluster_status')


class Reports(CommandCase):
    def test_a_status_is_asked_of_the_program(self):
        for said, progress in (
            ('echo \'{"type": "result", "condition": "complete"}\'', Progress.COMPLETE),
            ('echo \'{"type": "result", "condition": "lost"}\'', Progress.FAILED),
            ('echo \'{"type": "result", "condition": "failed"}\'', Progress.FAILED),
            ('exit 75', Progress.UNKNOWN),
            ('exit 1', Progress.UNKNOWN),
        ):
            with self.subTest(said), tempfile.TemporaryDirectory() as folder:
                self.root = pathlib.Path(folder)
                driver = self.driver(f'status) {said} ;;')
                report = self.call(driver, 'update_cluster_status')
                self.assertIs(progress, report.progress)
                self.assertTrue(report.reason or progress is Progress.COMPLETE)

    def test_a_status_that_is_late_is_unknown(self):
        driver = self.driver('status) sleep 600 ;;')
        driver.short_s = 0.1
        self.assertEqual(0.1, driver.program.short_s)
        report = self.call(driver, 'update_cluster_status')
        self.assertIs(Progress.UNKNOWN, report.progress)
        self.assertIn('has not answered within 0.1 s', report.reason)

    def test_a_status_without_a_condition_is_one_sentence(self):
        driver = self.driver(f'status) {DONE} ;;')
        with self.assertRaisesRegex(ClusterDriverError, 'its result has no "condition"'):
            self.call(driver, 'update_cluster_status')


class Plans(CommandCase):
    PLANNING = DESCRIBED.replace('"create"', '"plan", "create"')

    def planned(self, cases, *, described=PLANNING, named=()):
        driver = self.driver(cases, described=described)
        plan = PlannedChange(kind=OperationKind.RESIZE, named=named)
        return driver.preview_cluster(samples.context(), self.cluster, plan)

    def test_the_program_says_what_a_request_would_change(self):
        said = self.planned(
            'plan) cat >"$AT/asked"; echo \'{"type": "result", "changes": ["n3 is removed"]}\' ;;',
            named=('n3',),
        )
        self.assertEqual(['n3 is removed'], said)
        asked = json.loads((self.root / 'asked').read_text())
        self.assertEqual(('resize', {'nodes': ['n3']}), (asked['kind'], asked['remove']))
        self.assertIsNone(self.runs().latest(), 'a plan is not a run')

    def test_without_the_verb_the_plan_says_so(self):
        with self.assertRaisesRegex(ClusterDriverError, 'Its program has no verb "plan".'):
            self.planned('*) exit 1 ;;', described=DESCRIBED)

    def test_a_plan_that_fails_is_one_sentence_with_its_words(self):
        with self.assertRaisesRegex(ClusterDriverError, 'cannot plan cluster .*: no inventory'):
            self.planned('plan) echo \'{"type": "error", "message": "no inventory"}\'; exit 1 ;;')

    def test_nonsense_is_one_sentence(self):
        with self.assertRaisesRegex(ClusterDriverError, 'cannot be understood: .*"changes"'):
            self.planned(f'plan) {DONE} ;;')


class Secret(CommandCase):
    YAML = DRIVER + 'parameters:\n  password: {secret: true}\n'
    MACHINE = MachineSpec(parameters={'password': 'named'})

    def test_secrets_are_at_file_3_and_nowhere_else(self):
        driver = self.driver(
            f'create) cat >"$AT/document"; cat <&3 >"$AT/secrets"; env >"$AT/env"; {DONE} ;;',
            yaml=self.YAML, machine=self.MACHINE,
        )  # fmt: skip
        self.create(driver)
        self.polled(driver)
        given = json.loads((self.root / 'secrets').read_text())
        self.assertEqual(samples.SECRET, given['credentials'])
        self.assertEqual({'work': {'password': samples.SECRET}}, given['groups'])
        for name in 'document', 'env':
            self.assertNotIn(samples.SECRET, (self.root / name).read_text())
        self.assertNotIn('named', (self.root / 'document').read_text())

    def test_a_secret_that_a_program_prints_is_masked_wherever_it_is_shown(self):
        said = f'"{samples.SECRET}"'
        for ending in ('exit 0', 'exit 1'):
            with self.subTest(ending), tempfile.TemporaryDirectory() as folder:
                self.root = pathlib.Path(folder)
                driver = self.driver(
                    f"""create) echo '{{"type": "progress", "message": {said}}}'
                    echo '{{"type": "state", "state": {{"a": [{said}]}}, "handle": {said}}}'
                    echo '{{"type": "result", "message": {said}, "outputs": {{"b": {said}}}}}'
                    echo {said} >&2; {ending} ;;"""
                )
                reports = [self.create(driver), self.polled(driver)]
                self.assertNotIn(samples.SECRET, repr(reports))
                self.assertIn('***', repr(reports))


if __name__ == '__main__':
    unittest.main()
