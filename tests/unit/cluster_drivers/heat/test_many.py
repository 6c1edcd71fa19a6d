"""Fifty clusters at once: a request a tick while nothing changes, and no end seen late; 000-11."""

import unittest

from kiln.cluster_drivers.heat.poller import TICK_S
from tests.unit.cluster_drivers.heat.many import ENDING_S, ROUND_S, STILL_S, by_kiln

COUNT = 50


class Many(unittest.TestCase):
    def test_000_11_fifty_clusters_take_one_request_a_tick_and_no_end_is_seen_late(self):
        found = by_kiln(COUNT)
        self.assertLessEqual(found.still, STILL_S / TICK_S)
        # Each stack that has ended is read once, for its outputs; the events of the last ones are
        # read too, once a tick.
        ticks = (ENDING_S + 2 * ROUND_S) / TICK_S
        self.assertLessEqual(found.ending, COUNT + 2 * ticks)
        self.assertLessEqual(found.latest_s, 2 * TICK_S)
