"""Whose end is expected, looked for, and told."""

import unittest

from kiln.compute_drivers.nova.departures import Departures
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

    def test_one_that_is_not_heard_of_is_to_be_looked_at_after_some_seconds(self):
        self.departures.began('a')
        self.clock.advance(2.9)
        self.assertEqual([], self.departures.unheard(()))
        self.clock.advance(0.1)
        self.assertEqual(['a'], self.departures.unheard(()))

    def test_it_is_looked_at_again_only_a_while_later(self):
        self.departures.began('a')
        self.clock.advance(3)
        self.departures.unheard(())
        self.clock.advance(9.9)
        self.assertEqual([], self.departures.unheard(()))
        self.clock.advance(0.1)
        self.assertEqual(['a'], self.departures.unheard(()))

    def test_one_that_is_heard_of_need_not_be_looked_at(self):
        self.departures.began('a')
        self.departures.began('b')
        self.clock.advance(2)
        self.assertEqual([], self.departures.unheard({'a', 'somebody else'}))
        self.clock.advance(2)
        self.assertEqual(['b'], self.departures.unheard(()))

    def test_one_that_has_ended_is_not_looked_at(self):
        self.departures.began('a')
        self.departures.ended('a')
        self.clock.advance(60)
        self.assertEqual([], self.departures.unheard(()))

    def test_an_end_is_told_to_whom_it_is_news(self):
        self.departures.began('a')
        self.clock.advance(5)
        ended_at = self.clock.time()
        self.departures.ended('a')
        self.clock.advance(5)
        self.assertEqual(['a'], self.departures.ended_since(ended_at))
        self.assertEqual([], self.departures.ended_since(ended_at + 1))

    def test_an_end_is_told_again_to_whoever_asks_from_before_it(self):
        self.departures.began('a')
        self.departures.ended('a')
        for _ in range(2):
            self.assertEqual(['a'], self.departures.ended_since(self.clock.time() - 1))

    def test_an_end_is_forgotten_after_an_hour(self):
        self.departures.began('a')
        self.departures.ended('a')
        self.clock.advance(1800)
        self.departures.began('b')
        self.departures.ended('b')
        self.clock.advance(1799)
        self.assertEqual(['a', 'b'], self.departures.ended_since(0))
        self.clock.advance(1)
        self.assertEqual(['b'], self.departures.ended_since(0))

    def test_the_end_of_what_was_not_deleted_here_is_not_kept(self):
        self.departures.ended('somebody else')
        self.assertEqual([], self.departures.ended_since(0))

    def test_a_clock_that_is_set_back_neither_hides_nor_keeps_an_end(self):
        self.departures.began('a')
        self.departures.ended('a')
        before = self.clock.time() - 1
        self.clock.step(-86_400)
        self.assertEqual(['a'], self.departures.ended_since(before))
        self.clock.advance(3600)
        self.assertEqual([], self.departures.ended_since(0))


if __name__ == '__main__':
    unittest.main()
