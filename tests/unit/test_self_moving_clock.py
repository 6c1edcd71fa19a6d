"""Self-moving clock of the tests: time passes only while every thread waits."""

import _thread
import threading
import unittest

from tests.self_moving_clock import MovingTime


class Leaving(threading.Thread):
    """A thread that is invisible at its end, and stays alive until released."""

    def __init__(self) -> None:
        super().__init__()
        # The clock sees waits on conditions, but not on this lock.
        self.may_go = _thread.allocate_lock()
        self.may_go.acquire()
        self.daemon = True

    def _delete(self):
        super()._delete()
        self.may_go.acquire()


class Standing(MovingTime, unittest.TestCase):
    def setUp(self):
        self.clock = self.open_clock()
        self.began = self.clock.monotonic()

    def passed_s(self):
        return self.clock.monotonic() - self.began

    def compute(self, ended):
        held = _thread.allocate_lock()
        held.acquire()
        held.acquire(timeout=0.01)
        ended.set()

    def test_it_moves_to_the_next_alarm_once_all_threads_wait(self):
        self.clock.sleep(3600.0)
        self.assertEqual(3600.0, self.passed_s())

    def test_it_stands_until_expired_waiters_have_run(self):
        for _ in range(3):
            ended = threading.Event()
            sleeper = threading.Thread(target=self.clock.sleep, args=(5.0,), daemon=True)
            sleeper.start()
            threading.Thread(target=self.compute, args=(ended,), daemon=True).start()
            before = self.passed_s()
            self.until(ended.is_set)
            self.assertEqual(before, self.passed_s())
            sleeper.join()

    def test_it_stands_while_a_thread_computes(self):
        held = _thread.allocate_lock()
        held.acquire()
        busy = threading.Thread(target=held.acquire, daemon=True)
        sleeper = threading.Thread(target=self.clock.sleep, args=(5.0,), daemon=True)
        busy.start()
        sleeper.start()
        sleeper.join(0.1)
        self.assertEqual(0.0, self.passed_s())
        held.release()
        sleeper.join()
        self.assertEqual(5.0, self.passed_s())
        busy.join()

    def test_it_stands_while_a_joined_thread_is_still_ending(self):
        leaving = Leaving()
        sleeper = threading.Thread(target=self.clock.sleep, args=(5.0,), daemon=True)
        leaving.start()
        sleeper.start()
        leaving.join(0.1)
        self.assertEqual(0.0, self.passed_s())
        leaving.may_go.release()
        leaving.join()
        sleeper.join()
