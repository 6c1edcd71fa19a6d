"""A command driver with a program for the shell: requests, answers and secrets."""

import base64
import dataclasses
import json
import os
import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.answers import checked
from kiln.cluster_drivers.values import Loss, PlannedChange, Progress
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import OperationKind
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.command.cases import DONE, CommandCase
from tests.unit.cluster_drivers.command.folders import DESCRIBED, DRIVER


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
        self.ask(driver, 'update_cluster', rollback=True)
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

    def test_all_events_are_told_before_the_end(self):
        driver = self.driver(
            'create) for i in $(seq 450); do '
            'echo "{\\"type\\": \\"progress\\", \\"message\\": \\"n$i\\"}"; '
            f'done; {DONE} ;;'
        )
        self.create(driver)
        self.runs().latest().wait()
        told, report = [], None
        while report is None or report.progress is Progress.IN_PROGRESS:
            self.soon.clear()
            report = self.call(driver, 'update_cluster_status')
            told += report.events
            self.assertTrue(report.progress is Progress.COMPLETE or self.soon.is_set())
        self.assertEqual([f'n{i}' for i in range(1, 451)], told)

    def test_what_cannot_be_stored_is_nonsense_and_the_cluster_can_be_deleted(self):
        deep = '{"a": ' * 45 + '1' + '}' * 45
        for said in (
            '{"type": "state", "state": {"cpu": NaN}}',
            '{"type": "state", "state": {"cpu": 1e999}}',
            f'{{"type": "state", "state": {deep}}}',
            '{"type": "state", "handle": "a\\u0000b"}',
        ):
            with self.subTest(said), tempfile.TemporaryDirectory() as folder:
                self.root = pathlib.Path(folder)
                (self.root / 'said').write_text(said + '\n')
                driver = self.driver(f'create) cat "$AT/said"; {DONE} ;; delete) {DONE} ;;')
                self.create(driver)
                report = self.polled(driver)
                self.assertIs(Progress.FAILED, report.progress)
                self.assertIn('line 1 of its output', report.reason)
                checked('acme', 'update_cluster_status', report)
                self.ask(driver, 'delete_cluster')
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

    def test_the_changes_that_lose_nodes_are_losses(self):
        for lost, losses in (0, []), (1, ['n3 is removed']):
            with self.subTest(lost=lost), tempfile.TemporaryDirectory() as folder:
                self.root = pathlib.Path(folder)
                said = self.planned(
                    'plan) echo \'{"type": "result", "changes": ["n3 is removed", "n1 is new"], '
                    f'"lost": {lost}}}\' ;;'
                )
                self.assertEqual(['n3 is removed', 'n1 is new'], said)
                self.assertEqual(losses, [line for line in said if isinstance(line, Loss)])

    def test_a_number_of_losses_that_is_none_is_nonsense(self):
        for lost in '"1"', 'true', '-1', '2':
            with self.subTest(lost), tempfile.TemporaryDirectory() as folder:
                self.root = pathlib.Path(folder)
                with self.assertRaisesRegex(ClusterDriverError, 'understood: .*"lost"'):
                    self.planned(
                        'plan) echo \'{"type": "result", "changes": ["n3 is removed"], '
                        f'"lost": {lost}}}\' ;;'
                    )

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

    def test_a_secret_of_several_lines_is_masked_however_it_is_printed(self):
        lines = ['-----BEGIN KEY-----', 'hunter2hunter2', 'swordfish!']
        printed = json.dumps('\n'.join(lines))
        encoded = base64.b64encode('\n'.join(lines).encode()).decode()
        for said, ending in (
            (f'{{"type": "progress", "message": {printed}}}', 'exit 0'),
            (f'{{"type": "error", "message": {printed}}}', 'exit 1'),
            (f'no JSON: {printed}', 'exit 0'),
            (f'{{"type": "error", "message": "{encoded}"}}', 'exit 1'),
        ):
            with (
                self.subTest(said, ending=ending),
                tempfile.TemporaryDirectory() as folder,
            ):
                self.root = pathlib.Path(folder)
                self.secrets = samples.Secret('\n'.join(lines))
                (self.root / 'said').write_text(f'{said}\n')
                driver = self.driver(f'create) cat "$AT/said"; printf {printed} >&2; {ending} ;;')
                reports = [self.create(driver), self.polled(driver)]
                for line in lines:
                    self.assertNotIn(line, repr(reports))
                self.assertNotIn(encoded[:-4], repr(reports))
                self.assertIn('***', repr(reports))

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
