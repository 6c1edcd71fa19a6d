"""Tests of ``kiln up`` and ``kiln plan``: plan, confirm, submit and follow."""

import io

from kiln.cli.cluster.cluster_file import read_page
from kiln.cli.exit_codes import ExitCode, UsageError
from tests.unit.cli.shell import Terminal
from tests.unit.cli.site_shell import SiteShell
from tests.unit.cluster_service.site import WEB

TWO = WEB + '---\n' + WEB.replace('cluster: web', 'cluster: shop')


class Plan(SiteShell):
    def test_the_plan_shows_changes_without_making_them(self):
        shown = self.ok('plan', str(self.path))
        self.assertIn('web: + cluster of driver nodes_v1', shown)
        self.assertIn('front: +2', shown)
        self.assertEqual([], self.json('cluster', 'list'))

    def test_003_9_the_table_counts_flavors_by_zone(self):
        table = self.ok('up', str(self.path), '--plan').split('\n\n')[1].splitlines()
        self.assertEqual(['work:', 'flavor', 'az1', 'az2', 'all'], table[0].split())
        self.assertEqual(['large', 'small', 'all'], [row.split()[0] for row in table[1:]])
        self.assertEqual(['2', '1', '3'], table[-1].split()[1:])

    def test_the_exit_code_reports_changes(self):
        asked = ('plan', str(self.path), '--detailed-exitcode')
        self.assertEqual(ExitCode.CHANGES, self.sh(*asked))
        self.up('--no-wait')
        self.ok('cluster', 'cancel', 'web')
        self.assertEqual(ExitCode.CHANGES, self.sh(*asked), 'its nodes are missing still')
        self.up()
        self.assertEqual(ExitCode.OK, self.sh(*asked))
        self.assertIn('web: nothing to do', self.out)

    def test_the_exit_code_reports_changes_only_of_plans(self):
        self.assertIn(
            '--plan', self.fails(ExitCode.USAGE, 'up', str(self.path), '--detailed-exitcode')
        )

    def test_the_plan_is_also_json(self):
        (said,) = self.json('plan', str(self.path))
        self.assertEqual(
            ('web', 'create', None),
            (said['plan']['cluster'], said['plan']['kind'], said['operation']),
        )

    def test_only_mistakes_are_reported_with_their_lines(self):
        self.page(
            'cluster: web\ncoe: nodes\nnodegroups:\n  - name: a\n    cout: 2\n  - count: -1\n'
        )
        lines = self.fails(ExitCode.USAGE, 'up', str(self.path)).splitlines()
        self.assertGreater(len(lines), 1)
        for line in lines:
            self.assertRegex(line, rf'^{self.path}:\d+:\d+: ')

    def test_a_refusal_of_the_backend_is_reported_with_its_line(self):
        self.page(WEB.replace('small: 2', 'huge: 2'))
        (line,) = self.fails(ExitCode.USAGE, 'up', str(self.path)).splitlines()
        self.assertRegex(line, rf'^{self.path}:8:\d+: nodegroups\[1\].flavors: .*huge')
        self.assertEqual([], self.json('cluster', 'list'))

    def test_all_clusters_of_a_file_are_planned_before_the_first_is_created(self):
        self.page(TWO.replace('az2: 1', 'moon: 1'))
        lines = self.fails(ExitCode.USAGE, 'up', str(self.path)).splitlines()
        self.assertEqual(2, len(lines), lines)
        self.assertEqual([], self.json('cluster', 'list'))

    def test_a_missing_file_is_named(self):
        self.assertIn('no.yaml', self.fails(ExitCode.USAGE, 'up', 'no.yaml'))


class Up(SiteShell):
    def test_a_file_becomes_a_cluster_and_a_repeat_changes_nothing(self):
        shown = self.up()
        self.assertRegex(shown, r'(?m)^\d\d:\d\d:\d\dZ web: web-front-\w+ is ready$')
        self.assertRegex(shown, r'Z web: create succeeded\nweb: addresses: [0-9., ]+\n\Z')
        self.assertEqual(5, len(self.nodes()))
        self.assertIn('web: nothing to do', self.up())

    def test_pain_20_each_event_has_exactly_one_line(self):
        lines = [line for line in self.up().splitlines() if 'Z web: ' in line]
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual(7, len(lines))

    def test_several_clusters_come_up_at_once(self):
        self.page(TWO)
        said = self.json('up', str(self.path))
        states = [one['operation']['state'] for one in said]
        self.assertEqual(['succeeded', 'succeeded'], states)
        self.assertEqual(['shop', 'web'], [one['name'] for one in self.json('cluster', 'list')])

    def test_templates_of_the_file_are_saved(self):
        body = WEB.replace('cluster: web', 'template: base')
        self.page(body + '---\ncluster: web\ntemplate: base\n')
        self.up('--no-wait')
        self.assertEqual(['base'], [one['name'] for one in self.json('template', 'list')])
        self.assertTrue(self.ok('template', 'show', 'base').startswith('template: base'))
        self.assertIn(
            'it is used by web', self.fails(ExitCode.CONFLICT, 'template', 'remove', 'base')
        )

    def test_a_repeated_up_continues_the_running_operation(self):
        self.up('--no-wait')
        self.assertIn('queued', self.ok('cluster', 'list'))
        self.assertIn('web: create succeeded\nweb: addresses: ', self.up())
        self.assertIn('create to the declared state is running already', self.err)

    def test_a_cluster_that_is_being_deleted_cannot_be_declared(self):
        self.up()
        self.ok('cluster', 'delete', 'web', '--yes', '--no-wait')
        for words in (('up', '--yes'), ('plan', '--detailed-exitcode'), ('up', '--plan')):
            with self.subTest(words):
                command, *options = words
                said = self.fails(ExitCode.CONFLICT, command, str(self.path), *options)
                self.assertIn("Cannot declare cluster 'web': it is being deleted", said)
        self.ok('cluster', 'cancel', 'web')
        self.up('--yes')
        self.assertEqual(5, len(self.nodes()))

    def test_finding_12_a_failure_is_reported_with_its_cause_and_exit_code(self):
        self.config.write_text(
            self.config.read_text() + '[compute:small]\ndriver = noop\nquota = 1\n'
        )
        self.page(
            WEB.replace('coe: nodes', 'coe: nodes\ncompute_driver: small').replace(
                '  - name: work\n    flavors: {small: 2, large: 1}\n    zones: {az1: 2, az2: 1}\n',
                '',
            )
        )
        said = self.fails(ExitCode.NO_ROOM, 'up', str(self.path), '--timeout', '0.5')
        self.assertIn('web: create failed: Cannot create cluster web by its deadline', said)
        self.assertRegex(said, '(?i)quota')
        self.assertRegex(self.out, r'(?m)^\S+Z web: .*(?i:quota)')
        why = self.ok('why', 'web')
        self.assertIn('because: ', why)
        self.assertIn('you: ', why)


