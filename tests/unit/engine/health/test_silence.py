"""Silent backends are told: by a warning, an event of each cluster, and the cause of a node."""

import dataclasses
import threading

from kiln.clusters.models import MACHINES_SEEN, MACHINES_UNSEEN, NodeState
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.health.standing_check import SCOPE, StandingCheck
from kiln.exceptions import ServiceUnavailable
from tests.unit.engine.health.test_standing_check import WatchSite
from tests.unit.engine.site import SETTINGS, STACK, Site, group

LOG = 'kiln.engine.outage_log'


class SilentSite(WatchSite):
    """A backend that can be made to refuse or to hang."""

    def setUp(self):
        self.entered, self.release = threading.Event(), threading.Event()
        self.addCleanup(self.release.set)
        self.refusing, self.hanging = set(), set()
        super().setUp()

    def open_backend(self, name):
        site = self

        class Silent(NoopDriver):
            def _statuses(self, amphora_ids):
                if name in site.refusing:
                    raise ServiceUnavailable('noop is down.')
                if name in site.hanging:
                    site.entered.set()
                    site.release.wait(120)
                return super()._statuses(amphora_ids)

        return Compute(Silent(cloud=self.cloud), settings=STACK)

    def kinds(self, cluster):
        found = self.store.events.after(cluster_id=cluster.id)
        return [one.kind for one in found if one.kind in (MACHINES_SEEN, MACHINES_UNSEEN)]


class Settled(SilentSite):
    # The conductor of the site must not take the watch when its lease runs out.
    settings = dataclasses.replace(SETTINGS, watch_s=100_000.0)

    def answered(self):
        """Poll after the pause of a circuit that the outage has opened."""
        self.clock.advance(120)
        self.poll()

    def test_a_refusing_backend_is_told_once_and_so_is_that_it_answers_again(self):
        clusters = [self.created(group(1), name=name) for name in ('a', 'b')]
        self.poll()
        self.refusing.add('noop')
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.poll()
            self.poll()
            self.refusing.clear()
            self.answered()
        for one in clusters:
            self.assertEqual([MACHINES_UNSEEN, MACHINES_SEEN], self.kinds(one))
            self.assertEqual({NodeState.READY: 1}, self.states(one))
        self.assertEqual(2, len(logs.output), logs.output)
        self.assertIn('noop is down', logs.output[0])

    def test_a_hanging_backend_is_told_before_its_call_times_out(self):
        cluster = self.created(group(1))
        self.poll()
        self.hanging.add('noop')
        polling = threading.Thread(target=self.poll)
        polling.start()
        with self.assertLogs(LOG, 'WARNING') as logs:
            self.until(lambda: self.kinds(cluster))
        self.assertTrue(polling.is_alive())
        self.assertIn('has not answered for over 3 s', logs.output[0])
        self.hanging.clear()
        self.release.set()
        polling.join()
        self.assertEqual([MACHINES_UNSEEN, MACHINES_SEEN], self.kinds(cluster))

    def test_a_poll_that_ends_because_kiln_does_is_no_outage(self):
        cluster = self.created(group(1))
        self.poll()
        self.hanging.add('noop')
        polling = threading.Thread(target=self.poll)
        with self.assertNoLogs(LOG, 'WARNING'):
            polling.start()
            self.entered.wait()
            self.parts.backends.get('noop').close(0)
            polling.join()
        self.assertEqual([], self.kinds(cluster))

    def test_another_conductor_goes_on_from_what_the_first_has_written(self):
        cluster = self.created(group(1))
        self.refusing.add('noop')
        with self.assertLogs(LOG, 'WARNING'):
            self.poll()
        self.watch.close()
        self.watch = StandingCheck(self.parts, 'other', self.offer)
        self.addCleanup(self.watch.close)
        self.refusing.clear()
        self.answered()
        self.assertEqual([MACHINES_UNSEEN, MACHINES_SEEN], self.kinds(cluster))


class Kept(SilentSite):
    """The conductor of the site polls by itself."""

    settings = dataclasses.replace(SETTINGS, watch_s=2.0)

    def test_the_watch_is_kept_while_a_poll_waits_for_a_silent_backend(self):
        cluster = self.created(group(1))
        self.until(lambda: self.store.leases.get(SCOPE) is not None)
        self.hanging.add('noop')
        with self.assertLogs(LOG, 'WARNING'):
            self.until(lambda: self.kinds(cluster))
        held, began = self.store.leases.get(SCOPE), self.clock.time()
        # The term of its lease is 6 s.
        self.until(lambda: self.clock.time() > began + 20)
        now = self.store.leases.get(SCOPE)
        self.assertGreater(now.expires_at, self.clock.time())
        self.assertEqual(held.epoch, now.epoch, 'it was never lost and taken again')
        self.hanging.clear()
        self.release.set()


class UnderWay(Site):
    """Nodes whose machines boot while their backend cannot be polled."""

    latencies = {'build_s': 2.0, 'delete_s': 0.01}  # noqa: RUF012  # not changed

    def open_backend(self, name):
        site = self

        class Failing(NoopDriver):
            def _changes(self, since):
                site.fail_perhaps()
                return super()._changes(since)

            def _statuses(self, amphora_ids):
                site.fail_perhaps()
                return super()._statuses(amphora_ids)

        return Compute(Failing(cloud=self.cloud), settings=STACK)

    def setUp(self):
        self.trouble = None
        super().setUp()

    def fail_perhaps(self):
        if self.trouble is not None:
            raise self.trouble

    def causes(self, cluster):
        return {one.cause.message for one in self.nodes(cluster) if one.cause is not None}

    def test_a_boot_that_cannot_be_polled_is_the_cause_of_its_node_until_it_can(self):
        cluster, operation = self.create(group(2))
        self.until(lambda: self.states(cluster)[NodeState.BOOTING])
        self.trouble = ServiceUnavailable('Nova refuses.')
        with self.assertLogs('kiln', 'WARNING') as logs:
            self.until(lambda: self.causes(cluster))
        self.assertEqual({'Nova refuses.'}, self.causes(cluster))
        self.assertTrue(any('waits: Nova refuses' in line for line in logs.output), logs.output)
        self.trouble = None
        self.succeeded(operation)
        self.assertEqual(set(), self.causes(cluster))


class Warned(Site):
    def test_a_node_that_fails_is_a_warning_of_the_conductor(self):
        self.fault('build:quota:times=1')
        with self.assertLogs('kiln.engine.nodes.transaction', 'WARNING') as logs:
            self.created(group(1))
        self.assertIn('Cluster web: web-work', logs.output[0])
