"""The scripts in the real shells, with the real command; bash alone is tested everywhere."""

import os
import shutil
import subprocess
import sys

from tests.functional.real_time import RealTime
from tests.unit.cli.site import SiteShell

#: Stands before each answer.
_NEXT = '=== next'


class ShellCase(RealTime, SiteShell):
    shell = ''
    options = ()

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
            # What it covers the unit tests do; to count that doubles what it takes.
            '#!/bin/sh\nunset COVERAGE_PROCESS_CONFIG COVERAGE_PROCESS_START\n'
            f'exec "{sys.executable}" -m kiln.cli --config-file "{self.config}" "$@"\n'
        )
        self.kiln.chmod(0o755)

    def check(self, cases):
        """Check what is offered for each case, all asked of one shell."""
        script = [f'source "{self.script}"', *(self.asking(case) for case, _ in cases)]
        env = {**os.environ, 'PATH': f'{self.kiln.parent}:{os.environ["PATH"]}'}
        done = subprocess.run(
            [self.program, *self.options, '-c', f'; echo "{_NEXT}"; '.join(script)],
            capture_output=True, text=True, check=False, env=env,
        )  # fmt: skip
        self.assertEqual('', done.stderr)
        _, *answers = done.stdout.split(f'{_NEXT}\n')
        for (case, expected), answer in zip(cases, answers, strict=True):
            with self.subTest(case):
                self.assertEqual(expected, self.offered(case, answer))


class Bash(ShellCase):
    shell = 'bash'

    def asking(self, words):
        quoted = ' '.join(f"'{word}'" for word in words)
        return (
            f'COMP_WORDS=(kiln {quoted}); COMP_CWORD={len(words)}; _kiln; echo "${{COMPREPLY[@]}}"'
        )

    def offered(self, words, answer):
        return answer.split()

    def test_names_are_those_of_the_moment(self):
        self.check((
            (['cluster', 'show', ''], ['web']),
            (['--backend', ''], ['east']),
            (['cluster', 'upgrade', 'web', '--group', 'w'], ['work']),
        ))  # fmt: skip


class Zsh(ShellCase):
    shell = 'zsh'
    options = ('-f',)

    def asking(self, words):
        quoted = ' '.join(f"'{word}'" for word in words)
        return (
            f'COMP_WORDS=(kiln {quoted}); COMP_CWORD={len(words)}; '
            f"compgen -F _kiln -- '{words[-1]}'"
        )

    def offered(self, words, answer):
        # zsh itself leaves out what does not begin so.
        return {word for word in answer.splitlines() if word.startswith(words[-1])} - {''}

    def test_words_options_and_names_are_completed(self):
        self.check((
            (['cluster', 'ret'], {'retry'}),
            (['cluster', 'scale', '--ro'], {'--rollback'}),
            (['cluster', 'events', '-f', ''], {'json', 'text'}),
            (['cluster', 'scale', 'w'], {'web'}),
            (['cluster', 'upgrade', 'web', '--group', 'w'], {'work'}),
        ))  # fmt: skip


class Fish(ShellCase):
    shell = 'fish'
    options = ('-N',)

    def asking(self, line):
        return f'complete -C "{line}"'

    def offered(self, line, answer):
        return {line.split('\t')[0] for line in answer.splitlines()}

    def test_words_options_and_names_are_completed(self):
        self.check((
            ('kiln cluster ret', {'retry'}),
            ('kiln cluster scale --ro', {'--rollback'}),
            ('kiln cluster events -f ', {'json', 'text'}),
            ('kiln cluster scale w', {'web'}),
            ('kiln cluster scale --timeout 5 w', {'web'}),
            ('kiln cluster scale web f', {'front='}),
            ('kiln cluster upgrade web --group w', {'work'}),
            ('kiln --backend ', {'east'}),
        ))  # fmt: skip
