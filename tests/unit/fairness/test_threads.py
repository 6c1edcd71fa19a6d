"""Threads that clusters share: none takes all, and the one that has used least comes first."""

import queue
import threading
import unittest

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.readiness import WhenHttp
from kiln.cluster_drivers.values import ReadyState
from kiln.cluster_service.site import CALLS_EACH, DRIVER_CALLS
from kiln.fairness.threads import FairThreads
from kiln.fairness.turns import current_party
from kiln.testing.clock import VirtualClock
from tests.unit.cluster_drivers.samples import context, node
from tests.unit.foreign.hostile import HostileServer, dripping_head

#: Longer than any correct wait.
PATIENCE_S = 60.0


class Sharing(unittest.TestCase):
    def setUp(self):
        self.begun, self.gates = queue.SimpleQueue(), {}
        self.clock = VirtualClock()

    def open(self, most, each):
        threads = FairThreads(most, each=each, name='test', monotonic=self.clock.monotonic)
        self.addCleanup(threads.join, PATIENCE_S)
        self.addCleanup(threads.close)
        self.addCleanup(lambda: [gate.set() for gate in self.gates.values()])
        return threads

    def hold(self, threads, *names):
        """Run functions, named by party and number, that last until their gate is opened."""
        for name in names:
            gate = self.gates[name] = threading.Event()

            def run(name=name, gate=gate):
                self.begun.put((name, current_party()))
                gate.wait(PATIENCE_S)

            threads.run(name[0], run)

    def begins(self, count):
        """Return the names of the functions that begin next."""
        return sorted(self.begun.get(timeout=PATIENCE_S)[0] for _ in range(count))

    def ends(self, name):
        self.gates[name].set()

    def test_no_more_than_the_limits_are_begun_at_once(self):
        self.hold(self.open(3, 2), 'a1', 'a2', 'a3', 'b1', 'b2', 'b3')
        self.assertEqual(['a1', 'a2', 'b1'], self.begins(3))
        # Were there another thread, or another place for it, a3 would have begun before.
        for ended, next_one in (('b1', 'b2'), ('b2', 'b3'), ('a1', 'a3')):
            self.ends(ended)
            self.assertEqual([next_one], self.begins(1))

    def test_a_party_whose_limit_is_reached_leaves_its_turn_to_others(self):
        threads = self.open(2, 1)
        self.hold(threads, 'a1', 'a2', 'b1')
        self.assertEqual(['a1', 'b1'], self.begins(2))
        self.ends('a1')
        self.assertEqual(['a2'], self.begins(1))

    def test_functions_of_one_party_begin_in_order(self):
        threads = self.open(1, 1)
        names = [f'a{number}' for number in range(10)]
        self.hold(threads, *names)
        for name in names:
            self.assertEqual([name], self.begins(1))
            self.ends(name)

    def test_the_party_that_has_used_the_threads_least_comes_first(self):
        threads = self.open(1, 1)
        self.hold(threads, 'a1', 'a2', 'a3')
        self.assertEqual(['a1'], self.begins(1))
        self.hold(threads, 'b1', 'b2', 'b3')
        for ended, used_s, next_one in (
            ('a1', 5.0, 'b1'), ('b1', 2.0, 'b2'), ('b2', 4.0, 'a2'), ('a2', 0.0, 'a3'),
            ('a3', 2.0, 'b3'),
        ):  # fmt: skip
            self.clock.advance(used_s)
            self.ends(ended)
            self.assertEqual([next_one], self.begins(1))

    def test_a_function_works_for_its_party(self):
        self.hold(self.open(1, 1), 'a1')
        self.assertEqual(('a1', 'a'), self.begun.get(timeout=PATIENCE_S))

    def test_a_function_that_fails_ends_no_thread(self):
        threads, done = self.open(1, 1), threading.Event()

        def fail():
            raise SystemExit

        with self.assertLogs('kiln.fairness', 'ERROR'):
            threads.run('a', fail)
            threads.run('b', done.set)
            self.assertTrue(done.wait(PATIENCE_S))

    def test_closing_drops_what_has_not_begun_and_leaves_what_hangs(self):
        threads = self.open(1, 1)
        self.hold(threads, 'a1', 'a2')
        self.begins(1)
        threads.close()
        self.hold(threads, 'b1')
        self.assertFalse(threads.join(0.01))
        self.ends('a1')
        self.assertTrue(threads.join(PATIENCE_S))
        self.assertTrue(self.begun.empty())

    def test_many_functions_of_many_parties_each_run_once(self):
        threads, done, count = self.open(8, 2), [], threading.Semaphore(0)

        def run(name):
            done.append(name)
            count.release()

        names = [(party, number) for number in range(50) for party in 'abcdefgh']
        for name in names:
            threads.run(name[0], lambda name=name: run(name))
        for _ in names:
            self.assertTrue(count.acquire(timeout=PATIENCE_S))
        self.assertEqual(sorted(names), sorted(done))


class Hostile(unittest.TestCase):
    """Clusters of eight nodes that drip, and one of two nodes that answer."""

    look_s = 0.5

    def setUp(self):
        self.dripping = self.enterContext(HostileServer(dripping_head))
        self.honest = self.enterContext(HostileServer(_answer))
        self.threads = FairThreads(DRIVER_CALLS, each=CALLS_EACH, name='test')
        self.addCleanup(self.threads.close)
        self.begun, self.ended = [], []

    def poll(self, name, server, ready):
        def call():
            self.begun.append(name)
            with deadline_scope(Deadline.after(self.look_s)):
                found = WhenHttp(server.port)(context(), node(address='127.0.0.1'))
            self.ended.append((name, found.state))
            ready.release()

        return call

    def cluster(self, name, server, nodes, rounds=1):
        """Poll the nodes of a cluster; return what counts the polls that have ended."""
        ended = threading.Semaphore(0)
        for _ in range(nodes * rounds):
            self.threads.run(name, self.poll(name, server, ended))
        return ended

    def await_both(self, ended):
        for _ in range(2):
            self.assertTrue(ended.acquire(timeout=PATIENCE_S))

    def test_a_cluster_that_drips_leaves_another_ready_at_once(self):
        # None of its polls ends before.
        self.look_s = 2 * PATIENCE_S
        self.cluster('dripping', self.dripping, 8, rounds=4)
        self.await_both(self.cluster('honest', self.honest, 2))
        self.assertEqual([('honest', ReadyState.READY)] * 2, self.ended)

    def test_more_clusters_than_there_are_threads_for_leave_another_ready_after_a_look(self):
        clusters = DRIVER_CALLS // CALLS_EACH + 1
        for number in range(clusters):
            self.cluster(f'dripping-{number}', self.dripping, 8, rounds=4)
        ended = self.cluster('honest', self.honest, 2)
        before = max(len(self.begun), DRIVER_CALLS)
        self.await_both(ended)
        # At most one poll of each other cluster comes before it.
        self.assertLessEqual(self.begun.index('honest'), before + clusters)

    def test_after_closing_polls_under_way_of_nodes_that_drip_end_and_no_other_begins(self):
        ended = self.cluster('dripping', self.dripping, 8, rounds=100)
        self.assertTrue(ended.acquire(timeout=PATIENCE_S))
        self.threads.close()
        self.assertTrue(self.threads.join(PATIENCE_S))
        begun = len(self.begun)
        self.assertLess(begun, 100 * CALLS_EACH)
        self.assertEqual([('dripping', ReadyState.NOT_YET)] * begun, self.ended)


def _answer(server, stream):
    stream.sendall(b'HTTP/1.1 204 No Content\r\n\r\n')
