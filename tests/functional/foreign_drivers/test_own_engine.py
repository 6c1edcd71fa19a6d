"""Clusters that an engine of a driver's own builds, from a file to the receipt."""

import json
import shutil

from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.cluster.driver_shell import STACK, DriverShell


class OwnEngine(DriverShell):
    def setUp(self):
        super().setUp()
        self.install(STACK)
        self.up()

    def set_stack(self, state):
        (self.folder / 'engine.json').write_text(
            json.dumps({self.json('cluster', 'show', 'web')['id']: state} if state else {})
        )

    def test_a_settled_cluster_is_ready_and_counts_no_nodes(self):
        (row,) = self.json('cluster', 'list')
        self.assertEqual(('ready', None), (row['state'], row['ready']))
        shown = self.json('cluster', 'show', 'web')
        self.assertEqual(['ready'], [one['kind'] for one in shown['conditions']])
        self.assertNotIn('0/3', self.ok('cluster', 'list'))

    def test_why_names_who_maintains_it(self):
        said = self.why()
        self.assertIn('ready, built by the engine of stack_v1', said)
        self.assertIn('its own engine maintains it', said)
        self.assertNotIn('replaces', said)
        self.assertIn('kiln cluster check web', said)

    def test_a_check_succeeds_if_the_driver_reports_that_all_is_complete(self):
        self.ok('cluster', 'check', 'web')

    def test_a_check_of_a_failed_engine_fails_with_its_reason(self):
        self.set_stack(None)
        said = self.fails(ExitCode.UNFORESEEN, 'cluster', 'check', 'web')
        self.assertIn('the stack is failed', said)
        self.assertIn('failed', self.json('cluster', 'show', 'web')['state'])
        self.assertIn('the stack is failed', self.why())

    def test_a_check_of_an_engine_that_cannot_be_reached_fails(self):
        self.set_stack('unknown')
        said = self.fails(ExitCode.UNAVAILABLE, 'cluster', 'check', 'web')
        self.assertIn('is unknown to its driver, stack_v1', said)

    def test_a_check_of_an_engine_at_work_waits_for_its_end(self):
        self.set_stack('in_progress')
        said = self.fails(ExitCode.UNAVAILABLE, 'cluster', 'check', 'web', '--timeout', '20')
        self.assertIn('the stack is in_progress', said)

    def test_a_driver_that_is_no_longer_there_is_told_by_why_and_show(self):
        shutil.rmtree(self.drivers)
        self.assertIn('web, its driver: cannot be used', self.why())
        self.assertIn('is not installed', self.why())
        shown = self.json('cluster', 'show', 'web')
        self.assertEqual(['ready', 'blocked'], [one['kind'] for one in shown['conditions']])

    def test_a_node_is_removed_with_the_name_of_its_group(self):
        said = self.fails(ExitCode.CONFLICT, 'node', 'remove', 'web', 'web-work-1', '--yes')
        self.assertIn("'kiln cluster scale web GROUP=COUNT --remove NODE'", said)

    def test_the_receipt_names_what_the_driver_confirmed(self):
        self.ok('cluster', 'delete', 'web', '--yes')
        said = self.ok('cluster', 'receipt', 'web')
        self.assertIn('handle stack of web of stack_v1: its driver reported', said)
        self.assertIn('1 confirmed gone, 0 abandoned', said)
        (gone,) = self.json('cluster', 'receipt', 'web')['gone']
        self.assertEqual('driver', gone['confirmed_by'])


class Resizing(DriverShell):
    def setUp(self):
        super().setUp()
        self.install(
            STACK,
            """
            def resize_cluster(
                self, context, cluster, *, nodegroup, node_count, nodes_to_remove=()
            ):
                self.write(cluster, 'failed' if 'n-1' in nodes_to_remove else 'complete')
                return StatusReport(progress=Progress.IN_PROGRESS)
            """,
        )
        self.up()

    def test_a_named_node_is_replaced_although_the_count_stays(self):
        self.assertIn('nothing to do', self.ok('cluster', 'scale', 'web', 'work=2', '--yes'))
        # This engine fails at the node, so it was asked.
        said = self.fails(
            ExitCode.UNFORESEEN, 'cluster', 'scale', 'web', 'work=2', '--remove', 'n-1', '--yes'
        )
        self.assertIn('the stack is failed', said)


class WithoutHandle(DriverShell):
    def setUp(self):
        super().setUp()
        self.install(STACK.replace(', driver_handle=handle', ''))
        self.up()

    def test_a_driver_that_returns_no_handle_is_first_class_too(self):
        (row,) = self.json('cluster', 'list')
        self.assertEqual(('ready', None), (row['state'], row['ready']))
        cluster_id = row['id']
        self.ok('cluster', 'delete', 'web', '--yes')
        said = self.ok('cluster', 'receipt', 'web')
        self.assertIn(f'cluster {cluster_id} of stack_v1: its driver reported', said)


class WrongAnswers(DriverShell):
    def test_an_answer_that_the_contract_does_not_allow_is_refused_by_name(self):
        self.install(
            STACK,
            """
            def create_cluster(self, context, cluster, cluster_create_timeout):
                return StatusReport(driver_state={'at': {1, 2}})
            """,
        )
        said = self.fails(ExitCode.UNFORESEEN, 'up', str(self.path))
        self.assertIn(
            'Cluster driver stack_v1 returned a wrong answer from create_cluster: its '
            'driver_state.at is of type set, which JSON does not have.',
            said,
        )

    def test_a_wrong_progress_report_is_shown_while_the_engine_is_polled(self):
        self.install(
            STACK,
            """
            def update_cluster_status(self, context, cluster):
                return 'complete'
            """,
        )
        said = self.fails(ExitCode.UNAVAILABLE, 'up', str(self.path), '--timeout', '30')
        self.assertIn('stack_v1 returned a wrong answer from update_cluster_status', said)


class Judged(DriverShell):
    def setUp(self):
        super().setUp()
        self.install(STACK)

    def judged(self, status, *argv):
        path = str(self.drivers / 'stack_v1')
        self.fails(status, 'driver', 'test', path, *argv)
        return self.out

    def test_a_driver_of_which_most_is_not_shown_does_not_pass(self):
        said = self.judged(ExitCode.PARTIAL, '--select', 'What was asked*')
        self.assertIn('This is not a pass: of ', said)
        self.assertIn('nodes() is not among what the bench of the driver offers', said)
        self.assertIn('write a bench for the driver', said)

    def test_the_verdict_is_in_the_json_beside_what_was_there_before(self):
        said = self.judged(ExitCode.PARTIAL, '--select', 'Leavings', '-f', 'json')
        report = json.loads(said)
        self.assertEqual(('not_shown', False), (report['verdict'], report['ok']))
        self.assertEqual((0, 4), (report['passed'], report['not_shown']))

    def test_only_behaviours_of_its_kind_are_listed(self):
        said = self.ok('driver', 'test', str(self.drivers / 'stack_v1'), '--select', 'Answers')
        self.assertIn('ok   a valid cluster has no problems', said)
        self.assertNotIn('bootstrap', said)
