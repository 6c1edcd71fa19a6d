"""The scripts for zsh and fish in the real shells; that for bash is tested everywhere."""

import os
import shutil
import subprocess
import sys

from tests.unit.cli.site import SiteShell


class ShellCase(SiteShell):
    shell = ''

    def setUp(self):
        super().setUp()
        self.program = shutil.which(self.shell)
        if self.program is None:
            raise AssertionError(f'{self.shell} is missing; install the package {self.shell}')
        self.script = self.folder / f'kiln.{self.shell}'
        self.script.write_text(self.ok('completion', self.shell))
        self.up('--no-wait')
        bin_ = self.folder / 'bin'
        bin_.mkdir()
        self.kiln = bin_ / 'kiln'
        self.kiln.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m kiln.cli --config-file "{self.config}" "$@"\n'
        )
        self.kiln.chmod(0o755)

    def ask(self, *argv):
        env = {**os.environ, 'PATH': f'{self.kiln.parent}:{os.environ["PATH"]}'}
        done = subprocess.run(
            [self.program, *argv], capture_output=True, text=True, check=False, env=env
        )
        self.assertEqual('', done.stderr)
        return {line.split('\t')[0] for line in done.stdout.split('\n') if line}


class Zsh(ShellCase):
    shell = 'zsh'

    def completed(self, *words):
        quoted = ' '.join(f"'{word}'" for word in words)
        # zsh itself leaves out what does not begin so.
        found = self.ask(
            '-f', '-c',
            f'source "{self.script}"; COMP_WORDS=(kiln {quoted}); COMP_CWORD={len(words)}; '
            f"compgen -F _kiln -- '{words[-1]}'",
        )  # fmt: skip
        return {word for word in found if word.startswith(words[-1])}

    def test_words_options_and_names_are_completed(self):
        for words, expected in (
            (['cluster', 'ret'], {'retry'}),
            (['cluster', 'scale', '--ro'], {'--rollback'}),
            (['cluster', 'events', '-f', ''], {'json', 'text'}),
            (['cluster', 'scale', 'w'], {'web'}),
            (['cluster', 'upgrade', 'web', '--group', 'w'], {'work'}),
        ):
            with self.subTest(words):
                self.assertEqual(expected, self.completed(*words))


class Fish(ShellCase):
    shell = 'fish'

    def completed(self, line):
        return self.ask('-N', '-c', f'source "{self.script}"; complete -C "{line}"')

    def test_words_options_and_names_are_completed(self):
        for line, expected in (
            ('kiln cluster ret', {'retry'}),
            ('kiln cluster scale --ro', {'--rollback'}),
            ('kiln cluster events -f ', {'json', 'text'}),
            ('kiln cluster scale w', {'web'}),
            ('kiln cluster scale --timeout 5 w', {'web'}),
            ('kiln cluster scale web f', {'front='}),
            ('kiln cluster upgrade web --group w', {'work'}),
            ('kiln --backend ', {'east'}),
        ):
            with self.subTest(line):
                self.assertEqual(expected, self.completed(line))
