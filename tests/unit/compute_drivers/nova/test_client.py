"""Lists of many pages, over a real connection."""

import unittest

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from kiln.compute_drivers.nova.client import Services
from kiln.compute_drivers.nova.errors import Asked
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.nova.loopback import Loopback

#: The rows after each marker.
PAGES = {None: ('a', 'b'), 'b': ('c', 'a'), 'a': ()}


class Moving(Loopback):
    """A list whose first row gets past the marker between two pages, as in Nova."""

    def answer(self, what, query):
        rows = [{'id': name} for name in PAGES[query.get('marker')]]
        self.answers[what] = {'servers': rows, 'servers_links': [{'rel': 'next'}]}
        return super().answer(what, query)


class Pages(unittest.TestCase):
    def test_a_row_that_moves_down_the_list_is_told_once(self):
        with Moving() as cloud:
            services = Services(
                Session(auth=NoAuth()), region=None, interfaces=['public'],
                overrides={'compute': cloud.url}, timeout_s=5, connect_timeout_s=5,
                pinned='2.96', clock=VirtualClock(),
            )  # fmt: skip
            self.addCleanup(services.close)
            asked = Asked(verb='list', subject='servers')
            rows = services.pages(asked, '/servers', 'servers', {}, 2)
            self.assertEqual(['a', 'b', 'c'], [row['id'] for row in rows])
        self.assertEqual(3, len(cloud.queries))
