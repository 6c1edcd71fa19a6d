"""Every promise of the store, on a real MariaDB."""

import unittest

from tests.functional.db.case import Locks, OnServer, suites_on
from tests.functional.db.servers import MariadbServer


def setUpModule():
    OnServer.server = MariadbServer()
    unittest.addModuleCleanup(OnServer.server.close)


class MariadbLocks(Locks):
    pass


del Locks
globals().update(suites_on(__name__))
