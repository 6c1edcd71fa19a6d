"""Cache of reported server states: places, doubts and trust."""

import unittest

from kiln.compute_drivers.nova.notifications import cache
from kiln.compute_drivers.nova.notifications.cache import TRUSTED_S, News
from kiln.testing.clock import VirtualClock


def server(server_id, state='building'):
    return {'id': server_id, 'OS-EXT-STS:vm_state': state}


class NewsCase(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.news = News(self.clock)
        self.news.begin()

    def told(self, place):
        return [one['id'] for one in self.news.since(place).servers]


class Certain(NewsCase):
    def test_a_doubtful_server_is_known_again_after_its_next_report(self):
        self.news.tell(server('a'))
        place = self.news.place()
        self.news.doubt('a')
        self.assertIsNone(self.news.known('a'))
        self.assertIn('a', self.news)
        self.assertEqual([], self.told(place))
        self.news.tell(server('a', 'active'))
        self.assertEqual(server('a', 'active'), self.news.known('a'))

    def test_a_server_that_was_never_reported_cannot_be_doubtful(self):
        self.news.doubt('a')
        self.assertNotIn('a', self.news)


class Places(NewsCase):
    def test_reports_since_a_place_are_in_order(self):
        self.news.tell(server('a'))
        place = self.news.place()
        for server_id in 'bcd':
            self.news.tell(server(server_id))
        self.assertEqual(['b', 'c', 'd'], self.told(place))
        self.assertEqual([], self.told(self.news.since(place).place))

    def test_only_the_last_report_of_a_server_is_returned_at_its_new_place(self):
        place = self.news.place()
        for server_id in 'aba':
            self.news.tell(server(server_id))
        self.assertEqual(['b', 'a'], self.told(place))

    def test_a_place_can_be_read_again(self):
        place = self.news.place()
        self.news.tell(server('a'))
        self.assertEqual(self.told(place), self.told(place))

    def test_a_place_of_another_session_is_unknown(self):
        place = self.news.place()
        self.news.end()
        self.assertIsNone(self.news.since(place))
        self.news.begin()
        self.assertIsNone(self.news.since(place))

    def test_a_disconnected_bus_has_no_place(self):
        self.news.end()
        self.assertEqual('', self.news.place())
        self.assertIsNone(self.news.since(''))

    def test_a_place_with_dropped_reports_is_unknown(self):
        old = self.news.place()
        self.news.tell(server('first'))
        after_first = self.news.place()
        for number in range(cache.MEMORY):
            self.news.tell(server(f's-{number}'))
        self.assertIsNone(self.news.since(old))
        self.assertEqual(cache.MEMORY, len(self.told(after_first)))
        self.assertNotIn('first', self.news)


class Knowledge(NewsCase):
    def test_a_report_is_trusted_for_a_while(self):
        self.news.tell(server('a', 'active'))
        self.clock.advance(TRUSTED_S)
        self.assertEqual('active', self.news.known('a')['OS-EXT-STS:vm_state'])
        self.clock.advance(1)
        self.assertIsNone(self.news.known('a'))

    def test_nothing_is_kept_from_before_a_break(self):
        self.news.tell(server('a'))
        self.news.end()
        self.assertIsNone(self.news.known('a'))
        self.news.begin()
        self.assertIsNone(self.news.known('a'))

    def test_an_answer_is_stored_unless_a_report_came_since_the_request(self):
        asked_at = self.news.place()
        self.news.tell(server('a', 'active'))
        self.news.note(server('a'), asked_at)
        self.news.note(server('b'), asked_at)
        self.assertEqual('active', self.news.known('a')['OS-EXT-STS:vm_state'])
        self.assertEqual('building', self.news.known('b')['OS-EXT-STS:vm_state'])

    def test_an_answer_to_a_request_from_before_a_break_is_not_stored(self):
        asked_at = self.news.place()
        self.news.begin()
        self.news.note(server('a'), asked_at)
        self.assertIsNone(self.news.known('a'))
        self.news.end()
        self.news.note(server('a'), self.news.place())
        self.assertNotIn('a', self.news)
