"""Tests of the store on a real MariaDB."""

from tests.functional.db.case import Locks, OnServer, suites_on
from tests.functional.db.servers import MariadbServer, shared


def setUpModule():
    OnServer.server = shared(MariadbServer)


class MariadbLocks(Locks):
    pass


del Locks
globals().update(suites_on(__name__))
