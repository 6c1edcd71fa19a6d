"""Real time for cases whose clock else moves by itself, as soon as no thread has work."""

import time

from kiln.clock import SYSTEM_CLOCK

#: For what would never come.
PATIENCE_S = 300.0


class RealTime:
    """Before such a case: servers and other processes know nothing of its clock."""

    def open_clock(self):
        return SYSTEM_CLOCK

    def until(self, so):
        end = time.monotonic() + PATIENCE_S
        while not so():
            if time.monotonic() > end:
                self.fail(f'not so after {PATIENCE_S:.0f} s')
            time.sleep(0.02)
