"""Threads of drivers: a slow cluster takes some of them, and each cluster has its turn."""

import threading
import time
import unittest

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.readiness import WhenHttp
from kiln.cluster_drivers.values import ReadyState
from kiln.engine.nodes.driver_threads import (
    CALLS_AT_ONCE,
    MOST,
    DriverThreads,
    LimitedThreads,
)
from tests.unit.cluster_drivers.samples import context, node
from tests.unit.foreign.hostile import HostileServer, dripping_head


class Limited(unittest.TestCase):
    def setUp(self):
        self.shared, self.done = [], []
        self.threads = LimitedThreads(self.shared.append, most=2, turn_s=0.0)

    def add(self, *names):
        for name in names:
            self.threads.run(lambda name=name: self.done.append(name))

    def test_no_more_than_the_limit_are_begun_at_once(self):
        self.add(*'abcd')
        self.assertEqual(2, len(self.shared))

    def test_the_next_one_waits_behind_the_calls_of_other_clusters(self):
        self.add(*'abc')
        self.shared.append(lambda: self.done.append('other'))
        while self.shared:
            self.shared.pop(0)()
        self.assertEqual(['a', 'b', 'other', 'c'], self.done)

    def test_quick_calls_share_a_turn(self):
        self.threads = LimitedThreads(self.shared.append, most=1, turn_s=60.0)
        self.add(*'abc')
        self.shared.pop()()
        self.assertEqual((['a', 'b', 'c'], []), (self.done, self.shared))

    def test_after_the_last_one_there_is_room_again(self):
        self.add('a')
        self.shared.pop()()
        self.assertEqual([], self.shared)
        self.add(*'bcd')
        self.assertEqual(2, len(self.shared))


class Pool(unittest.TestCase):
    def test_closing_leaves_a_call_that_hangs_and_drops_those_that_have_not_begun(self):
        threads, gate, begun = DriverThreads(), threading.Event(), threading.Event()

        def hang():
            begun.set()
            gate.wait()

        threads.run(hang)
        begun.wait()
        threads.close(wait_s=0.01)
        gate.set()
        with self.assertRaises(RuntimeError):
            threads.run(hang)


class Hostile(unittest.TestCase):
    """Clusters of eight nodes that drip, and one of two nodes that answer."""

    look_s = 0.5

    def setUp(self):
        self.dripping = self.enterContext(HostileServer(dripping_head))
        self.honest = self.enterContext(HostileServer(_answer))
        self.threads = DriverThreads()
        self.addCleanup(self.threads.close)
        self.ended = []

    def poll(self, name, server, ready):
        def call():
            with deadline_scope(Deadline.after(self.look_s)):
                found = WhenHttp(server.port)(context(), node(address='127.0.0.1'))
            self.ended.append((name, found.state))
            ready.release()

        return call

    def cluster(self, name, server, nodes, rounds=1):
        """Poll the nodes of a cluster; return what counts the polls that have ended."""
        limited, ended = LimitedThreads(self.threads.run), threading.Semaphore(0)
        for _ in range(nodes * rounds):
            limited.run(self.poll(name, server, ended))
        return ended

    def ready_s(self):
        began = time.monotonic()
        ended = self.cluster('honest', self.honest, 2)
        for _ in range(2):
            self.assertTrue(ended.acquire(timeout=10))
        return time.monotonic() - began

    def test_a_cluster_that_drips_leaves_another_ready_at_once(self):
        self.cluster('dripping', self.dripping, 8, rounds=4)
        self.ready_s()
        self.assertEqual([('honest', ReadyState.READY)] * 2, self.ended)

    def test_more_clusters_than_there_are_threads_for_leave_another_ready_after_a_look(self):
        for number in range(MOST // CALLS_AT_ONCE + 1):
            self.cluster(f'dripping-{number}', self.dripping, 8, rounds=4)
        self.ready_s()
        # Not all threads have ended a second look.
        self.assertLess(len(self.ended), 2 * MOST)

    def test_closing_waits_no_longer_than_a_look_for_nodes_that_drip(self):
        self.cluster('dripping', self.dripping, 8, rounds=4)
        began = time.monotonic()
        self.threads.close()
        self.assertLess(time.monotonic() - began, 5.0)
        self.assertEqual([('dripping', ReadyState.NOT_YET)] * 8, self.ended)


def _answer(server, stream):
    stream.sendall(b'HTTP/1.1 204 No Content\r\n\r\n')
