"""Timeouts of all requests, including discovery and tokens."""

import threading
import time
import unittest

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.nova.driver import NovaDriver
from kiln.exceptions import ServiceUnavailable
from tests.unit.compute_drivers.nova.loopback import listening
from tests.unit.compute_drivers.nova.written import written

#: Far above the timeouts below, and far below the wait of a client without a timeout.
LONG_S = 240


class Silence(unittest.TestCase):
    """A server that accepts requests and answers none."""

    def setUp(self):
        over = threading.Event()
        port = self.enterContext(listening(lambda connection: over.wait(LONG_S)))
        # First, so that the server can end.
        self.addCleanup(over.set)
        self.url = f'http://127.0.0.1:{port}'
        self.addCleanup(self.assert_soon, time.monotonic())

    def assert_soon(self, began):
        self.assertLess(time.monotonic() - began, LONG_S / 2)

    def driver(self, *lines):
        driver = NovaDriver.open(written(*lines), name='east', owner='kiln')
        self.addCleanup(driver.close)
        return driver

    def test_version_discovery_has_a_timeout(self):
        driver = self.driver(
            'auth_type = none', f'compute_endpoint_override = {self.url}', 'timeout = 0.2'
        )
        with self.assertRaisesRegex(ServiceUnavailable, 'too long'):
            driver.list_amphorae()

    def test_a_token_request_has_a_timeout(self):
        driver = self.driver(
            f'auth_url = {self.url}/v3', 'username = demo', 'password = Tr0ub4dor',
            'project_name = demo', 'user_domain_name = Default',
            'project_domain_name = Default', 'timeout = 0.2',
        )  # fmt: skip
        with self.assertRaisesRegex(ServiceUnavailable, 'too long'):
            driver.list_amphorae()

    def test_an_earlier_deadline_of_the_call_is_the_timeout(self):
        driver = self.driver(
            'auth_type = none', f'compute_endpoint_override = {self.url}', 'timeout = 600'
        )
        with (
            deadline_scope(Deadline.after(0.2)),
            self.assertRaisesRegex(ServiceUnavailable, 'too long'),
        ):
            driver.list_amphorae()
