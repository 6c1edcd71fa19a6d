"""Every promise of the store, on a real PostgreSQL."""

from tests.functional.db.case import Locks, OnServer, suites_on
from tests.functional.db.servers import PostgresServer


def setUpModule():
    OnServer.server = PostgresServer()


def tearDownModule():
    # Not a clean-up of unittest's: pytest runs none of a module.
    OnServer.server.close()


class PostgresLocks(Locks):
    pass


del Locks
globals().update(suites_on(__name__))
