"""Requests per amphora, with kiln and with Octavia's own driver."""

import collections
import os
import re

from kiln.testing.proxy import FaultProxy
from tests.functional.octavia.site import OctaviaCase

OWN = 'compute_nova_driver'
#: In a full run, as many as a worker has threads.
FULL = bool(os.environ.get('KILN_FULL'))
COUNT = 5 if FULL else 2
#: Requests that are repeated while Nova builds, so their number grows with its duration.
LOOK = re.compile(r'GET \S*/servers/(ID|detail)(\?|$)')


class Requests(OctaviaCase):
    compute_driver = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.images = FaultProxy(cls.place.url('glance'))
        cls.images.start()
        cls.addClassCleanup(cls.images.close)

    def requests_of(self, compute_driver):
        """Create and delete load balancers; return the requests by their kind."""
        worker = self.new_worker(compute_driver, glance={'endpoint': self.images.url})
        self.addCleanup(worker.stop)
        worker.start()
        for proxy in (self.proxy, self.images):
            proxy.forget()
        made = [self.create(f'{compute_driver}-{number}') for number in range(COUNT)]
        self.all_settle(made, 'ACTIVE')
        for identity in made:
            self.delete(identity)
        self.all_settle(made, None)
        self.assert_nothing_left()
        worker.stop()
        return collections.Counter(
            f'{one.method} {re.sub("[0-9a-f-]{36}", "ID", one.path)}'
            for proxy in (self.proxy, self.images)
            for one in proxy.requests
        )

    def test_an_amphora_costs_less_than_with_octavias_own_driver(self):
        found = {driver: self.requests_of(driver) for driver in (OWN, 'kiln_nova')}
        for driver, kinds in found.items():
            print(f'{driver}: {kinds.total() / COUNT:.1f} requests per amphora: {dict(kinds)}')
            if not FULL:
                # Shared polls save requests only with more than a few amphorae.
                found[driver] = collections.Counter(
                    {kind: count for kind, count in kinds.items() if not LOOK.search(kind)}
                )
        self.assertLess(found['kiln_nova'].total(), found[OWN].total())
