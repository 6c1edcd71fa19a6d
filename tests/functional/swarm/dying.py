"""A kiln that is killed at its work, and another that goes on from there."""

import os
import random
import signal
import time

#: At most so many in one disturbance.
_IN_A_ROW = 3


class Kills:
    """How often kiln is killed, and when; the same for the same seed."""

    def __init__(self, count, seed):
        self.left, self.done = count, 0
        self._chance = random.Random(seed)

    def go_on(self, conduct, over):
        """Have conductors work and die until it is over, or this many are enough.

        Return how many were killed at work.
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
