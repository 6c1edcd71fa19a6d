"""What shells complete: words and options from the parsers, names from the store."""

import argparse
import os
import subprocess

from kiln.cli.command_tree import ANY, command_tree
from kiln.cli.exit_codes import ExitCode
from tests.unit.cli.shell import Shell
from tests.unit.cli.site import SiteShell


class Names(SiteShell):
    stored = False

    def names(self, kind, *of):
        return self.ok('completion', '--names', kind, *of).split()

    def test_names_come_from_the_store(self):
        for kind in ('cluster', 'template', 'group', 'node', 'size'):
            self.assertEqual([], self.names(kind))
        self.assertFalse((self.folder / 'state').exists(), 'no store is made for the question')
        self.up('--no-wait')
        self.assertEqual(['web'], self.names('cluster'))
        self.assertEqual(['front', 'work'], self.names('group', '--of', 'web'))
        self.assertEqual(['front=', 'work='], self.names('size', '--of', 'web'))
        self.assertEqual([], self.names('node', '--of', 'web'))
        self.assertEqual([], self.names('template'))

    def test_names_of_nodes_are_of_those_that_are_there(self):
        self.up()
        self.assertEqual(
            {row['name'] for row in self.nodes()}, set(self.names('node', '--of', 'web'))
        )

    def test_names_of_backends_are_those_that_are_configured(self):
        self.assertEqual(['east'], self.names('backend'))

    def test_what_is_not_there_has_no_names(self):
        self.up('--no-wait')
        self.fails(ExitCode.NOT_FOUND, 'completion', '--names', 'group', '--of', 'shop')


class Scripts(Shell):
    def test_each_shell_has_a_script_of_all_commands(self):
        for shell in ('bash', 'zsh', 'fish'):
            script = self.ok('completion', shell)
            for word in ('migrate-driver', '--remove', 'user-data', 'completion --names'):
                self.assertIn(word, script, shell)

    def test_one_is_to_be_named(self):
        self.assertIn('bash, zsh, fish', self.fails(ExitCode.USAGE, 'completion'))


class InBash(SiteShell):
    """The script at work; bash is where kiln is developed and tested."""

    def setUp(self):
        super().setUp()
        self.script = self.folder / 'kiln.bash'
        self.script.write_text(self.ok('completion', 'bash'))

    def completed(self, *lines):
        """Return for each line what one bash makes of its last word."""
        # It asks this process for names: with the real command, in tests/functional/cli.
        asked, ask = os.pipe()
        answered, answer = os.pipe()
        text = [
            f'kiln() {{ printf "%s\\n" "$*" >&{ask}; local name',
            f'while IFS= read -ru {answered} name; do [[ $name != . ]] || break; echo "$name"',
            'done; }',
            f'source "{self.script}"',
        ]
        for words in lines:
            quoted = ' '.join(f"'{word}'" for word in words)
            text += [
                f'COMP_WORDS=(kiln {quoted}); COMP_CWORD={len(words)}',
                '_kiln; echo "${COMPREPLY[@]}"',
            ]
        with (
            open(asked) as questions,
            open(answer, 'w') as answers,
            subprocess.Popen(
                ['bash', '-c', '\n'.join(text)], stdout=subprocess.PIPE, text=True,
                pass_fds=(ask, answered),
            ) as bash,
        ):  # fmt: skip
            os.close(ask)
            os.close(answered)
            for question in questions:
                answers.write(self.ok(*question.split()) + '.\n')
                answers.flush()
            said = bash.stdout.read()
        self.assertEqual(0, bash.returncode)
        return [line.split() for line in said.splitlines()]

    def test_commands_options_and_their_values(self):
        cases = {
            ('cl',): ['cluster'],
            ('cluster', 're'): ['reboot', 'rebuild', 'receipt', 'resume', 'retry'],
            ('--debug', 'cluster', 'ret'): ['retry'],
            ('cluster', 'scale', '--ro'): ['--rollback'],
            ('cluster', 'events', '-f', ''): ['json', 'text'],
            ('cluster', 'scale', '--timeout', ''): [],
            ('completion', 'z'): ['zsh'],
        }
        for words, found in zip(cases, self.completed(*cases), strict=True):
            with self.subTest(words):
                self.assertEqual(sorted(cases[words]), sorted(found))

    def test_names_are_those_of_the_moment(self):
        self.up('--no-wait')
        cases = {
            ('cluster', 'show', ''): ['web'],
            ('--backend', ''): ['east'],
            ('cluster', 'scale', 'web', 'f'): ['front='],
            ('cluster', 'upgrade', '--group', 'web'): ['web'],
            ('cluster', 'upgrade', 'web', '--group', 'w'): ['work'],
            ('cluster', 'show', 'web', ''): [],
        }
        for words, found in zip(cases, self.completed(*cases), strict=True):
            with self.subTest(words):
                self.assertEqual(cases[words], found)

    def test_files_are_completed_where_a_file_is_meant(self):
        (found,) = self.completed(('up', str(self.folder) + '/'))
        self.assertIn(str(self.path), found)


class Tree(Shell):
    def test_a_command_may_be_the_beginning_of_another(self):
        top, one = argparse.ArgumentParser(), argparse.ArgumentParser(description='Do it.')
        one.add_argument('thing', nargs='*')
        shapes = {shape.name: shape for shape in command_tree(top, {'do': one, 'do more': one})}
        self.assertEqual({'do': 'Do it.'}, dict(shapes[''].next))
        self.assertEqual({'more': 'Do it.'}, dict(shapes['do'].next))
        (place,) = shapes['do'].places
        self.assertEqual((ANY, True), (place.kind, place.repeated))
