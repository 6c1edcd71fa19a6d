"""Every promise of the store, on a real MariaDB."""

from tests.functional.db.case import Locks, OnServer, suites_on
from tests.functional.db.servers import MariadbServer


def setUpModule():
    OnServer.server = MariadbServer()


def tearDownModule():
    # Not a clean-up of unittest's: pytest runs none of a module.
    OnServer.server.close()


class MariadbLocks(Locks):
    pass


del Locks
globals().update(suites_on(__name__))
