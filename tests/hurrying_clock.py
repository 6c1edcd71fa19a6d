"""A virtual clock for tests of calls that take time, without a second thread."""

from kiln.testing.clock import VirtualClock


class HurryingClock(VirtualClock):
    """Advances by itself where a call takes time."""

    def sleep(self, seconds):
        self.advance(seconds)
