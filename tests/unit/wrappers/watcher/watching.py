"""Base class for tests of the watcher."""

import unittest

from kiln.clock import Deadline
from kiln.models import State
from kiln.telemetry.events import Listener
from kiln.wrappers.operations.scheduler import Scheduler
from kiln.wrappers.watcher.interval import WatcherSettings
from kiln.wrappers.watcher.watcher import Watcher
from tests.self_moving_clock import MovingTime
from tests.unit.wrappers.watcher.cursor_driver import CursorDriver


class Ticks(Listener):
    def __init__(self):
        self.seen = []

    def ticked(self, backend, watched, lag_s):
        self.seen.append((backend, watched, lag_s))


class Nobody:
    """Keeps waiters after their end."""

    def expire(self, waiter):
        pass

    def ended(self, waiter):
        pass


class WatchingTest(MovingTime, unittest.TestCase):
    settings = WatcherSettings()
    close_s = 10.0

    def setUp(self):
        self.clock = self.open_clock()
        self.ticks = Ticks()
        self.driver = self.make_driver()
        self.scheduler = Scheduler(name='east', clock=self.clock)
        self.addCleanup(self.scheduler.close)
        self.watcher = Watcher(
            self.driver,
            scheduler=self.scheduler,
            settings=self.settings,
            listener=self.ticks,
            close_s=self.close_s,
        )
        self.addCleanup(self.watcher.close)

    def make_driver(self):
        return CursorDriver(self.clock)

    def after(self, seconds):
        return Deadline.after(seconds, self.clock)

    def settle(self, future):
        self.until(future.done)
        return future.result()

    def settled_error(self, future):
        self.until(future.done)
        return future.exception()

    def looks(self, count=2):
        """Let time pass until that many more polls were made."""
        goal = len(self.ticks.seen) + count
        self.until(lambda: len(self.ticks.seen) >= goal)

    def begin(self, amphora_id='a', state=State.BUILDING, goal=(State.ACTIVE,), **more):
        """Watch an amphora in some state, until it has been polled."""
        self.driver.put(amphora_id, state)
        future = self.watcher.watch(amphora_id, goal, **more)
        self.until(lambda: future.done() or self.watcher.latest(amphora_id))
        return future
