"""The command ``kiln`` as a separate process."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from kiln.compute_drivers.noop.cloud import NoopCloud

ROOT = pathlib.Path(__file__).parents[3]
#: Executes the command with SIGINT set as by a terminal, or as by a shell that ignores it,
#: because the inherited setting of this process is arbitrary.
_BECOME = (
    'import os, signal, sys; signal.signal(signal.SIGINT, signal.Handlers[sys.argv[1]]); '
    'os.execv(sys.executable, [sys.executable, "-m", "kiln.cli", *sys.argv[2:]])'
)
#: Real seconds after which a test fails, even on a busy machine.
PATIENCE_S = 600


class Processes(unittest.TestCase):
    """Starts commands, and ends those that are still running after the test."""

    def start(self, *argv, interrupt=signal.SIG_DFL, **more):
        process = subprocess.Popen(
            [sys.executable, '-I', '-S', '-c', _BECOME, interrupt.name, *argv],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env=os.environ | {'PYTHONPATH': str(ROOT)} | more,
        )  # fmt: skip
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ignores(self, process, number):
        status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
        return bool(int(status.split('SigIgn:')[1].split()[0], 16) & 1 << number - 1)

    def until(self, so):
        give_up = time.monotonic() + PATIENCE_S
        while not so():
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.01)

    def await_machines(self, path, count):
        with contextlib.closing(NoopCloud(path)) as cloud:
            self.until(lambda: cloud.count() == count)
