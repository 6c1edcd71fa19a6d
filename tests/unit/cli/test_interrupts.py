"""Where Ctrl-C and SIGTERM may interrupt the main thread."""

import unittest

from kiln.cli.interrupts import MOST_LOOKS, Interrupt


def at_work(name='wait'):
    """Return a generator whose frame belongs to a function of this name."""

    def work():
        while True:
            yield
            yield

    work.__code__ = work.__code__.replace(co_name=name)
    steps = work()
    next(steps)
    return steps


class InterruptTest(unittest.TestCase):
    def setUp(self):
        self.interrupt = Interrupt()
        self.interrupt.wanted = True

    def interrupted(self, steps):
        try:
            self.interrupt.look(steps.gi_frame)
        except KeyboardInterrupt:
            return True
        return False

    def test_a_thread_that_waits_is_interrupted_at_the_second_look(self):
        steps = at_work()
        self.assertEqual([False, True], [self.interrupted(steps) for _ in range(2)])

    def test_a_thread_that_moves_is_interrupted_where_it_waits(self):
        steps = at_work()
        looks = []
        for _ in range(5):
            looks.append(self.interrupted(steps))
            next(steps)
        looks.append(self.interrupted(steps))
        looks.append(self.interrupted(steps))
        self.assertEqual([False] * 6 + [True], looks)

    def test_a_thread_that_never_waits_is_interrupted_after_half_a_second(self):
        steps = at_work()
        looks = 0
        while not self.interrupted(steps):
            looks += 1
            next(steps)
        self.assertEqual(MOST_LOOKS, looks)

    def test_nothing_is_raised_where_a_lock_may_be_held(self):
        for name in ('__enter__', '__exit__', '_acquire_restore'):
            with self.subTest(name):
                self.setUp()
                steps = at_work(name)
                for _ in range(2 * MOST_LOOKS):
                    self.assertFalse(self.interrupted(steps))
                    next(steps)

    def test_a_thread_that_waits_for_a_lock_without_end_is_interrupted(self):
        steps = at_work('__enter__')
        looks = 0
        while not self.interrupted(steps):
            looks += 1
        self.assertEqual(MOST_LOOKS, looks)

    def test_one_wish_interrupts_once(self):
        steps = at_work()
        self.assertEqual([False, True], [self.interrupted(steps) for _ in range(2)])
        self.assertEqual([False] * 3, [self.interrupted(steps) for _ in range(3)])
