"""The thread pool for callers' code."""

import functools
import threading
import unittest

import hypothesis
from hypothesis import strategies as st

from kiln.compute.stack import StackSettings
from kiln.exceptions import ConfigurationError
from kiln.wrappers.operations.caller_threads import CallbackLine, CallerThreads
from tests.examples import examples


class Pool(unittest.TestCase):
    def pool(self, size=2):
        pool = CallerThreads('east-callback', size)
        self.addCleanup(pool.close, 0.0)
        return pool

    def test_there_are_never_more_threads_than_its_size(self):
        pool, gate, names, done = self.pool(), threading.Event(), [], threading.Semaphore(0)
        inside = threading.Semaphore(0)
        self.addCleanup(gate.set)

        def run():
            names.append(threading.current_thread().name)
            inside.release()
            gate.wait()
            done.release()

        for _ in range(9):
            pool.submit(run)
        for _ in range(2):
            self.assertTrue(inside.acquire(timeout=60))
        gate.set()
        for _ in range(9):
            self.assertTrue(done.acquire(timeout=60))
        self.assertEqual({'east-callback-1', 'east-callback-2'}, set(names))

    def test_an_idle_thread_is_used_before_another_is_started(self):
        pool, names = self.pool(size=8), set()
        for _ in range(5):
            ran = threading.Event()
            pool.submit(lambda ran=ran: (names.add(threading.current_thread().name), ran.set()))
            self.assertTrue(ran.wait(60))
            while not pool._idle:
                pass
        self.assertEqual({'east-callback-1'}, names)

    def test_a_function_that_blocks_delays_no_other_while_a_thread_is_left(self):
        pool, gate, ran = self.pool(size=4), threading.Event(), threading.Semaphore(0)
        self.addCleanup(gate.set)
        for _ in range(3):
            pool.submit(gate.wait)
        for _ in range(50):
            pool.submit(ran.release)
        for _ in range(50):
            self.assertTrue(ran.acquire(timeout=60))

    def test_one_thread_runs_all_functions_that_return_quickly(self):
        pool, gate, names = CallerThreads('east', 8, stall_s=600), threading.Event(), []
        self.addCleanup(pool.close, 60)
        over = threading.Event()
        pool.submit(gate.wait)
        for _ in range(50):
            pool.submit(lambda: names.append(threading.current_thread().name))
        pool.submit(over.set)
        gate.set()
        self.assertTrue(over.wait(60))
        self.assertEqual(['east-1'] * 50, names)

    @hypothesis.settings(max_examples=examples(10), deadline=None)
    @hypothesis.given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 4))
    def test_each_function_runs_once_however_long_the_others_take(self, kinds, size):
        pool, ran, over = CallerThreads('east-callback', size), [], threading.Semaphore(0)

        def run(number, kind):
            ran.append(number)
            if kind == 9:
                # A function can submit another one.
                pool.submit(lambda: over.release())
            else:
                # Another thread helps where it takes longer than STALL_S.
                threading.Event().wait(0.006 if kind == 8 else 0)
                over.release()

        for number, kind in enumerate(kinds):
            pool.submit(functools.partial(run, number, kind))
        for _ in kinds:
            self.assertTrue(over.acquire(timeout=60))
        pool.close(60)
        self.assertEqual(sorted(ran), list(range(len(kinds))))
        self.assertEqual((set(), 0, 0), (pool._threads, pool._working, pool._called))

    def test_functions_run_in_order(self):
        pool, ran, over = self.pool(size=1), [], threading.Event()
        for number in range(100):
            pool.submit(lambda number=number: ran.append(number))
        pool.submit(over.set)
        self.assertTrue(over.wait(60))
        self.assertEqual(list(range(100)), ran)

    def test_a_function_that_raises_is_logged_and_costs_no_thread(self):
        pool, over = self.pool(size=1), threading.Event()
        with self.assertLogs('kiln.wrappers.operations.caller_threads') as logs:
            pool.submit(lambda: exit(3))
            pool.submit(over.set)
            self.assertTrue(over.wait(60))
        self.assertIn('passed in by the caller of kiln', logs.output[0])

    def test_functions_submitted_after_close_still_run(self):
        pool, over = self.pool(), threading.Event()
        pool.close(60)
        pool.submit(over.set)
        self.assertTrue(over.wait(60))
        pool.close(60)
        self.assertEqual(set(), pool._threads)

    def test_closing_waits_for_running_functions_up_to_its_limit(self):
        pool, gate, inside = self.pool(), threading.Event(), threading.Event()
        self.addCleanup(gate.set)
        pool.submit(lambda: (inside.set(), gate.wait()))
        self.assertTrue(inside.wait(60))
        pool.close(0.01)
        self.assertEqual(1, len(pool._threads))
        threading.Timer(0.01, gate.set).start()
        pool.close(60)
        self.assertEqual(set(), pool._threads)

    def test_the_size_must_be_at_least_one(self):
        for name in ('callback_threads', 'probe_threads'):
            with self.assertRaisesRegex(ConfigurationError, f'{name} must be 1 or more, not 0'):
                StackSettings(**{name: 0})


class Line(unittest.TestCase):
    def test_two_callbacks_of_one_operation_never_run_at_once(self):
        pool = CallerThreads('east-callback', 4)
        self.addCleanup(pool.close, 0.0)
        line, at_once, ran, over = CallbackLine(pool), threading.Lock(), [], threading.Event()

        def run(number):
            ran.append((number, at_once.acquire(blocking=False)))
            at_once.release()

        for number in range(200):
            line.call(run, number)
        line.call(lambda _: over.set(), None)
        self.assertTrue(over.wait(60))
        self.assertEqual([(number, True) for number in range(200)], ran)
