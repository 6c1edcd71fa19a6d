"""A supervisor ends a program for each reason there is, and writes why and how.

It runs in the process of the test, which reads what it writes; the tests of detached runs have
it in a process of its own.
"""

import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from kiln.programs import supervisor

MOST_BYTES = 1000


class Members(unittest.TestCase):
    def test_a_process_is_a_member_from_its_first_moment(self):
        for _ in range(50):
            child = subprocess.Popen(['/bin/sleep', '600'], env={supervisor.MARK: 'here'})
            try:
                self.assertIn(f'{supervisor.MARK}=here'.encode(), supervisor._variables(child.pid))
            finally:
                child.kill()
                child.wait()

    def test_a_process_without_variables_is_not_waited_for(self):
        child = subprocess.Popen(['/bin/sleep', '600'], env={})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertEqual([b''], supervisor._variables(child.pid))
        self.assertFalse(supervisor._is_becoming(child.pid))

    def test_all_that_a_supervisor_has_started_are_members_whatever_their_session(self):
        child = subprocess.Popen(
            ['/bin/sh', '-c', 'env -i setsid sleep 600 & echo $!; wait'],
            stdout=subprocess.PIPE, env={'PATH': os.defpath},
        )  # fmt: skip
        self.addCleanup(child.wait)
        self.addCleanup(child.stdout.close)
        own = int(child.stdout.readline())
        self.addCleanup(supervisor.send, signal.SIGKILL, [own, child.pid])
        self.assertEqual([own], supervisor.members('here', supervisor.process(child.pid)))

    def test_a_process_whose_first_thread_has_ended_lives(self):
        begun, telling = os.pipe()
        script = (
            'import ctypes, os, threading\n'
            'def stay():\n'
            '    while open("/proc/self/stat").read().rpartition(")")[2].split()[0] != "Z": pass\n'
            f'    os.write({telling}, b"x"); threading.Event().wait()\n'
            'threading.Thread(target=stay).start()\n'
            'ctypes.CDLL(None).pthread_exit(None)\n'
        )
        child = subprocess.Popen([sys.executable, '-I', '-S', '-c', script], pass_fds=(telling,))
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        os.close(telling)
        with open(begun, 'rb') as file:
            self.assertEqual(b'x', file.read(1))
        self.assertIsNotNone(supervisor.process(child.pid))

    def test_pauses_grow_up_to_a_second(self):
        found = list(itertools.islice(supervisor.pauses(), 9))
        self.assertEqual(sorted(found), found)
        self.assertEqual([0.02, 0.04, 1.0], [*found[:2], found[-1]])


class Supervising(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for one in (signal.SIGCHLD, signal.SIGTERM):
            self.addCleanup(signal.signal, one, signal.getsignal(one))
        before = signal.set_wakeup_fd(-1)
        self.addCleanup(signal.set_wakeup_fd, before)
        # A program is given this number; here it can be any open file.
        try:
            os.fstat(supervisor.SECRETS)
        except OSError:
            other = os.open(os.devnull, os.O_RDONLY)
            os.dup2(other, supervisor.SECRETS)
            for number in {other, supervisor.SECRETS}:
                self.addCleanup(self.close, number)

    def close(self, number):
        with contextlib.suppress(OSError):
            os.close(number)

    def supervised(self, script, *, argv=None, **given):
        job = {
            'argv': argv or ['/bin/sh', '-c', script],
            'environment': {'PATH': os.defpath, 'AT': str(self.folder)},
            'owner': None, 'seconds': 60.0, 'grace_s': 30.0, 'most_bytes': MOST_BYTES, **given,
        }  # fmt: skip
        (self.folder / 'job.json').write_text(json.dumps(job))
        (self.folder / 'document.json').write_text('{"asked": 1}')
        supervisor._Supervisor(self.folder, is_alone=False).run()
        self.assertEqual([], supervisor.members(str(self.folder), None))
        return json.loads((self.folder / 'result.json').read_text())

    def output(self):
        return (self.folder / 'out').read_text()

    def test_a_program_reads_what_is_asked_and_ends_by_itself(self):
        result = self.supervised('cat; exit 7')
        self.assertEqual((7, '', 0), (result['status'], result['why'], result['left']))
        self.assertEqual('{"asked": 1}', self.output())
        self.assertFalse((self.folder / 'work').exists())

    def test_a_program_that_cannot_be_run_has_the_reason(self):
        result = self.supervised('', argv=[str(self.folder / 'nothing')])
        self.assertEqual(127, result['status'])
        errors = (self.folder / 'err').read_text()
        self.assertEqual('The program cannot be started: No such file or directory\n', errors)

    def test_a_program_is_ended_at_its_deadline_with_what_it_has_started(self):
        result = self.supervised('while :; do sleep 60; done', seconds=0.0)
        self.assertEqual(('deadline', -signal.SIGTERM), (result['why'], result['status']))

    def test_a_program_that_prints_too_much_is_ended(self):
        result = self.supervised('while :; do echo a long line of text; done')
        self.assertEqual('output', result['why'])
        self.assertGreater(len(self.output()), MOST_BYTES)

    def test_a_program_that_writes_much_to_stderr_goes_on_and_its_end_is_kept(self):
        size = 3 * supervisor._MOST_ERRORS
        result = self.supervised(
            f'head -c {size} /dev/zero >&2; echo last >&2;'
            f'while [ "$(wc -c <../err)" -ge {size} ]; do sleep 0.01; done; exit 3'
        )
        self.assertEqual((3, ''), (result['status'], result['why']))
        errors = (self.folder / 'err').read_bytes()
        self.assertEqual(supervisor._KEPT_ERRORS, len(errors))
        self.assertTrue(errors.endswith(b'last\n'))

    def test_a_result_is_written_once_there_is_room(self):
        path = self.folder / 'result.json'
        full = self.folder / 'result.json.new'
        full.symlink_to('/dev/full')
        paused = []

        def make_room(seconds):
            paused.append(seconds)
            if len(paused) == 3:
                full.unlink()

        supervisor.write_patiently(path, {'status': 7}, make_room)
        self.assertEqual({'status': 7}, json.loads(path.read_text()))
        self.assertEqual(3, len(paused))

    def test_a_result_whose_folder_is_gone_is_not_written(self):
        supervisor.write_patiently(self.folder / 'gone' / 'result.json', {}, self.fail)

    def test_a_program_that_was_to_stop_before_it_began_is_ended(self):
        (self.folder / 'stop').touch()
        self.assertEqual('stopped', self.supervised('sleep 60')['why'])

    def test_a_signal_stops_the_program(self):
        os.mkfifo(self.folder / 'begun')

        def interrupt():
            # One byte, not all: its end is only seen once nobody can write any longer.
            with open(self.folder / 'begun', 'rb', buffering=0) as begun:
                begun.read(1)
            # A supervisor has one thread; here, another one of the tests could get the signal.
            signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

        other = threading.Thread(target=interrupt, daemon=True)
        other.start()
        result = self.supervised('echo >"$AT/begun"; sleep 60')
        other.join()
        self.assertEqual('stopped', result['why'])

    def test_a_program_that_does_not_end_is_killed(self):
        result = self.supervised(
            'trap "" TERM; while :; do sleep 60; done', seconds=0.0, grace_s=0.0
        )
        self.assertEqual('deadline', result['why'])

    def test_what_a_program_leaves_is_ended_and_counted(self):
        result = self.supervised('sleep 60 & setsid sleep 60 & exit 0', grace_s=1.0)
        self.assertEqual((0, '', 2), (result['status'], result['why'], result['left']))
