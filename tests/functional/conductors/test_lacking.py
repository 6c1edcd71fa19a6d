"""Conductors with and without a cluster's driver, on each real board."""

import dataclasses
import threading

from kiln.engine.conductor import Conductor
from kiln.engine.work_sources.jobboard import JobboardSource
from kiln.engine.work_sources.opening import open_board, parse
from tests.functional.conductors.boards import EtcdServer, RedisServer, ZookeeperServer
from tests.functional.db.servers import shared
from tests.functional.real_time import PATIENCE_S, RealTime
from tests.unit.engine.site import Site, group
from tests.unit.engine.test_sharing import Missing

CLAIM_S = 60
#: Nothing is found by a sweep of the store after the start.
SWEEP_S = 3600.0


class MissingDriver:
    server = None

    def setUp(self):
        super().setUp()
        self.conductor.close()
        self.bulletin = shared(self.server)

    def conduct(self, name, parts, may_look):
        """Start a conductor whose source reaches the board once it is allowed to."""

        def open_when_it_may():
            may_look.wait()
            where = parse(f'{self.bulletin.url}/lacking')
            return open_board(where, owner=name, claim_s=CLAIM_S)

        source = JobboardSource(open_when_it_may, self.store, claim_s=CLAIM_S, sweep_s=SWEEP_S)
        conductor = Conductor(parts, source=source)
        self.addCleanup(source.close)
        self.addCleanup(conductor.close)
        # The first sweep is over before there is any work.
        source.take()
        conductor.start()
        return source

    def test_a_job_moves_to_the_conductor_that_has_the_driver(self):
        parts = dataclasses.replace(self.parts, drivers=Missing(self.driver))
        now, later = threading.Event(), threading.Event()
        now.set()
        self.addCleanup(later.set)
        lacking = self.conduct('lacking', parts, now)
        self.conduct('having', self.parts, later)
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            cluster, operation = self.create(group(1), within_s=PATIENCE_S)
            lacking.offer(cluster.id)
            self.until(lambda: logs.output)
        later.set()
        self.succeeded(operation)
        self.assert_whole(cluster, 1)
        self.assertEqual(1, len(logs.output))


class OnZookeeper(MissingDriver, RealTime, Site):
    server = ZookeeperServer


class OnEtcd(MissingDriver, RealTime, Site):
    server = EtcdServer


class OnRedis(MissingDriver, RealTime, Site):
    server = RedisServer
