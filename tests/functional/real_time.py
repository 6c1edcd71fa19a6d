"""Real time for test cases whose clock otherwise advances when no thread has work."""

import time

from kiln.clock import SYSTEM_CLOCK

#: Longer than any correct wait.
PATIENCE_S = 300.0


class RealTime:
    """Mixin, first among the bases: servers and other processes do not use a virtual clock."""

    def open_clock(self):
        return SYSTEM_CLOCK

    def until(self, so):
        end = time.monotonic() + PATIENCE_S
        while not so():
            if time.monotonic() > end:
                self.fail(f'not so after {PATIENCE_S:.0f} s')
            time.sleep(0.02)
