"""Runs that outlive the process that began them; real programs, and no pauses."""

import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from kiln.programs import supervisor
from kiln.programs.detached import Job, Run, Runs, RunState

#: Tells the test by a pipe that it has begun, and ends when it is told to.
BEGUN = 'echo begun >"$AT/begun"; '
#: Another process begins a run, and is killed before it can do anything else.
OTHER = """
import os, signal, sys
from kiln.programs.detached import Job, Runs
import pathlib
job = Job(argv=('/bin/sh', '-c', sys.argv[2]), document=b'', facts={}, seconds=60, most_bytes=999,
          variables={'AT': sys.argv[3]})
runs = Runs(pathlib.Path(sys.argv[1]), 'one')
with runs.locked():
    runs.start(job)
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Detached(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.root = self.folder / 'runs'
        self.runs = Runs(self.root, 'one')
        for name in 'begun', 'go':
            os.mkfifo(self.folder / name)
        self.addCleanup(self.end_all)

    def end_all(self):
        last = self.runs.latest()
        if last is not None and last.state is RunState.RUNNING:
            leader = last._supervisor()
            supervisor.send(signal.SIGKILL, [*last._orphans(), *([leader.pid] if leader else [])])

    def start(self, script, **more):
        given = {
            'argv': ('/bin/sh', '-c', script), 'document': b'{}', 'facts': {'label': 'a'},
            'seconds': 60.0, 'most_bytes': 10_000,
            'variables': {'AT': str(self.folder)}, 'grace_s': 30.0,
        }  # fmt: skip
        with self.runs.locked():
            return self.runs.start(Job(**given | more))

    def ended(self, script, **more):
        run = self.start(script, **more)
        run.wait()
        return run

    def wait_for_begin(self):
        """Wait until the program has written to the pipe."""
        return (self.folder / 'begun').read_text().strip()

    def go(self):
        (self.folder / 'go').write_text('go\n')

    # ---- what a program is given ---------------------------------------------------------

    def test_a_program_is_given_a_document_and_secrets_and_little_else(self):
        run = self.ended(
            'cat; cat <&3; echo; env; ls /proc/self/fd',
            document=b'{"a": 1}\n',
            secrets=b'{"s": 2}',
        )
        said = run.output(9999).decode().splitlines()
        self.assertEqual(['{"a": 1}', '{"s": 2}'], said[:2])
        names = {one.partition('=')[0] for one in said if '=' in one}
        expected = {'PATH', 'LANG', 'HOME', 'TMPDIR', 'AT', 'KILN_RUN', 'PWD'}
        self.assertEqual(expected, names - {'_', 'SHLVL', 'OLDPWD'})
        self.assertEqual(['0', '1', '2', '3'], [one for one in said if one.isdigit()][:4])

    def test_secrets_are_in_no_file(self):
        run = self.ended('cat <&3 >/dev/null; echo done', secrets=b'kept-apart')
        files = [one for one in self.root.rglob('*') if one.is_file()]
        self.assertEqual(b'done\n', run.output(99))
        self.assertEqual([], [one for one in files if b'kept-apart' in one.read_bytes()])
        self.assertEqual(0o700, run.folder.stat().st_mode & 0o777)

    def test_its_folder_for_work_is_gone_at_the_end(self):
        run = self.ended('pwd; echo x >file; test "$PWD" = "$HOME"')
        self.assertEqual(0, run.result['status'])
        self.assertFalse(pathlib.Path(run.output(999).decode().strip()).exists())

    # ---- how it ends -------------------------------------------------------------------------

    def test_the_result_has_the_status_of_the_program(self):
        for script, status in (('exit 0', 0), ('exit 75', 75), ('kill -9 $$', -9)):
            run = self.ended(script)
            self.assertIs(RunState.ENDED, run.state)
            self.assertEqual((status, ''), (run.result['status'], run.result['why']))

    def test_a_program_that_does_not_exist_has_a_result_as_well(self):
        run = self.ended('', argv=('/no/such/program',))
        self.assertNotEqual(0, run.result['status'])

    def test_a_run_is_at_work_until_its_program_has_ended(self):
        run = self.start(BEGUN + 'read x <"$AT/go"; echo "$x"')
        self.wait_for_begin()
        self.assertIs(RunState.RUNNING, run.state)
        self.go()
        run.wait()
        self.assertEqual((RunState.ENDED, b'go\n'), (run.state, run.output(99)))

    def test_a_program_that_is_late_is_ended(self):
        run = self.ended('while :; do sleep 60; done', seconds=0.0)
        self.assertEqual('deadline', run.result['why'])
        self.assertEqual(-signal.SIGTERM, run.result['status'])

    def test_a_program_that_prints_too_much_is_ended(self):
        run = self.ended('while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done')
        self.assertEqual('output', run.result['why'])
        self.assertEqual(11, len(run.output(10)))

    def test_a_program_is_stopped_politely(self):
        run = self.start(
            f'trap "echo polite; exit 3" TERM; {BEGUN} while :; do sleep 60 & wait; done'
        )
        self.wait_for_begin()
        run.stop()
        run.wait()
        self.assertEqual((3, 'stopped'), (run.result['status'], run.result['why']))
        self.assertEqual(b'polite\n', run.output(99))

    def test_a_run_that_is_stopped_before_its_supervisor_is_known_ends_as_well(self):
        run = self.start('while :; do sleep 60; done')
        # As a caller leaves it that finds no supervisor.
        (run.folder / 'stop').touch()
        run.wait()
        self.assertEqual('stopped', run.result['why'])

    def test_a_program_that_ignores_this_is_killed_with_all_that_it_started(self):
        run = self.start(
            f'trap "" TERM; setsid sleep 600 & env -i sleep 600 & {BEGUN}'
            'while :; do sleep 60; done',
            grace_s=0.0,
        )
        self.wait_for_begin()
        run.stop()
        run.wait()
        self.assertEqual(-signal.SIGKILL, run.result['status'])
        self.assertEqual([], run._orphans())

    def test_what_a_program_leaves_behind_is_ended_and_counted(self):
        run = self.ended('setsid sleep 600 & sleep 600 & exit 0')
        self.assertEqual((0, 2), (run.result['status'], run.result['left']))
        self.assertEqual([], run._orphans())

    def test_what_has_left_the_session_and_has_no_mark_is_ended_as_well(self):
        begun = self.folder / 'begun'
        run = self.start(
            f"env -i setsid /bin/sh -c 'echo $$ >{begun}; exec /bin/sleep 600' & "
            'read x <"$AT/go"; exit 0'
        )
        pid = int(self.wait_for_begin())
        self.addCleanup(supervisor.send, signal.SIGKILL, [pid])
        self.go()
        run.wait()
        self.assertIsNone(supervisor.process(pid))
        self.assertEqual((0, 1), (run.result['status'], run.result['left']))

    def test_why_a_program_cannot_be_started_is_among_its_errors(self):
        run = self.ended('', variables={'LARGE': 'x' * 1_000_000})
        self.assertEqual(127, run.result['status'])
        self.assertIn(b'Argument list too long', run.errors())

    # ---- other processes -------------------------------------------------------------------

    def test_a_run_outlives_the_process_that_began_it(self):
        script = BEGUN + 'read x <"$AT/go"; echo "$x"'
        done = subprocess.run(
            [sys.executable, '-c', OTHER, self.root, script, self.folder],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}, check=False,
        )  # fmt: skip
        self.assertEqual(-signal.SIGKILL, done.returncode)
        self.wait_for_begin()
        run = self.runs.latest()
        self.assertIs(RunState.RUNNING, run.state)
        self.go()
        run.wait()
        self.assertEqual((RunState.ENDED, b'go\n'), (run.state, run.output(99)))

    def test_a_run_is_lost_if_it_is_killed_with_its_supervisor(self):
        run = self.start(BEGUN + 'read x <"$AT/go"')
        self.wait_for_begin()
        handles = [os.pidfd_open(one) for one in run._orphans()]
        supervisor.send(signal.SIGKILL, [run._supervisor().pid])
        run.wait()
        self.assertIs(RunState.RUNNING, run.state, 'its program is still at work')
        run.stop()
        for handle in handles:
            select.select([handle], [], [])
            os.close(handle)
        self.assertIs(RunState.LOST, run.state)

    def lost(self):
        """Return a run that was killed with its supervisor after it wrote a secret."""
        run = self.start(f'echo secret >key; {BEGUN} read x <"$AT/go"')
        self.wait_for_begin()
        run.kill()
        run.wait()
        self.assertTrue((run.folder / 'work' / 'key').exists())
        return run

    def test_a_run_that_is_found_lost_leaves_no_files_of_its_program(self):
        run = self.lost()
        self.assertIs(RunState.LOST, run.state)
        self.assertFalse((run.folder / 'work').exists())

    def test_a_run_begins_without_files_of_programs_before(self):
        run = self.lost()
        self.ended('exit 0')
        self.assertFalse((run.folder / 'work').exists())

    def test_a_program_without_a_supervisor_keeps_its_files(self):
        run = self.start(f'{BEGUN} read x <"$AT/go"')
        self.wait_for_begin()
        handle = os.pidfd_open(run._supervisor().pid)
        supervisor.send(signal.SIGKILL, [run._supervisor().pid])
        select.select([handle], [], [])
        os.close(handle)
        self.assertIs(RunState.RUNNING, run.state)
        self.assertTrue((run.folder / 'work').exists())

    def test_a_program_without_a_supervisor_is_killed_by_a_later_call(self):
        run = self.start(f'trap "" TERM; {BEGUN} while :; do sleep 60; done', grace_s=-60.0)
        self.wait_for_begin()
        handle = os.pidfd_open(max(run._orphans()))
        supervisor.send(signal.SIGKILL, [run._supervisor().pid])
        run.wait()
        run.stop()
        self.assertIs(RunState.RUNNING, run.state)
        while run.state is RunState.RUNNING:
            run.stop()
        os.close(handle)
        self.assertIs(RunState.LOST, run.state)

    def test_a_clock_that_was_set_back_gives_such_a_program_no_more_time(self):
        run = self.start(f'trap "" TERM; {BEGUN} while :; do sleep 60; done', grace_s=600.0)
        self.wait_for_begin()
        supervisor.send(signal.SIGKILL, [run._supervisor().pid])
        run.wait()
        run.stop()
        later = time.time() + 3600
        os.utime(run.folder / 'stop', (later, later))
        while run.state is RunState.RUNNING:
            run.stop()
        self.assertIs(RunState.LOST, run.state)

    def test_a_run_has_no_processes_of_another_boot_or_container(self):
        stranger = subprocess.Popen(
            ['/bin/sh', '-c', 'sleep 600 & echo; wait'], start_new_session=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(stranger.wait)
        self.addCleanup(os.killpg, stranger.pid, signal.SIGKILL)
        self.addCleanup(stranger.stdout.close)
        stranger.stdout.readline()
        run = self.ended('exit 0')
        (run.folder / 'result.json').unlink()
        known = supervisor.process(stranger.pid)._asdict()
        for place, state in (
            ({}, RunState.RUNNING),
            ({'place': supervisor.place()}, RunState.RUNNING),
            ({'place': ['another boot', supervisor.place()[1]]}, RunState.LOST),
            ({'place': [supervisor.place()[0], 'another container']}, RunState.LOST),
        ):
            supervisor.write_json(run.folder / 'supervisor.json', {**known, **place})
            self.assertIs(state, run.state)
        run.stop()
        run.kill()
        self.assertIsNone(stranger.poll())

    def test_runs_are_numbered_and_old_ones_are_removed(self):
        for _ in range(8):
            run = self.ended('exit 0')
        self.assertEqual(8, run.number)
        self.assertIsInstance(self.runs.latest(), Run)
        self.assertEqual([3, 4, 5, 6, 7, 8], self.runs._numbers())
        with self.runs.locked():
            self.assertEqual(21, self.runs.start(_nothing(), above=20).number)
        self.runs.latest().wait()
        self.runs.forget()
        self.assertEqual([21], self.runs._numbers())

    def test_runs_of_others_are_removed_once_they_are_old(self):
        other = Runs(self.root, 'two')
        with other.locked():
            other.start(_nothing()).wait()
        self.ended('exit 0')
        self.assertIsNotNone(other.latest())
        os.utime(self.root / 'two', (0, 0))
        self.ended('exit 0')
        self.assertIsNone(other.latest())

    def test_a_run_of_another_that_begins_is_not_removed(self):
        other = Runs(self.root, 'two')
        with other.locked():
            other.start(_nothing()).wait()
            os.utime(self.root / 'two', (0, 0))
            self.ended('exit 0')
        self.assertIsNotNone(other.latest())

    def test_a_lock_is_of_the_file_that_is_there(self):
        other = Runs(self.root, 'two')
        with other.locked():
            waiting = threading.Thread(target=self.hold, args=(other, held := threading.Event()))
            waiting.start()
            self.wait_for_waiter(self.root / 'two' / 'lock')
            shutil.rmtree(self.root / 'two')
        waiting.join()
        self.assertTrue(held.is_set())

    def hold(self, runs, held):
        """Take a lock; set the event if it is the one that others take as well."""
        with runs.locked(), (self.root / 'two' / 'lock').open('rb') as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held.set()

    def wait_for_waiter(self, path):
        """Wait until a lock is waited for: the kernel lists it with an arrow."""
        at = f':{path.stat().st_ino} '
        locks = pathlib.Path('/proc/locks')
        while not any('->' in one and at in one for one in locks.read_text().splitlines()):
            os.sched_yield()

    def test_a_removal_that_was_cut_short_is_finished_later(self):
        self.ended('exit 0')
        for left in self.root / '.gone-1', self.root / 'one' / '.gone-1':
            (left / '7').mkdir(parents=True)
        self.assertEqual(1, self.runs.latest().number)
        self.ended('exit 0')
        self.assertEqual([], list(self.root.rglob('.gone-*')))

    def test_folders_of_others_are_no_trouble(self):
        for name in 'foreign', 'of a stranger':
            (self.root / name / 'lock').mkdir(parents=True)
            os.utime(self.root / name, (0, 0))
        (self.root / 'file').touch()
        os.utime(self.root / 'file', (0, 0))
        self.assertEqual(0, self.ended('exit 0').result['status'])
        self.assertTrue((self.root / 'foreign').exists())

    def test_no_other_user_can_hold_a_lock(self):
        self.root.joinpath('one').mkdir(parents=True)
        # As an earlier kiln made it.
        self.root.joinpath('one', 'lock').touch(0o644)
        run = self.ended('exit 0')
        locks = [run.folder / 'lock', self.root / 'one' / 'lock']
        self.assertEqual([0o600] * 2, [one.stat().st_mode & 0o777 for one in locks])

    def test_an_identity_that_a_power_failure_has_emptied_is_made_again(self):
        self.root.mkdir()
        (self.root / 'identity').touch()
        found = self.runs.identity
        self.assertNotEqual('', found)
        self.assertEqual(found, Runs(self.root, 'two').identity)

    def test_each_folder_has_an_identity(self):
        found = {Runs(self.root, name).identity for name in ('one', 'two')}
        self.assertEqual(1, len(found))
        self.assertNotIn(Runs(self.folder / 'elsewhere', 'one').identity, found)

    def test_the_facts_of_a_run_are_kept(self):
        self.ended('exit 0', facts={'label': 'b', 'state': {'c': [1]}})
        self.assertEqual({'label': 'b', 'state': {'c': [1]}}, dict(self.runs.latest().facts))
        json.dumps(self.runs.latest().facts)


def _nothing():
    return Job(argv=('/bin/true',), document=b'', facts={}, seconds=60.0, most_bytes=99)


if __name__ == '__main__':
    unittest.main()
