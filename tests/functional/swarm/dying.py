"""Kills of kiln during its work, each followed by a new process that continues."""

import os
import random
import signal
import time

#: The maximum in one disturbance.
_IN_A_ROW = 3


class Kills:
    """The number and times of kills of kiln; the same for the same seed."""

    def __init__(self, count, seed):
        self.left, self.done = count, 0
        self._chance = random.Random(seed)

    def go_on(self, conduct, over):
        """Run and kill conductors until the work is done or the maximum is reached.

        Return the number of killed conductors.
        """
        killed = 0
        while self.left and killed < _IN_A_ROW and not over():
            process = conduct()
            try:
                end = time.monotonic() + self._chance.uniform(0.5, 9.0)
                while time.monotonic() < end and not over():
                    time.sleep(0.1)
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            killed += 1
            self.left -= 1
        self.done += killed
        return killed
