"""Runs of a request: on other hosts, in place of others, late, and cancelled."""

import dataclasses
import json
import os
import unittest

from kiln.cluster_drivers.values import Progress
from kiln.clusters.exceptions import ClusterDriverError
from kiln.programs.detached import Runs
from tests.unit.cluster_drivers.command.cases import DONE, CommandCase
from tests.unit.cluster_drivers.command.folders import DESCRIBED


class OneAfterTheOther(CommandCase):
    def test_another_request_ends_the_run_of_the_first(self):
        driver = self.driver(f'create) while :; do sleep 60; done ;; delete) {DONE} ;;')
        self.create(driver)
        report = self.ask(driver, 'delete_cluster')
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
        self.ask(driver, 'delete_cluster')
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
        self.clock.advance(self.cluster.driver_state['over_at'] - self.clock.time())
        report = self.ask(driver, 'update_cluster_status')
        self.assertEqual('Its program is at work.', report.reason)
        Runs(self.root / 'other', self.cluster.id).latest().wait()
        report = self.call(driver, 'update_cluster_status')
        self.assertIs(Progress.COMPLETE, report.progress, 'it had the time that was asked for')

    def taken_over(self, operation, method, *, by=('other',)):
        """Leave a creation that another host began to each of some hosts, and end it there."""
        driver = self.driver(
            'create) exit 75 ;; status) echo \'{"type": "result", "condition": "complete"}\' ;; '
            f'cancel) cat >"$AT/given"; {DONE} ;; delete) {DONE} ;;',
            described=DESCRIBED.replace('"create"', '"create", "cancel"'),
        )
        self.operation = 'creation'
        self.create(driver)
        self.polled(driver)
        created = self.cluster.driver_state['request']['id']
        self.operation = operation
        for place in by:
            driver.runs_in = self.root / place
            self.clock.advance(7200)
            # Each host but the last is gone before it begins anything.
            self.call(driver, method)
            self.assertIsNone(Runs(driver.runs_in, self.cluster.id).latest())
        self.assertIn('cancels', self.ask(driver, 'update_cluster_status').reason)
        while Runs(driver.runs_in, self.cluster.id).latest():
            Runs(driver.runs_in, self.cluster.id).latest().wait()
            report = self.call(driver, 'update_cluster_status')
            if report.progress is not Progress.IN_PROGRESS:
                break
        self.assertIs(Progress.COMPLETE, report.progress)
        given = json.loads((self.root / 'given').read_text())
        self.assertEqual(('cancel', created), (given['verb'], given['request_id']))

    def test_what_another_host_began_is_cancelled_before_another_request(self):
        self.taken_over('deletion', 'delete_cluster')

    def test_what_the_host_before_the_last_began_is_cancelled_as_well(self):
        self.taken_over('deletion', 'delete_cluster', by=('other', 'third'))

    def test_what_another_host_began_is_cancelled_once_its_operation_is(self):
        self.taken_over('check', 'update_cluster_status')

    def test_nothing_is_begun_before_the_store_knows_where(self):
        driver = self.driver(f'create) {DONE} ;;')
        for place in 'runs', 'other':
            driver.runs_in = self.root / place
            # The answer is lost, and the next call is on another host.
            self.cluster = dataclasses.replace(self.cluster, driver_state={})
            self.soon.clear()
            report = self.call(driver, 'create_cluster', cluster_create_timeout=60.0)
            self.assertEqual('Its program is about to be called.', report.reason)
            self.assertIsNone(Runs(driver.runs_in, self.cluster.id).latest())
            self.assertTrue(self.soon.is_set())

    def test_a_host_that_takes_over_stores_that_before_it_begins(self):
        driver = self.driver(f'create) {DONE} ;;')
        self.create(driver)
        driver.runs_in = self.root / 'other'
        self.clock.advance(7200)
        report = self.call(driver, 'update_cluster_status')
        self.assertEqual('Its program is about to be called.', report.reason)
        self.assertIsNone(Runs(driver.runs_in, self.cluster.id).latest())

    def test_a_cancellation_is_waited_for_by_another_host_too(self):
        driver = self.driver(
            f'create) exit 75 ;; cancel) {DONE} ;; delete) {DONE} ;;',
            described=DESCRIBED.replace('"create"', '"create", "cancel"'),
        )
        self.create(driver)
        self.runs().latest().wait()
        self.clock.advance(59)
        self.assertIn('cancels', self.ask(driver, 'delete_cluster').reason)
        ends_at = Runs(self.root / 'runs', self.cluster.id).latest().facts['over_at']
        self.assertGreaterEqual(self.cluster.driver_state['over_at'], ends_at)
        self.runs().latest().wait()

    def test_a_request_whose_time_is_over_is_not_begun_again(self):
        driver = self.driver(
            'create) echo x >>"$AT/calls"; '
            'echo \'{"type": "result", "message": "it boots"}\'; exit 75 ;;'
        )
        self.create(driver)
        self.polled(driver)
        self.clock.advance(60)
        report = self.polled(driver)
        self.assertIs(Progress.FAILED, report.progress)
        self.assertEqual(
            'Its program was not done by its deadline; it said last: it boots.', report.reason
        )
        self.assertEqual('x\n', (self.root / 'calls').read_text())

    def test_a_run_that_is_at_work_long_after_its_end_is_ended(self):
        driver = self.driver('create) while :; do sleep 60; done ;;')
        self.create(driver)
        self.clock.advance(3600)
        report = self.call(driver, 'update_cluster_status')
        self.assertEqual('A former run of its program is ending.', report.reason)
        self.assertIs(Progress.FAILED, self.polled(driver).progress)

    def test_a_program_is_given_the_handle_that_it_printed_last(self):
        printed = 'echo \'{"type": "state", "state": {"a": 1}, "handle": "stack-1"}\''
        driver = self.driver(
            f'create) {printed}; kill -9 $PPID; kill -9 $$ ;; delete) cat >"$AT/given"; {DONE} ;;'
        )
        self.create(driver)
        self.runs().latest().wait()
        # Another request begins before anybody has seen what the first has printed.
        self.ask(driver, 'delete_cluster')
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)
        given = json.loads((self.root / 'given').read_text())
        self.assertEqual(({'a': 1}, 'stack-1'), (given['driver_state'], given['driver_handle']))

    def test_a_handle_outlives_a_run_that_was_never_reported(self):
        driver = self.driver(
            'create) test -e "$AT/again" && exit 75; touch "$AT/again"; '
            'echo \'{"type": "state", "handle": "stack-1"}\'; exit 75 ;;'
        )
        self.create(driver)
        self.runs().latest().wait()
        known = self.cluster
        self.call(driver, 'update_cluster_status')
        self.clock.advance(20)
        self.call(driver, 'update_cluster_status')
        # Both answers are lost with the process, and the second run has printed nothing.
        self.cluster = known
        self.assertEqual('stack-1', self.polled(driver).driver_handle)


