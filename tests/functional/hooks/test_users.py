"""Executable hooks that run as another user; this suite needs root."""

import dataclasses
import os
import pathlib
import stat

from kiln.hooks.callers.executables import call_executable
from kiln.hooks.hook import Executable
from kiln.hooks.loading import load_hooks
from kiln.hooks.replies import Answer
from tests.functional.hooks.programs import ProgramCase, write_program

#: A user of every Debian, who is in no group but one.
USER = 'daemon'
PATIENCE_S = 300.0
#: Root is not allowed to remove the link without a capability of its own.
LEAVING = 'mkdir -m 0 closed; mkdir -m 1777 sticky; ln -s / sticky/link; pwd'
DOCUMENT = {'point': 'pre_create', 'invocation': 'key'}


class UserCase(ProgramCase):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.fail('needs root')
        # The folder of the programs is open; one of its files is not.
        self.folder.chmod(0o755)
        self.closed = self.folder / 'closed'
        self.closed.touch(0o600)

    def call(self, body, *args, timeout_s=PATIENCE_S, **more):
        program = write_program(self.folder / 'hooks/pre_create/10-one', body)
        program.chmod(0o755)
        (hook,) = load_hooks(directory=self.folder / 'hooks', user=USER)
        target = dataclasses.replace(hook.target, argv=(*hook.target.argv, *map(str, args)))
        return call_executable(target, DOCUMENT, timeout_s, **more)

    def said(self, body, *args):
        """Return what a program writes to its error output."""
        answer = self.call(f'{body} >&2; exit 1', *args)
        return answer.message.removeprefix('it ended with status 1: ')


class Rights(UserCase):
    def test_a_hook_has_the_user_and_the_groups_of_the_option_only(self):
        self.assertEqual(f'{USER} / {USER}', self.said('{ id -un; id -Gn; }'))
        self.assertEqual(
            '0000000000000000', self.said("sed -n 's/CapEff:\t//p' /proc/self/status")
        )

    def test_a_hook_cannot_read_what_only_kiln_can(self):
        self.assertIn('Permission denied', self.said('cat "$1"', self.closed))

    def test_a_hook_reads_its_input_and_writes_to_its_directory_and_outputs(self):
        body = (
            'grep -q pre_create /dev/stdin && touch "$HOME/mine" "$TMPDIR/mine" mine && '
            'echo \'{"status": "Success", "message": "all done"}\' >/dev/stdout'
        )
        self.assertEqual(Answer.ok('all done'), self.call(body))

    def test_the_directory_of_a_hook_is_closed_to_other_users(self):
        self.assertEqual(f'{USER} 700', self.said('stat -c "%U %a" .'))

    def test_a_program_that_the_user_cannot_run_is_a_failure(self):
        self.folder.chmod(0o700)
        self.assertIn('Permission denied', self.call('exit 0').message)


class Bounds(UserCase):
    def test_a_hook_of_another_user_is_killed_at_its_timeout(self):
        timeout_s, answer = 0.25, Answer.ok()
        while 'stuck' not in answer.message and timeout_s < PATIENCE_S:
            timeout_s *= 2
            answer = self.call('echo stuck >&2; sleep 600', timeout_s=timeout_s)
        self.assertIn('was killed: stuck', answer.message)

    def test_a_hook_of_another_user_is_killed_once_its_directory_is_too_large(self):
        body = (
            'mkdir -m 700 a; i=0; while :; do i=$((i+1)); head -c 500000 /dev/zero > a/$i; '
            'sleep 0.1; done'
        )
        answer = self.call(body, max_disk_mib=1)
        self.assertEqual('it wrote more than 1 MiB and was killed', answer.message)

    def test_what_a_hook_of_another_user_leaves_is_removed(self):
        folder = pathlib.Path(self.said(LEAVING))
        self.assertTrue(folder.name.startswith('kiln-hook-'))
        self.assertFalse(folder.exists())


class Owners(UserCase):
    def test_a_program_of_the_user_is_refused_because_it_could_change_itself(self):
        program = write_program(self.folder / 'hooks/pre_create/10-one', 'exit 0')
        os.chown(program, 1, 1)
        with self.assertRaisesRegex(Exception, 'belongs to another user'):
            load_hooks(directory=self.folder / 'hooks', user=USER)

    def test_without_the_option_a_hook_runs_as_kiln(self):
        program = write_program(self.folder / 'hooks/pre_create/10-one', 'id -u >&2; exit 1')
        self.assertEqual(0o744, stat.S_IMODE(program.stat().st_mode))
        answer = call_executable(Executable((str(program),)), DOCUMENT, PATIENCE_S)
        self.assertEqual('it ended with status 1: 0', answer.message)
