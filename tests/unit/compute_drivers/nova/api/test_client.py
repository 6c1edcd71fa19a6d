"""Paged lists over a real connection."""

import unittest

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.exceptions import ServiceUnavailable
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

#: The rows after each marker.
PAGES = {None: ('a', 'b'), 'b': ('c', 'a'), 'a': ()}


class Moving(Loopback):
    """A list whose first row moves past the marker between two pages, as in Nova."""

    def answer(self, what, query):
        rows = [{'id': name} for name in PAGES[query.get('marker')]]
        self.answers[what] = {'servers': rows, 'servers_links': [{'rel': 'next'}]}
        return super().answer(what, query)


class Short(Loopback):
    """A list whose short page lacks a row, as Nova has counted a server twice that moved.

    Nova fails on a marker that moves.
    """

    def answer(self, what, query):
        names = 'abcd' if int(query['limit']) > 4 else 'abc'
        rows = [{'id': name, 'status': 'BUILD'} for name in names]
        self.answers[what] = (500, {}, {}) if 'marker' in query else {'servers': rows}
        return super().answer(what, query)


class Growing(Loopback):
    """A list whose pages are full, and end with a server that moves."""

    def answer(self, what, query):
        pages = {None: ('a', 'b'), 'a': ('b', 'c'), 'c': ()}
        rows = [
            {'id': name, 'status': 'BUILD' if name == 'b' else 'ACTIVE'}
            for name in pages[query.get('marker')]
        ]
        self.answers[what] = {'servers': rows}
        return super().answer(what, query)


class Slow(Loopback):
    """A Nova that takes 10 s for each row, on a simulated clock.

    In real time it answers at once, long before the timeout of the real socket.
    """

    there = 500
    row_s = 10.0

    def __init__(self, clock, timeout_s):
        super().__init__({})
        self.clock, self.timeout_s = clock, timeout_s
        self.limits = []

    def answer(self, what, query):
        limit = int(query['limit'])
        self.limits.append(limit)
        first = int(query.get('marker', -1)) + 1
        rows = [{'id': str(number)} for number in range(first, min(first + limit, self.there))]
        took_s = len(rows) * self.row_s
        self.clock.advance(took_s)
        if took_s > self.timeout_s:
            self.answers[what] = (504, {}, '<html>too late</html>')
        else:
            more = [{'rel': 'next'}] if len(rows) == limit else []
            self.answers[what] = {'servers': rows, 'servers_links': more}
        return super().answer(what, query)


class Pages(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()

    def services(self, cloud, timeout_s=120):
        conf = written(
            f'compute_endpoint_override = {cloud.url}',
            f'timeout = {timeout_s}',
            'microversion = 2.96',
        )
        services = Services(conf, Session(auth=NoAuth()), region=None, clock=self.clock)
        self.addCleanup(services.close)
        return services

    def rows(self, services, size):
        asked = Asked(verb='list', subject='servers')
        return [row['id'] for row in services.pages(asked, '/servers', 'servers', {}, size)]

    def test_a_row_that_moves_down_the_list_is_returned_once(self):
        with Moving() as cloud:
            services = self.services(cloud)
            self.assertEqual(['a', 'b', 'c'], self.rows(services, services.page_size(2)))
        self.assertEqual(3, len(cloud.queries))

    def test_a_page_cut_short_by_a_server_that_moves_is_not_the_last(self):
        with Short() as cloud:
            services = self.services(cloud)
            self.assertEqual([*'abcd'], self.rows(services, services.page_size(4)))
            self.assertEqual(2, len(cloud.queries))
            self.assertEqual([*'abcd'], self.rows(services, services.page_size(100)))
            self.assertEqual(3, len(cloud.queries))

    def test_no_server_that_moves_is_a_marker_if_there_is_another(self):
        with Growing() as cloud:
            services = self.services(cloud)
            self.assertEqual([*'abc'], self.rows(services, services.page_size(2)))

    def test_a_slow_list_is_requested_in_smaller_pages(self):
        with Slow(self.clock, timeout_s=2000) as cloud:
            services = self.services(cloud, timeout_s=2000)
            size = services.page_size(500)
            with self.assertRaises(ServiceUnavailable):
                self.rows(services, size)
            self.assertEqual(500, len(self.rows(services, size)))
            self.assertEqual([500, 125], cloud.limits[:2])

    def test_pages_grow_again_when_they_arrive_quickly(self):
        with Slow(self.clock, timeout_s=2000) as cloud:
            services = self.services(cloud, timeout_s=2000)
            size = services.page_size(500)
            with self.assertRaises(ServiceUnavailable):
                self.rows(services, size)
            cloud.row_s = 0.1
            self.rows(services, size)
            self.rows(services, size)
            self.assertEqual(500, cloud.limits[-1])

    def test_a_page_never_gets_smaller_than_the_minimum(self):
        with Slow(self.clock, timeout_s=100) as cloud:
            services = self.services(cloud, timeout_s=100)
            size = services.page_size(500)
            for _ in range(6):
                with self.assertRaises(ServiceUnavailable):
                    self.rows(services, size)
            self.assertEqual([500, 125, 31, 20, 20, 20], cloud.limits)
