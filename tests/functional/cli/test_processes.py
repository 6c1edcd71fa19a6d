"""Tests of the end of the command: signals, closed output, hanging backends."""

import pathlib
import signal
import subprocess
import sys
import tempfile

from tests.unit.cli.processes import PATIENCE_S, ROOT, Processes

#: Interrupts itself again and again while it takes a lock, waits or computes, and prints how
#: many times it was interrupted, and how many locks that left held.
_INTERRUPTED = """
import os, signal, sys, threading
from kiln.cli import interrupts

interrupts.install(lambda number: None)
again, times, held = threading.Event(), 0, 0

def ask():
    while again.wait():
        again.clear()
        os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=ask, daemon=True).start()
while times < 60:
    condition = threading.Condition(threading.Lock())
    try:
        again.set()
        while True:
            with condition:
                condition.wait((0.002, 0.02, 600)[times % 3])
            sum(range(times * 100))
    except KeyboardInterrupt:
        times += 1
    held += not condition.acquire(blocking=False)
print(times, held)
"""


class Ending(Processes):
    def test_ctrl_c_and_sigterm_end_a_build_and_remove_its_machine(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                cloud = f'{folder}/cloud.db'
                process = self.start(
                    'compute', 'build', '--wait',
                    KILN_COMPUTE_NOOP__PATH=cloud, KILN_COMPUTE_NOOP__BUILD_S='3600',
                )  # fmt: skip
                self.await_machines(cloud, 1)
                process.send_signal(number)
                _, err = process.communicate(timeout=PATIENCE_S)
                self.assertEqual(status, process.returncode, err)
                self.assertNotIn('Traceback', err)
                self.await_machines(cloud, 0)

    def test_a_build_that_ctrl_c_ends_says_how_long_that_takes_and_what_a_second_one_does(self):
        process = self.start('compute', 'build', KILN_COMPUTE_NOOP__ACCEPT_S='3600')
        lines = iter(process.stderr.readline, '')
        next(line for line in lines if 'delays this' in line)
        process.send_signal(signal.SIGINT)
        told = next(line for line in lines if 'is removed' in line)
        self.assertIn('0 of 1 were built; the rest is removed, which takes 30 s at most.', told)
        self.assertIn('A second Ctrl-C leaves it as it is', told)
        process.send_signal(signal.SIGINT)
        self.assertEqual(130, process.wait(PATIENCE_S))

    def test_ctrl_c_and_sigterm_end_a_conformance_run_and_remove_its_machines(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                cloud = f'{folder}/cloud.db'
                process = self.start(
                    'driver', 'test', 'noop', '--guarded',
                    '--select', 'test_a_new_instance_becomes_active',
                    KILN_COMPUTE_NOOP__PATH=cloud, KILN_COMPUTE_NOOP__BUILD_S='60',
                )  # fmt: skip
                self.await_machines(cloud, 1)
                process.send_signal(number)
                out, err = process.communicate(timeout=PATIENCE_S)
                self.assertEqual(status, process.returncode, err)
                self.assertIn('Interrupted in: a new instance becomes active.', out)
                self.assertNotIn('Traceback', err)
                self.await_machines(cloud, 0)

    def test_an_interrupt_leaves_no_lock_held(self):
        done = subprocess.run(
            [sys.executable, '-c', _INTERRUPTED],
            cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        self.assertEqual('60 0', done.stdout.strip())

    def test_only_sigterm_ends_a_command_started_with_ctrl_c_ignored(self):
        # As a shell starts background commands, so that Ctrl-C does not end them.
        with tempfile.TemporaryDirectory() as folder:
            cloud = f'{folder}/cloud.db'
            process = self.start(
                'compute', 'build', '--wait', interrupt=signal.SIG_IGN,
                KILN_COMPUTE_NOOP__PATH=cloud, KILN_COMPUTE_NOOP__BUILD_S='3600',
            )  # fmt: skip
            self.await_machines(cloud, 1)
            self.assertTrue(self.ignores(process, signal.SIGINT))
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=PATIENCE_S)
            self.assertEqual(143, process.returncode, err)
            self.await_machines(cloud, 0)

    def test_a_hanging_backend_does_not_delay_the_end(self):
        process = self.start(
            'compute', 'list', '--timeout', '0.3', KILN_COMPUTE_NOOP__FAULTS='*:hang=3600'
        )
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(6, process.returncode, err)


class Output(Processes):
    def test_closed_output_does_not_change_the_result(self):
        program = f'{sys.executable} -m kiln.cli'
        for command, status in (
            (f'{program} compute list >&-', 0), (f'{program} compute list 2>&-', 0),
            (f'{program} compute list >&- 2>&-', 0), (f'{program} compute show x >&-', 3),
            (f'{program} xyzzy 2>&-', 2),
        ):  # fmt: skip
            with self.subTest(command):
                done = subprocess.run(
                    ['sh', '-c', command], cwd=ROOT, capture_output=True, text=True,
                    timeout=PATIENCE_S,
                )  # fmt: skip
                self.assertEqual(status, done.returncode, done.stderr)
                self.assertNotIn('defect', done.stderr)

    def test_secrets_are_in_no_stream_and_no_log(self):
        # The unit tests check all formats and all errors in one process.
        with tempfile.TemporaryDirectory() as folder:
            secret, log = pathlib.Path(folder, 'secret'), pathlib.Path(folder, 'log')
            secret.write_text('hush-a-bye')
            process = self.start(
                '--debug', '--log-file', str(log), 'compute', 'build', '--wait', '--key',
                'hush-a-bye', '--flavor', 'none', '--file', f'/etc/key={secret}',
                '--user-data', str(secret),
            )  # fmt: skip
            out, err = process.communicate(timeout=PATIENCE_S)
            self.assertTrue(out + err)
            self.assertNotIn('hush', out + err + log.read_text())