class FromStdin(SiteShell):
    def piped(self, text, *argv):
        app = self.app(stdin=io.StringIO(text))
        return self.run_bare('--config-file', str(self.config), *argv, app=app)

    def test_a_file_can_come_from_standard_input(self):
        self.assertEqual(ExitCode.OK, self.piped(WEB, 'plan', '-'), self.err)
        self.assertIn('front: +2', self.out)
        self.assertEqual(ExitCode.OK, self.piped(WEB, 'up', '-'), self.err)
        self.assertEqual(5, len(self.nodes()))

    def test_a_file_from_standard_input_cannot_be_confirmed_on_a_terminal(self):
        self.up('--no-wait')
        self.ok('cluster', 'watch', 'web')
        smaller = WEB.replace('count: 2', 'count: 1')
        self.assertEqual(ExitCode.USAGE, self.piped(smaller, 'up', '-'))
        self.assertIn('Add --yes', self.err)

    def test_mistakes_in_standard_input_name_it(self):
        self.assertEqual(ExitCode.USAGE, self.piped('cluster: [', 'plan', '-'))
        self.assertIn('<stdin>:1:', self.err)

    def test_a_closed_standard_input_is_reported(self):
        with self.assertRaisesRegex(UsageError, 'it is closed'):
            read_page('-', None)


class Agreement(SiteShell):
    def setUp(self):
        super().setUp()
        self.up()
        self.page(WEB.replace('count: 2', 'count: 1'))

    def asked(self, answer):
        app = self.app(stdin=Terminal(answer), stderr=Terminal())
        return self.run_bare('--config-file', str(self.config), 'up', str(self.path), app=app)

    def test_nothing_is_removed_without_confirmation(self):
        said = self.fails(ExitCode.USAGE, 'up', str(self.path))
        self.assertIn('web loses 1 node.', said)
        self.assertEqual(5, len(self.nodes()))

    def test_nobody_is_asked_while_an_operation_is_under_way(self):
        """What it has half done is in the plan, as nodes that are too many."""
        self.ok('cluster', 'scale', 'web', 'front=3', '--no-wait')
        said = self.fails(ExitCode.CONFLICT, 'up', str(self.path))
        self.assertIn("Cannot update cluster 'web': its resize is queued", said)

    def test_an_answer_of_yes_confirms(self):
        self.assertEqual(ExitCode.OK, self.asked('y\n'), self.err)
        self.assertIn('Continue? [y/N]', self.err)
        self.assertEqual(4, len(self.nodes()))

    def test_any_other_answer_refuses(self):
        for answer in ('n\n', '\n', '', 'yep\n'):
            with self.subTest(answer):
                self.assertEqual(ExitCode.USAGE, self.asked(answer))
                self.assertIn('Nothing was done', self.err)

    def test_the_option_yes_confirms(self):
        self.up('--yes')
        self.assertEqual(4, len(self.nodes()))


class Impatient(io.StringIO):
    """A stream that raises KeyboardInterrupt after the first event."""

    def write(self, text):
        if 'has begun' in text:
            raise KeyboardInterrupt
        return super().write(text)


class Interrupted(SiteShell):
    def test_an_interrupted_command_prints_how_to_continue(self):
        app = self.app(stdout=Impatient())
        argv = ('--config-file', str(self.config), 'up', str(self.path))
        self.assertEqual(ExitCode.INTERRUPTED, self.run_bare(*argv, app=app))
        for command in ('kiln cluster watch web', 'kiln cluster cancel web'):
            self.assertIn(command, self.err)
        self.ok('cluster', 'watch', 'web')
        self.assertEqual(5, len(self.nodes()))


class Drawn(SiteShell):
    terminal = True

    def app(self):
        return super().app(stdin=io.StringIO(), stdout=Terminal())

    def test_a_terminal_gets_a_tree(self):
        shown = self.up()
        self.assertIn('├─', shown)
        self.assertIn('3 ready', shown)
        self.assertIn('succeeded', shown)
        self.assertIn('\033[32mfront: +2', shown)
