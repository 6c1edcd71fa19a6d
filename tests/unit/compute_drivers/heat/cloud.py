"""Heat and Nova on the loopback, with the stacks and servers that a test sets."""

import copy
import unittest

from kiln.compute_drivers.heat.conf import opts
from kiln.compute_drivers.heat.driver import StackDriver
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.heat.samples import ID, SERVER
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

IMAGE = '4bfa4ff8-0632-421c-b662-4005c136db4b'
STACKS, SERVERS = 'GET /stacks', 'GET /servers/detail'


def stack(state='CREATE_COMPLETE', **more):
    """Return a stack as a list of Heat has it."""
    return {
        'id': ID, 'stack_name': 'one', 'stack_status': state, 'stack_status_reason': '',
        'creation_time': '2026-11-28T07:03:43Z', 'updated_time': None,
        'tags': ['kiln-site:east', 'kiln-key:k-1'], **more,
    }  # fmt: skip


def server(**more):
    """Return a server as Nova has it."""
    return copy.deepcopy(SERVER) | more


def refused(status, kind, message):
    """Return an answer of Heat that is an error."""
    error = {'type': kind, 'message': message, 'traceback': None}
    return status, {}, {'code': status, 'title': 'Bad', 'explanation': 'no', 'error': error}


class StackCase(unittest.TestCase):
    """A driver of the site east."""

    def setUp(self):
        self.clock = VirtualClock()
        flavors = {'flavors': [{'id': f'f-{name}', 'name': name} for name in ('tiny', 'small')]}
        self.cloud = Loopback(
            {
                'GET /flavors': flavors,
                'POST /stacks': (201, {}, {'stack': {'id': ID}}),
                STACKS: lambda query: {'stacks': self.matching(self.stacks, query)},
                SERVERS: lambda query: {'servers': self.matching(self.servers, query)},
            },
            clock=self.clock,
        )
        self.enterContext(self.cloud)
        self.stacks, self.servers = [], []
        self.driver = self.open()

    def open(self):
        places = ('orchestration', 'compute', 'image', 'network')
        conf = written(
            'auth_type = none', 'microversion = 2.96', 'flavor = tiny', f'image = {IMAGE}',
            *(f'{name}_endpoint_override = {self.cloud.url}' for name in places),
            driver='heat', opts=opts,
        )  # fmt: skip
        driver = StackDriver.open(conf, name='heat', owner='east', clock=self.clock)
        self.addCleanup(driver.close)
        return driver

    @staticmethod
    def matching(rows, query):
        found = [one for one in rows if query.get('id') in (None, one['id'])]
        found = [one for one in found if query.get('name') in (None, one.get('stack_name'))]
        if 'tags' in query:
            found = [one for one in found if {*query['tags'].split(',')} <= {*(one['tags'] or ())}]
        return found

    def asked(self):
        """Return the requests since the last call."""
        found = [what for what, _ in self.cloud.queries if what != 'GET /flavors']
        self.cloud.queries.clear()
        return found
