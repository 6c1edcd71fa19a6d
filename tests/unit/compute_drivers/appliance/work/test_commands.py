"""Commands: run without a shell, within a time-out, with their output kept."""

import os
import stat
import threading
import time

from kiln.compute_drivers.appliance.work.commands import Command
from kiln.compute_drivers.appliance.work.locks import take_lock
from tests.unit.compute_drivers.appliance.samples import PoolCase


def eventually(so):
    give_up = time.monotonic() + 120
    while not so():
        if time.monotonic() > give_up:
            raise AssertionError('the condition still does not hold')
        time.sleep(0.005)


class Running(PoolCase):
    def command(self, *argv, timeout_s=20.0, lock_fd=None, **environment):
        return Command(
            [str(one) for one in argv],
            environment,
            timeout_s=timeout_s,
            output=self.folder / 'output',
            folder=self.folder,
            lock_fd=lock_fd,
        )

    def sh(self, body, *more, **given):
        return self.command(self.program('run', body), *more, **given)

    def is_free(self):
        lock = take_lock(self.folder, 'm1')
        if lock is not None:
            lock.close()
        return lock is not None

    def test_status_0_is_a_success_and_its_output_is_kept(self):
        command = self.sh('echo done')
        self.assertEqual((True, 'done'), (command.run().ok, command.run().words))
        self.assertEqual('done\n', command.output())
        self.assertEqual(0o600, (self.folder / 'output').stat().st_mode & 0o777)

    def test_any_other_status_is_a_failure_with_its_last_output(self):
        ended = self.sh('echo one; echo; echo "two" >&2; exit 3').run()
        self.assertEqual((False, 'it ended with status 3: one; two'), (ended.ok, ended.words))
        self.assertEqual('it ended with status 4', self.sh('exit 4').run().words)

    def test_arguments_are_not_read_by_a_shell(self):
        self.assertEqual('$HOME; *', self.sh('printf %s "$1"', '$HOME; *').run().words)

    def test_a_command_gets_only_its_own_environment(self):
        os.environ['KILN_TEST_SECRET'] = 'x'
        self.addCleanup(os.environ.pop, 'KILN_TEST_SECRET')
        ended = self.sh('env', KILN_MACHINE='m1').run()
        names = {one.partition('=')[0] for one in ended.words.split('; ')}
        self.assertLessEqual({'KILN_MACHINE', 'PATH', 'HOME', 'LANG'}, names)
        self.assertNotIn('KILN_TEST_SECRET', names)

    def test_a_command_is_killed_at_its_timeout(self):
        started = time.monotonic()
        # A busy machine can need longer for its first output.
        for timeout_s in (0.5, 60.0):
            ended = self.sh('echo begun; exec sleep 600', timeout_s=timeout_s).run()
            if 'begun' in ended.words:
                break
        self.assertLess(time.monotonic() - started, 300)
        self.assertEqual(
            f'it had not ended within {timeout_s:g} s, and was killed: begun', ended.words
        )

    def test_a_command_killed_otherwise_is_reported_with_its_signal(self):
        ended = self.sh('kill -TERM $PPID; sleep 1').run()
        self.assertFalse(ended.ok)
        self.assertRegex(ended.words, r'^it ended with (signal|status) \d+')
        # As after a time-out, but long before it.
        ended = self.sh('kill -KILL $$').run()
        self.assertRegex(ended.words, r'^it ended with (signal|status) \d+')

    def test_processes_left_in_its_group_end_with_the_command(self):
        lock = take_lock(self.folder, 'm1')
        self.assertTrue(self.sh('sleep 60 &', lock_fd=lock.fileno()).run().ok)
        lock.close()
        eventually(self.is_free)

    def test_a_command_keeps_its_machine_locked_after_kiln_has_let_go(self):
        gate = self.folder / 'go'
        lock = take_lock(self.folder, 'm1')
        command = self.sh(
            f'echo begun; while ! test -e {gate}; do sleep 0.005; done', lock_fd=lock.fileno()
        )
        thread = threading.Thread(target=command.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(gate.touch)
        eventually(lambda: command.output() == 'begun\n')
        lock.close()
        self.assertFalse(self.is_free())
        gate.touch()
        eventually(self.is_free)

    def test_a_command_can_be_cancelled_from_another_thread(self):
        command = self.sh('echo begun; exec sleep 60')
        ended = []
        thread = threading.Thread(target=lambda: ended.append(command.run()))
        thread.start()
        eventually(lambda: command.output() == 'begun\n')
        command.cancel()
        thread.join(120)
        self.assertEqual((False, 'kiln ended it'), (ended[0].ok, ended[0].words))
        command.cancel()

    def test_a_command_cancelled_before_it_begins_never_runs(self):
        command = self.sh(f'touch {self.folder}/ran')
        command.cancel()
        self.assertEqual('kiln ended it', command.run().words)
        self.assertFalse((self.folder / 'ran').exists())

    def test_a_missing_program_is_a_failure_that_names_it(self):
        self.assertIn('/nowhere/wipe', self.command('/nowhere/wipe').run().words)

    def test_a_missing_folder_is_a_failure(self):
        command = Command(
            ['/bin/true'], {}, timeout_s=1, output=self.folder / 'no' / 'o', folder=self.folder
        )
        self.assertIn('it cannot be run: No such file', command.run().words)
        self.assertEqual('', command.output())

    def test_long_output_is_cut_to_its_end_and_its_summary_to_one_short_line(self):
        command = self.sh('yes 0123456789 | head -c 300000; echo the end; exit 1')
        words = command.run().words
        self.assertTrue(words.endswith('the end'))
        self.assertLess(len(words), 800)
        self.assertEqual(64 * 1024, (self.folder / 'output').stat().st_size)

    def test_passwords_are_masked_and_control_characters_removed(self):
        words = self.sh("printf 'password=hunter2 \\033[31mred'; exit 1").run().words
        self.assertNotIn('hunter2', words)
        self.assertTrue(words.isprintable())


class Locks(PoolCase):
    def test_a_machine_has_one_holder_at_a_time(self):
        one = take_lock(self.folder, 'm1')
        self.assertEqual(0o600, stat.S_IMODE((self.folder / 'm1.lock').stat().st_mode))
        self.assertIsNone(take_lock(self.folder, 'm1'))
        other = take_lock(self.folder, 'm2')
        self.assertIsNotNone(other)
        one.close()
        take_lock(self.folder, 'm1').close()
        other.close()