class Cancelling(CommandCase):
    def begun(self, cancel):
        """Cancel a creation, for a deletion that waits for that."""
        driver = self.driver(
            f'create) exit 75 ;; cancel) echo x >>"$AT/cancels"; {cancel} ;; '
            f'delete) test ! -e "$AT/cancelling"; {DONE} ;;',
            described=DESCRIBED.replace('"create"', '"create", "cancel"'),
        )
        self.create(driver)
        self.polled(driver)
        self.ask(driver, 'delete_cluster')
        return driver

    def test_a_cancellation_that_says_later_is_called_again(self):
        driver = self.begun(f'test -e "$AT/ready" || exit 75; {DONE}')
        self.assertEqual('Its program says "later".', self.polled(driver).reason)
        (self.root / 'ready').touch()
        self.clock.advance(10)
        self.assertIn('cancels', self.polled(driver).reason)
        self.polled(driver)
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)
        self.assertEqual('x\nx\n', (self.root / 'cancels').read_text())

    def test_a_cancellation_that_was_killed_is_called_again(self):
        driver = self.begun(
            f'test -e "$AT/ready" || {{ touch "$AT/ready"; kill -9 $PPID; kill -9 $$; }}; {DONE}'
        )
        self.assertIn('cancels', self.polled(driver).reason)
        self.polled(driver)
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)
        self.assertEqual('x\nx\n', (self.root / 'cancels').read_text())


class Cancelled(CommandCase):
    """Requests whose operation was cancelled, and what a check does about them."""

    STATUS = 'status) echo \'{"type": "result", "condition": "complete"}\' ;;'

    def begun(self, cases, **more):
        driver = self.driver(f'{cases} {self.STATUS}', **more)
        self.operation = 'deletion'
        self.ask(driver, 'delete_cluster')
        return driver

    def checked(self, driver):
        self.operation = 'check'
        return self.ask(driver, 'update_cluster_status')

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
        self.ask(driver, 'delete_cluster')
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
        self.ask(driver, 'delete_cluster')
        while self.runs().latest().number < 2:
            self.call(driver, 'update_cluster_status')
        (self.root / 'go').write_text('\n')
        self.assertIs(Progress.COMPLETE, self.polled(driver).progress)


if __name__ == '__main__':
    unittest.main()
