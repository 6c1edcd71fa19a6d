"""Hosts with clocks of their own, which a test sets, and the processes of kiln on them."""

import os
import pathlib
import struct

from tests.functional.hostile.runner import ROOT, Runner

_PRELOADED = pathlib.Path(__file__).with_name('jumping')


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
        environment = os.environ | {
            'JUMPING_CLOCK': str(clock.path), 'JUMPING_HOST': name,
            'PYTHONPATH': f'{_PRELOADED}:{ROOT}', 'PYTHONFAULTHANDLER': '1',
        }  # fmt: skip
        #: Runs commands on this host.
        self.runner = Runner(environment)
        test.addCleanup(self.runner.close)

    def start(self, *argv):
        """Start a command that goes on."""
        started = self.runner.start(self._log, *argv)
        self._test.addCleanup(started.close)
        return started
