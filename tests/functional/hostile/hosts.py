"""Hosts with clocks of their own, which a test sets, and the processes of kiln on them."""

import os
import pathlib
import signal
import struct
import subprocess
import sys

from tests.functional.hostile.runner import ROOT, Runner

_PRELOADED = pathlib.Path(__file__).with_name('jumping')
#: Seconds that a process has to end.
END_S = 300


class Clock:
    """The wall clock of one host, or of several."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.ahead_s = 0.0
        self._write()

    def jump(self, seconds):
        self.ahead_s += seconds
        self._write()

    def _write(self):
        # Into the file that processes have mapped, at once.
        with self.path.open('r+b' if self.path.exists() else 'wb') as file:
            file.write(struct.pack('d', self.ahead_s))


class Host:
    """A host of a test case: its processes end with the test."""

    def __init__(self, test, name, clock, log):
        self._test = test
        self._log = pathlib.Path(log)
        self.name, self.clock = name, clock
        self.environment = os.environ | {
            'JUMPING_CLOCK': str(clock.path), 'JUMPING_HOST': name,
            'PYTHONPATH': f'{_PRELOADED}:{ROOT}', 'PYTHONFAULTHANDLER': '1',
        }  # fmt: skip

    def runner(self):
        """Return a runner of commands on this host."""
        runner = Runner(self.environment)
        self._test.addCleanup(runner.close)
        return runner

    def start(self, *argv):
        """Start a command that goes on."""
        with self._log.open('a') as log:
            process = subprocess.Popen(
                [sys.executable, '-m', 'kiln.cli', *argv], cwd=ROOT, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._test.addCleanup(end, process, signal.SIGKILL)
        return process


def end(process, how=signal.SIGTERM):
    """End a process by a signal; return its exit status."""
    process.send_signal(how)
    return process.wait(END_S)
