"""What a conductor shows of itself: its operations by outcome, its polls, its standstills."""

import dataclasses
import threading

from kiln.clusters.models import OperationState
from kiln.engine.conductor import Conductor
from kiln.engine.health.standing_check import SCOPE
from tests.unit.db.case import take_over
from tests.unit.engine.site import SETTINGS, OneDriver, Plain, Site, group


class Watched(Site):
    def setUp(self):
        super().setUp()
        self.counted = []
        self.conductor.close()
        self.parts = dataclasses.replace(
            self.parts, count_operation=lambda *what: self.counted.append(what)
        )
        self.take_over()

    def test_each_operation_is_counted_once_by_kind_and_outcome(self):
        cluster = self.created(group(2))
        self.fault('build:refuse')
        ended = self.ended(self.change(cluster, group(3), within_s=1.0))
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertEqual(
            [('create', 'succeeded'), ('update', 'failed')], [one[:2] for one in self.counted]
        )
        self.assertGreaterEqual(self.counted[1][2], 1.0)

    def test_only_the_conductor_that_polls_shows_when_it_did(self):
        watch = Conductor(self.parts).watch
        held = take_over(self.store, SCOPE, 'another')
        watch.poll()
        self.assertIsNone(watch.polled_at)
        self.store.leases.release(held)
        watch.poll()
        self.assertEqual(self.clock.time(), watch.polled_at)
        self.assertEqual(0.0, watch.silent_s)
        watch.close()

    def test_a_round_that_hangs_shows_while_the_leases_are_still_renewed(self):
        released = threading.Event()
        self.addCleanup(released.set)
        self.created(group(1), name='other')
        self.assertLess(self.conductor.rounds_silent_s, 10.0)

        class Hanging(OneDriver):
            def open(self, pin):
                released.wait()
                return super().open(pin)

        self.conductor.close()
        self.parts = dataclasses.replace(self.parts, drivers=Hanging(Plain()))
        self.take_over()
        _, operation = self.create(group(1), within_s=1000.0)
        self.until(lambda: self.conductor.rounds_silent_s > 20.0)
        self.assertLess(self.conductor.silent_s, 10.0)
        self.assertLess(self.conductor.unrenewed_s, SETTINGS.lease_s)
        self.assertEqual(1, self.conductor.clusters)
        released.set()
        self.succeeded(operation)
        self.until(lambda: self.conductor.rounds_silent_s < 10.0)
