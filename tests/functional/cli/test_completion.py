"""Tests of the completion scripts in real shells; only bash is always tested."""

import os
import shlex
import shutil
import subprocess
import sys

from tests.functional.real_time import RealTime
from tests.unit.cli.site_shell import SiteShell

#: Printed before each answer.
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
            # The unit tests cover the same code, and measuring coverage doubles the time.
            '#!/bin/sh\nunset COVERAGE_PROCESS_CONFIG COVERAGE_PROCESS_START\n'
            f'exec "{sys.executable}" -m kiln.cli "$@"\n'
        )
        self.kiln.chmod(0o755)

    def check(self, cases):
        """Check the completions of each line, all requested by one shell."""
        script = [f'source "{self.script}"', *(self.asking(line) for line in cases)]
        # The folder of kiln.conf.
        env = {**os.environ, 'HOME': str(self.folder)}
        env['PATH'] = f'{self.kiln.parent}:{os.environ["PATH"]}'
        done = subprocess.run(
            [self.program, *self.options, '-c', f'; echo "{_NEXT}"; '.join(script)],
            capture_output=True, text=True, check=False, env=env,
        )  # fmt: skip
        self.assertEqual('', done.stderr)
        _, *answers = done.stdout.split(f'{_NEXT}\n')
        for (line, expected), answer in zip(cases.items(), answers, strict=True):
            with self.subTest(line):
                self.assertEqual(expected, self.offered(answer))


class Answers:
    """Completions that every shell offers."""

    def test_words_options_and_names_are_completed(self):
        self.check(
            {
                'kiln cluster ret': {'retry'},
                'kiln cluster scale --ro': {'--rollback'},
                'kiln cluster events -f ': {'json', 'text'},
                'kiln cluster show ': {'web'},
                'kiln cluster scale w': {'web'},
                'kiln cluster scale --timeout 5 w': {'web'},
                'kiln cluster scale web f': {'front='},
                'kiln cluster upgrade web --group w': {'work'},
                'kiln --backend ': {'east'},
                f'kiln up {self.folder}/w': {f'{self.folder}/web.yaml'},
            }
        )


class Bash(Answers, ShellCase):
    shell = 'bash'

    def asking(self, line):
        return (
            f'COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; _python_argcomplete kiln; '
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )

    def offered(self, answer):
        return {one.strip() for one in answer.splitlines()} - {''}


class Zsh(Answers, ShellCase):
    shell = 'zsh'
    options = ('-f',)

    def asking(self, line):
        # Instead of the menu, which zsh shows only on a terminal.
        return (
            '_describe() { print -rl -- ${(P)2}; }; words=(kiln); '
            f'BUFFER={shlex.quote(line)}; CURSOR={len(line)}; _python_argcomplete'
        )

    def offered(self, answer):
        return {one.split(':')[0].strip() for one in answer.splitlines()} - {''}


class Fish(Answers, ShellCase):
    shell = 'fish'
    options = ('-N',)

    def asking(self, line):
        return f'complete -C {shlex.quote(line)}'

    def offered(self, answer):
        return {one.split('\t')[0].strip() for one in answer.splitlines()} - {''}
