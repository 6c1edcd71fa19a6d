"""Between two polls the backends of settled clusters are asked whether they answer."""

import collections
import dataclasses

from kiln.clusters.models import MACHINES_SEEN, MACHINES_UNSEEN, OperationKind
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.health.standing_check import SCOPE, StandingCheck
from tests.unit.db.case import take_over
from tests.unit.engine.site import SETTINGS, STACK, WAIT_S, Site, group

LOG = 'kiln.engine.outage_log'


class CheckedSite(Site):
    """A site that counts the calls of its backends, and whose events are about outages."""

    def setUp(self):
        self.calls = collections.Counter()
        super().setUp()

    def open_backend(self, name):
        site = self

        class Counted(NoopDriver):
            def _statuses(self, amphora_ids):
                site.calls['statuses'] += 1
                return super()._statuses(amphora_ids)

            def _status(self, amphora_id):
                site.calls['status'] += 1
                return super()._status(amphora_id)

        return Compute(Counted(cloud=self.cloud), settings=STACK)

    def kinds(self, cluster):
        found = self.store.events.after(cluster_id=cluster.id)
        return [one.kind for one in found if one.kind in (MACHINES_SEEN, MACHINES_UNSEEN)]

    def recover(self):
        """End the faults, after the pause of a circuit that they have opened."""
        self.cloud.faults.clear()
        self.parts.backends.get(None).close_circuit('read')


class Conducted(CheckedSite):
    """The conductor checks by itself; its polls are far apart."""

    settings = dataclasses.replace(SETTINGS, watch_s=10_000.0, outage_check_s=2.0)

    def setUp(self):
        super().setUp()
        self.until(lambda: self.conductor.watch.polled_at is not None)
        # It has settled after the poll.
        self.cluster = self.created(group(2))

    def told_after_s(self, fault):
        began = self.clock.monotonic()
        self.fault(fault)
        self.until(lambda: self.kinds(self.cluster))
        return self.clock.monotonic() - began

    def test_a_refusal_is_told_within_five_seconds_and_so_is_its_end_each_once(self):
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertLess(self.told_after_s('*:refuse=down for repairs'), 5.0)
            began = self.clock.monotonic()
            self.until(lambda: self.clock.monotonic() > began + 10)
            self.recover()
            began = self.clock.monotonic()
            self.until(lambda: len(self.kinds(self.cluster)) > 1)
            self.assertLess(self.clock.monotonic() - began, 5.0)
        self.assertEqual([MACHINES_UNSEEN, MACHINES_SEEN], self.kinds(self.cluster))
        self.assertEqual(2, len(logs.output), logs.output)
        self.assertIn('down for repairs', logs.output[0])
        self.assertIn('answers the polls of its machines again', logs.output[1])

    def test_a_silence_is_told_three_seconds_after_the_check_at_most(self):
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.assertLess(self.told_after_s('*:hang_before=1000'), 2.0 + 3.0 + 0.5)
        self.assertIn('has not answered for over 3 s', logs.output[0])

    def test_a_check_of_a_backend_that_answers_is_one_call(self):
        self.calls.clear()
        self.until(lambda: self.calls['status'] >= 3)
        self.assertEqual(0, self.calls['statuses'])

    def test_a_single_failure_is_not_told(self):
        self.fault('status:refuse:times=1')
        self.calls.clear()
        with self.assertNoLogs(LOG, 'WARNING'):
            self.until(lambda: self.calls['status'] >= 4)
        self.assertEqual([], self.kinds(self.cluster))

    def test_a_machine_that_cannot_be_read_among_others_is_not_told(self):
        for node in self.nodes(self.cluster):
            self.recover()
            self.fault(f'status:refuse:amphora_id={node.compute_id}')
            self.calls.clear()
            with self.assertNoLogs(LOG, 'WARNING'):
                self.until(lambda: self.calls['status'] >= 4)
        self.assertEqual([], self.kinds(self.cluster))


class Unconducted(CheckedSite):
    settings = dataclasses.replace(SETTINGS, watch_s=100_000.0)

    def setUp(self):
        super().setUp()
        self.cluster = self.created(group(1))
        self.watch = StandingCheck(self.parts, 'tests', lambda cluster_id: None)
        self.addCleanup(self.watch.close)

    def test_only_the_conductor_that_watches_checks(self):
        self.calls.clear()
        self.assertFalse(self.watch.check_backends())
        self.assertEqual(0, self.calls['status'])
        self.watch.poll()
        self.watch.check_backends()
        self.assertEqual(1, self.calls['status'])
        take_over(self.store, SCOPE, 'other', 60)
        self.watch.poll()
        self.watch.check_backends()
        self.assertEqual(1, self.calls['status'])

    def test_by_default_the_engine_checks_nothing_between_polls(self):
        self.calls.clear()
        began = self.clock.monotonic()
        self.until(lambda: self.clock.monotonic() > began + 10)
        self.assertEqual(0, self.calls['status'])

    def test_only_a_backend_that_answers_again_is_to_be_polled(self):
        self.watch.poll()
        self.assertFalse(self.watch.check_backends())
        self.fault('*:refuse')
        with self.assertLogs(LOG, 'WARNING'):
            self.assertFalse(self.watch.check_backends())
        self.assertFalse(self.watch.check_backends())
        self.recover()
        self.assertTrue(self.watch.check_backends())
        with self.assertLogs(LOG, 'WARNING'):
            self.watch.poll()
        self.assertFalse(self.watch.check_backends())


class WithAnOperation(CheckedSite):
    settings = dataclasses.replace(SETTINGS, watch_s=0.5, outage_check_s=0.5)

    def test_an_outage_that_an_operation_and_the_watch_notice_is_one_line(self):
        settled, busy = (self.created(group(1), name=one) for one in ('settled', 'busy'))
        with self.assertLogs('kiln.engine', 'WARNING') as logs:
            self.fault('statuses:refuse=down for repairs')
            self.fault('status:refuse=down for repairs')
            # Longer than the poll tries, which decides how it ends.
            operation = self.submit(busy, OperationKind.CHECK, within_s=10 * WAIT_S)
            self.until(lambda: self.kinds(settled))
            ended = self.ended(operation)
            self.recover()
            self.until(lambda: MACHINES_SEEN in self.kinds(settled))
        self.assertEqual('not_seen', ended.cause.code)
        said = [line for line in logs.output if 'Backend' in line]
        self.assertEqual(2, len(said), logs.output)


del Site
