"""Every promise of the store, on a real PostgreSQL."""

import unittest

from tests.functional.db.case import Locks, OnServer, suites_on
from tests.functional.db.servers import PostgresServer


def setUpModule():
    OnServer.server = PostgresServer()
    unittest.addModuleCleanup(OnServer.server.close)


class PostgresLocks(Locks):
    pass


del Locks
globals().update(suites_on(__name__))
