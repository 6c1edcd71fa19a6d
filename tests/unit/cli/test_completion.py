"""Tests of shell completion: words from the parsers, names from the store."""

import subprocess
import sys

from argcomplete import CompletionFinder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kiln.cli.commands import CommandTable
from kiln.cli.completion import parser_of_line
from kiln.cli.exit_codes import ExitCode
from tests.examples import examples
from tests.unit.cli.processes import ROOT
from tests.unit.cli.shell import Shell
from tests.unit.cli.site_shell import SiteShell
from tests.unit.cli.test_fuzz import COMMANDS, WORDS


class Completing(SiteShell):
    """Has ``completed``, which returns the completions of the last word of a line."""

    def completed(self, words):
        app = self.app()
        line = f'--config-file {self.config} {words}'
        finder = CompletionFinder(parser_of_line(app, line), always_complete_options=False)
        found = []
        while (whole := finder.rl_complete(line, len(found))) is not None:
            found.append(whole.split()[-1])
        return sorted(found)


class Words(Completing):
    def test_commands_options_and_their_values(self):
        cases = {
            'cl': ['cluster'],
            'cluster re': ['reboot', 'rebuild', 'receipt', 'resume', 'retry'],
            'cluster migrate': ['migrate-driver'],
            '--debug cluster ret': ['retry'],
            'cluster scale --re': ['--remove'],
            'cluster scale --ro': ['--rollback'],
            'compute build --user': ['--user-data'],
            'cluster events -f ': ['json', 'text'],
            'cluster scale --timeout ': [],
            'completion z': ['zsh'],
        }
        for words, found in cases.items():
            with self.subTest(words):
                self.assertEqual(found, self.completed(words))

    def test_every_command_is_completed(self):
        for name in CommandTable().commands:
            with self.subTest(name):
                self.assertIn(name.split()[-1], self.completed(name))

    def test_arguments_for_files_complete_files(self):
        self.assertIn(str(self.path), self.completed(f'up {self.folder}/'))

    def test_arguments_for_directories_complete_only_directories(self):
        found = self.completed(f'--config-dir {self.folder}/')
        self.assertEqual([f'{self.folder}/state/'], found)


class Names(Completing):
    stored = False

    def test_without_a_store_no_names_are_completed_and_no_store_is_created(self):
        for words in ('cluster show ', 'template show ', 'cluster upgrade web --group '):
            self.assertEqual([], self.completed(words))
        self.assertFalse((self.folder / 'state').exists())

    def up(self, *more):
        (self.folder / 'state').mkdir()
        return super().up(*more)

    def test_completed_names_are_current(self):
        self.up('--no-wait')
        cases = {
            'cluster show ': ['web'],
            '--backend ': ['east'],
            'cluster scale w': ['web'],
            'cluster scale web ': ['front=', 'work='],
            'cluster scale web f': ['front='],
            'cluster scale --timeout 5 w': ['web'],
            'cluster upgrade --group web': ['web'],
            'cluster upgrade web --group ': ['front', 'work'],
            'cluster upgrade web --group w': ['work'],
            'node show web ': [],
            'template show ': [],
            'cluster show web ': [],
        }
        for words, found in cases.items():
            with self.subTest(words):
                self.assertEqual(found, self.completed(words))

    def test_only_existing_nodes_are_completed(self):
        self.up()
        there = sorted(row['name'] for row in self.nodes())
        for words in (
            'node show web ',
            'node remove web ',
            f'node remove web {there[0]} ',
            'cluster reboot web ',
            'cluster scale web work=1 --remove ',
        ):
            with self.subTest(words):
                self.assertEqual(there, self.completed(words))

    def test_a_missing_cluster_has_no_names_to_complete(self):
        self.up('--no-wait')
        self.assertEqual([], self.completed('cluster upgrade shop --group '))


class AnyWords(Completing):
    def setUp(self):
        super().setUp()
        self.up('--no-wait')

    @settings(
        max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(command=st.sampled_from(COMMANDS), words=st.lists(WORDS, max_size=4))
    def test_no_words_cause_a_traceback(self, command, words):
        self.completed(' '.join([command, *words]))


class Scripts(Shell):
    def test_each_shell_has_a_script_for_kiln(self):
        for shell, sign in {
            'bash': '-F _python_argcomplete kiln',
            'zsh': 'compdef _python_argcomplete kiln',
            'fish': '--command kiln',
        }.items():
            with self.subTest(shell):
                self.assertIn(sign, self.ok('completion', shell))

    def test_the_script_for_zsh_works_on_fpath(self):
        self.assertEqual('#compdef kiln', self.ok('completion', 'zsh').splitlines()[0])

    def test_a_shell_must_be_named(self):
        self.assertIn('bash, zsh, fish', self.fails(ExitCode.USAGE, 'completion'))


class Processes(SiteShell):
    def test_bash_receives_completions(self):
        """For the other shells see tests/functional/cli."""
        self.up('--no-wait')
        script = self.folder / 'kiln.bash'
        script.write_text(self.ok('completion', 'bash'))
        text = f'kiln() {{ "{sys.executable}" -m kiln.cli; }}; source "{script}"\n'
        for words in ('cluster ret', f'--config-file {self.config} cluster scale web f'):
            text += (
                f'COMP_LINE="kiln {words}"; COMP_POINT=${{#COMP_LINE}}; '
                f'_python_argcomplete kiln; echo "${{COMPREPLY[@]}}"\n'
            )
        done = subprocess.run(
            ['bash', '-c', text], capture_output=True, text=True, check=False, cwd=ROOT
        )
        self.assertEqual(('', ['retry', 'front=']), (done.stderr, done.stdout.split()))

    def test_completion_does_not_import_what_builds_machines(self):
        code = (
            'import sys\n'
            'from kiln.cli.completion import parser_of_line\n'
            'from kiln.cli.app import KilnApp\n'
            'app = KilnApp()\n'
            'parser_of_line(app, " ".join(app.command_manager.commands))\n'
            'print(*sys.modules)'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        loaded = set(done.stdout.split())
        self.assertIn('kiln.cli.cluster.scale_upgrade_migrate_rollback', loaded)
        self.assertEqual(
            set(), loaded & {'kiln.compute.facade', 'pybreaker', 'redis', 'sqlalchemy'}
        )
