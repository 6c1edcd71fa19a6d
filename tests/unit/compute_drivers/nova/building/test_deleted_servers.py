"""Deleted servers: requests by id, and reports of their end."""

import unittest

from kiln.compute_drivers.nova.building.deleted_servers import Departures
from kiln.testing.clock import VirtualClock


class DeparturesTest(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.departures = Departures(self.clock)

    def test_a_server_departs_until_its_end_is_known(self):
        self.assertNotIn('a', self.departures)
        self.departures.began('a')
        self.assertIn('a', self.departures)
        self.departures.ended('a')
        self.assertNotIn('a', self.departures)

    def test_a_silent_server_is_requested_after_some_seconds(self):
        self.departures.began('a')
        self.clock.advance(2.9)
        self.assertEqual([], self.departures.unheard(()))
        self.clock.advance(0.1)
        self.assertEqual(['a'], self.departures.unheard(()))

    def test_it_is_requested_again_only_after_a_while(self):
        self.departures.began('a')
        self.clock.advance(3)
        self.departures.unheard(())
        self.clock.advance(4.9)
        self.assertEqual([], self.departures.unheard(()))
        self.clock.advance(0.1)
        self.assertEqual(['a'], self.departures.unheard(()))

    def test_a_reported_server_is_not_requested(self):
        self.departures.began('a')
        self.departures.began('b')
        self.clock.advance(2)
        self.assertEqual([], self.departures.unheard({'a', 'somebody else'}))
        self.clock.advance(2)
        self.assertEqual(['b'], self.departures.unheard(()))

    def test_an_ended_server_is_not_requested(self):
        self.departures.began('a')
        self.departures.ended('a')
        self.clock.advance(60)
        self.assertEqual([], self.departures.unheard(()))

    def test_an_end_is_reported_to_readers_with_an_older_cursor(self):
        self.departures.began('a')
        self.clock.advance(5)
        ended_at = self.clock.time()
        self.departures.ended('a')
        self.clock.advance(5)
        self.assertEqual(['a'], self.departures.ended_since(ended_at))
        self.assertEqual([], self.departures.ended_since(ended_at + 1))

    def test_an_end_is_reported_again_for_an_older_cursor(self):
        self.departures.began('a')
        self.departures.ended('a')
        for _ in range(2):
            self.assertEqual(['a'], self.departures.ended_since(self.clock.time() - 1))

    def test_an_end_is_dropped_after_an_hour(self):
        self.departures.began('a')
        self.departures.ended('a')
        self.clock.advance(1800)
        self.departures.began('b')
        self.departures.ended('b')
        self.clock.advance(1799)
        self.assertEqual(['a', 'b'], self.departures.ended_since(0))
        self.clock.advance(1)
        self.assertEqual(['b'], self.departures.ended_since(0))

    def test_the_end_of_a_server_deleted_elsewhere_is_not_kept(self):
        self.departures.ended('somebody else')
        self.assertEqual([], self.departures.ended_since(0))

    def test_a_clock_set_back_neither_hides_nor_keeps_an_end(self):
        self.departures.began('a')
        self.departures.ended('a')
        before = self.clock.time() - 1
        self.clock.step(-86_400)
        self.assertEqual(['a'], self.departures.ended_since(before))
        self.clock.advance(3600)
        self.assertEqual([], self.departures.ended_since(0))


if __name__ == '__main__':
    unittest.main()
