"""Backends are opened when they are needed, and only once."""

import unittest

from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.context import Backends


class BackendsTest(unittest.TestCase):
    def setUp(self):
        self.opened = []
        self.backends = Backends(self.open, default='east')
        self.addCleanup(self.backends.close)

    def open(self, name):
        self.opened.append(name)
        return Compute(NoopDriver())

    def test_the_default_is_opened_once_whether_it_is_named_or_not(self):
        self.assertIs(self.backends.get('east'), self.backends.get(None))
        self.assertEqual(['east'], self.opened)

    def test_each_name_has_its_own(self):
        self.assertIsNot(self.backends.get('east'), self.backends.get('west'))

    def test_a_closed_backend_is_opened_again(self):
        before = self.backends.get('east')
        self.backends.close()
        self.assertIsNot(before, self.backends.get('east'))
