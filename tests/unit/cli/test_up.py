"""From a page to clusters: planned, agreed to, entered, followed."""

import io

from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.cli.pages import read_page
from tests.unit.cli.shell import Terminal
from tests.unit.cli.site import SiteShell
from tests.unit.clusters.site import WEB

TWO = WEB + '---\n' + WEB.replace('cluster: web', 'cluster: shop')


class Plan(SiteShell):
    def test_the_plan_shows_what_would_happen_and_nothing_does(self):
        shown = self.ok('plan', str(self.path))
        self.assertIn('web: + cluster of driver nodes_v1', shown)
        self.assertIn('front: +2', shown)
        self.assertEqual([], self.json('cluster', 'list'))

    def test_003_9_the_table_says_how_many_of_a_flavor_are_in_a_zone(self):
        table = self.ok('up', str(self.path), '--plan').split('\n\n')[1].splitlines()
        self.assertEqual(['work:', 'flavor', 'az1', 'az2', 'all'], table[0].split())
        self.assertEqual(['large', 'small', 'all'], [row.split()[0] for row in table[1:]])
        self.assertEqual(['2', '1', '3'], table[-1].split()[1:])

    def test_whether_something_would_change_can_be_told_by_the_exit_code(self):
        asked = ('plan', str(self.path), '--detailed-exitcode')
        self.assertEqual(ExitCode.CHANGES, self.sh(*asked))
        self.up('--no-wait')
        self.ok('cluster', 'cancel', 'web')
        self.assertEqual(ExitCode.CHANGES, self.sh(*asked), 'its nodes are missing still')
        self.up()
        self.assertEqual(ExitCode.OK, self.sh(*asked))
        self.assertIn('web: nothing to do', self.out)

    def test_the_exit_code_tells_changes_of_plans_alone(self):
        self.assertIn(
            '--plan', self.fails(ExitCode.USAGE, 'up', str(self.path), '--detailed-exitcode')
        )

    def test_programs_are_told_the_plan_as_json(self):
        (said,) = self.json('plan', str(self.path))
        self.assertEqual(
            ('web', 'create', None),
            (said['plan']['cluster'], said['plan']['kind'], said['operation']),
        )

    def test_mistakes_are_told_with_their_lines_and_nothing_else(self):
        self.page(
            'cluster: web\ncoe: nodes\nnodegroups:\n  - name: a\n    cout: 2\n  - count: -1\n'
        )
        lines = self.fails(ExitCode.USAGE, 'up', str(self.path)).splitlines()
        self.assertGreater(len(lines), 1)
        for line in lines:
            self.assertRegex(line, rf'^{self.path}:\d+:\d+: ')

    def test_what_a_backend_refuses_is_told_with_its_line(self):
        self.page(WEB.replace('small: 2', 'huge: 2'))
        (line,) = self.fails(ExitCode.USAGE, 'up', str(self.path)).splitlines()
        self.assertRegex(line, rf'^{self.path}:8:\d+: nodegroups\[1\].flavors: .*huge')
        self.assertEqual([], self.json('cluster', 'list'))

    def test_all_clusters_of_a_file_are_planned_before_any_is_made(self):
        self.page(TWO.replace('az2: 1', 'moon: 1'))
        lines = self.fails(ExitCode.USAGE, 'up', str(self.path)).splitlines()
        self.assertEqual(2, len(lines), lines)
        self.assertEqual([], self.json('cluster', 'list'))

    def test_a_file_that_is_not_there_is_named(self):
        self.assertIn('no.yaml', self.fails(ExitCode.USAGE, 'up', 'no.yaml'))


class Up(SiteShell):
    def test_a_page_becomes_a_cluster_and_again_nothing(self):
        shown = self.up()
        self.assertRegex(shown, r'(?m)^\d\d:\d\d:\d\dZ web: web-front-\w+ is ready$')
        self.assertTrue(shown.endswith('web: create succeeded\n'))
        self.assertEqual(5, len(self.nodes()))
        self.assertIn('web: nothing to do', self.up())

    def test_pain_20_a_line_for_each_event_and_none_twice(self):
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
            'made from it is web', self.fails(ExitCode.CONFLICT, 'template', 'remove', 'base')
        )

    def test_up_again_goes_on_with_what_is_under_way(self):
        self.up('--no-wait')
        self.assertIn('queued', self.ok('cluster', 'list'))
        self.assertTrue(self.up().endswith('web: create succeeded\n'))
        self.assertIn('create to the declared state is running already', self.err)

    def test_finding_12_a_failure_is_told_with_its_cause_and_exit_code(self):
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

    def test_a_page_may_come_from_the_standard_input(self):
        self.assertEqual(ExitCode.OK, self.piped(WEB, 'plan', '-'), self.err)
        self.assertIn('front: +2', self.out)
        self.assertEqual(ExitCode.OK, self.piped(WEB, 'up', '-'), self.err)
        self.assertEqual(5, len(self.nodes()))

    def test_nobody_can_be_asked_who_has_sent_a_page(self):
        self.up('--no-wait')
        self.ok('cluster', 'watch', 'web')
        smaller = WEB.replace('count: 2', 'count: 1')
        self.assertEqual(ExitCode.USAGE, self.piped(smaller, 'up', '-'))
        self.assertIn('Add --yes', self.err)

    def test_mistakes_are_of_the_standard_input(self):
        self.assertEqual(ExitCode.USAGE, self.piped('cluster: [', 'plan', '-'))
        self.assertIn('<stdin>:1:', self.err)

    def test_one_that_is_closed_is_said_to_be(self):
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

    def test_nothing_is_removed_unasked(self):
        said = self.fails(ExitCode.USAGE, 'up', str(self.path))
        self.assertIn('web loses 1 node.', said)
        self.assertEqual(5, len(self.nodes()))

    def test_who_is_asked_may_agree(self):
        self.assertEqual(ExitCode.OK, self.asked('y\n'), self.err)
        self.assertIn('Continue? [y/N]', self.err)
        self.assertEqual(4, len(self.nodes()))

    def test_any_other_answer_is_no(self):
        for answer in ('n\n', '\n', '', 'yep\n'):
            with self.subTest(answer):
                self.assertEqual(ExitCode.USAGE, self.asked(answer))
                self.assertIn('Nothing was done', self.err)

    def test_yes_answers(self):
        self.up('--yes')
        self.assertEqual(4, len(self.nodes()))


class Impatient(io.StringIO):
    """Somebody who presses Ctrl-C as soon as something happens."""

    def write(self, text):
        if 'has begun' in text:
            raise KeyboardInterrupt
        return super().write(text)


class Interrupted(SiteShell):
    def test_who_goes_away_is_told_how_it_goes_on(self):
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
