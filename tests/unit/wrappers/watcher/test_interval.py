"""Time of the watcher's next poll."""

import itertools
import unittest

from kiln.exceptions import ConfigurationError
from kiln.wrappers.watcher.interval import LAST_POLL_S, NEWS_S, PollInterval, WatcherSettings


class SettingsTest(unittest.TestCase):
    def test_invalid_settings_are_refused_by_name(self):
        wrong = {
            'interval_s must': {'interval_s': 0},
            'max_interval_s must': {'interval_s': 5, 'max_interval_s': 4},
            'finite': {'max_interval_s': float('inf')},
            'jitter must': {'jitter': 0.6},
            'full_sweep_s must': {'full_sweep_s': 0},
        }
        for text, values in wrong.items():
            with self.subTest(values), self.assertRaisesRegex(ConfigurationError, text):
                WatcherSettings(**values)

    def test_statuses_are_stale_at_twice_the_longest_interval(self):
        self.assertEqual(240, WatcherSettings(max_interval_s=120).oldest_s)


class PaceTest(unittest.TestCase):
    def interval(self, *, chance=0.5, **settings):
        return PollInterval(WatcherSettings(**settings), chance=lambda: chance)

    def hurried(self, now=100.0, **settings):
        interval = self.interval(**settings)
        interval.poll_by(now)
        return interval

    def test_the_first_waiter_is_polled_at_once(self):
        self.assertEqual(100.0, self.hurried().due)

    def test_during_changes_polls_are_one_short_interval_apart(self):
        interval = self.hurried(interval_s=2.0)
        interval.answered(500.0, 500.1, moved=True)
        self.assertAlmostEqual(502.0, interval.due)

    def test_without_changes_the_interval_is_a_tenth_of_the_quiet_time_up_to_the_longest(self):
        interval = self.hurried(now=0.0)
        for quiet_s, interval_s in ((5, 1), (10, 1), (50, 5), (200, 20), (3000, 30)):
            interval.answered(quiet_s, quiet_s, moved=False)
            self.assertAlmostEqual(quiet_s + interval_s, interval.due)

    def test_polls_that_failed_resume_once_the_backend_answers_other_calls(self):
        interval = self.hurried()
        for _ in range(9):
            interval.failed(100.0, None)
        self.assertGreaterEqual(interval.due, 130.0)
        self.assertTrue(interval.resume(105.0))
        self.assertEqual(105.0, interval.due)
        interval.failed(105.0, None)
        self.assertLess(interval.due, 108.0)

    def test_a_circuit_is_no_reason_to_wait_once_it_closes_but_a_request_of_the_backend_is(self):
        for requested, due in ((False, 105.0), (True, 120.0)):
            interval = self.hurried()
            interval.failed(100.0, 20.0, requested=requested)
            self.assertTrue(interval.resume(105.0))
            self.assertEqual(due, interval.due)

    def test_polls_that_are_answered_or_not_needed_do_not_resume(self):
        interval = self.interval()
        self.assertFalse(interval.resume(100.0))
        interval.poll_by(100.0)
        interval.answered(100.0, 100.0, moved=False)
        due = interval.due
        self.assertFalse(interval.resume(100.1))
        self.assertEqual(due, interval.due)

    def test_a_new_waiter_ends_the_quiet_time_but_not_the_short_interval(self):
        interval = self.hurried(now=0.0)
        interval.answered(300.0, 300.0, moved=False)
        interval.poll_by(300.4)
        self.assertAlmostEqual(301.0, interval.due)
        interval.answered(301.0, 301.0, moved=False)
        self.assertAlmostEqual(302.0, interval.due)

    def test_a_new_waiter_after_a_long_quiet_time_is_polled_at_once(self):
        interval = self.hurried(now=0.0)
        interval.answered(300.0, 300.0, moved=False)
        interval.poll_by(310.0)
        self.assertAlmostEqual(310.0, interval.due)

    def test_a_waiter_with_a_soonest_time_is_polled_then(self):
        interval = self.hurried(now=102.0)
        self.assertEqual(102.0, interval.due)
        self.assertFalse(interval.poll_by(103.0))
        self.assertEqual(102.0, interval.due)
        self.assertTrue(interval.poll_by(101.0))
        self.assertEqual(101.0, interval.due)

    def test_a_notification_is_polled_before_the_short_interval_ends(self):
        interval = self.hurried(now=0.0, interval_s=2.0)
        interval.answered(10.0, 10.1, moved=True)
        self.assertTrue(interval.poll_by(10.15, news=True))
        self.assertAlmostEqual(10.1 + NEWS_S, interval.due)
        interval.answered(20.0, 20.1, moved=True)
        self.assertTrue(interval.poll_by(21.0, news=True))
        self.assertEqual(21.0, interval.due)

    def test_a_new_waiter_does_not_delay_the_poll_of_a_notification(self):
        interval = self.hurried(now=0.0, interval_s=2.0)
        interval.answered(10.0, 10.1, moved=True)
        interval.poll_by(11.0, news=True)
        self.assertFalse(interval.poll_by(11.0))
        self.assertEqual(11.0, interval.due)

    def test_a_notification_never_delays_a_poll(self):
        interval = self.hurried(now=0.0, interval_s=NEWS_S / 4, jitter=0.0)
        interval.answered(10.0, 10.0, moved=True)
        self.assertAlmostEqual(10.0 + NEWS_S / 4, interval.due)
        interval.poll_by(10.0, news=True)
        self.assertAlmostEqual(10.0 + NEWS_S / 4, interval.due)

    def test_the_quiet_time_begins_with_the_last_waiter(self):
        interval = self.hurried(now=50.0)
        interval.poll_by(20.0)
        interval.answered(60.0, 60.0, moved=False)
        self.assertAlmostEqual(61.0, interval.due)

    def test_a_planned_poll_does_not_count_once_there_are_no_waiters(self):
        interval = self.hurried(now=0.0)
        interval.answered(0.0, 0.0, moved=True)
        interval.stop_polling()
        self.assertTrue(interval.poll_by(102.0))
        self.assertEqual(102.0, interval.due)

    def test_a_slow_backend_gets_a_pause_as_long_as_its_poll(self):
        interval = self.hurried(now=0.0, interval_s=2.0)
        for took_s, rest_s in ((1.5, 1.5), (7.0, 2.0)):
            ended = 10.0 + took_s
            interval.answered(10.0, ended, moved=True)
            self.assertAlmostEqual(ended + rest_s, interval.due)
            interval.poll_by(ended)
            self.assertAlmostEqual(ended + rest_s, interval.due)

    def test_a_last_poll_comes_at_once_and_later_polls_no_more_often(self):
        interval = self.hurried(now=0.0, jitter=0.0)
        interval.answered(0.0, 0.0, moved=True)
        interval.answered(200.0, 200.0, moved=False)
        self.assertEqual(220.0, interval.due)
        self.assertTrue(interval.poll_last(210.0))
        self.assertEqual(210.0, interval.due)
        interval.answered(210.0, 210.0, moved=False)
        self.assertEqual(231.0, interval.due)

    def test_a_last_poll_requested_during_a_poll_follows_it(self):
        interval = self.hurried(now=0.0, jitter=0.0)
        interval.poll_last(1.0)
        interval.answered(0.5, 1.5, moved=False)
        self.assertEqual(1.5 + NEWS_S, interval.due)

    def test_a_last_poll_never_comes_before_retry_after(self):
        interval = self.hurried(now=0.0)
        interval.failed(10.0, 100.0)
        self.assertFalse(interval.poll_last(20.0))

    def test_a_last_poll_is_early_enough_for_a_slow_backend(self):
        interval = self.hurried(now=0.0)
        self.assertEqual(LAST_POLL_S, interval.last_poll_s(60.0))
        self.assertEqual(0.1, interval.last_poll_s(0.2))
        interval.answered(0.0, 4.0, moved=True)
        self.assertEqual(8.0 + NEWS_S, interval.last_poll_s(60.0))

    def test_jitter_varies_the_interval_both_ways_within_its_bounds(self):
        for chance, due in ((0.0, 9.0), (0.5, 10.0), (1.0, 11.0)):
            interval = self.hurried(now=0.0, interval_s=10.0, jitter=0.1, chance=chance)
            interval.answered(0.0, 0.0, moved=True)
            self.assertAlmostEqual(due, interval.due)

    def test_failures_back_off_by_doubling_up_to_the_longest_interval(self):
        interval = self.hurried(now=0.0, chance=0.0)
        waits = []
        for _ in range(8):
            interval.failed(1000.0, None)
            waits.append(interval.due - 1000.0)
        self.assertEqual([2, 4, 8, 16, 30, 30, 30, 30], waits)

    def test_days_of_failures_do_not_overflow(self):
        interval = self.hurried(chance=0.0)
        for _ in range(5000):
            interval.failed(0.0, None)
        self.assertEqual(30.0, interval.due)

    def test_nothing_causes_a_poll_before_retry_after(self):
        for chance, hurries in itertools.product((0.0, 1.0), ((), (False,), (True,))):
            interval = self.hurried(now=0.0, chance=chance)
            interval.failed(10.0, 100.0)
            for news in hurries:
                interval.poll_by(20.0, news=news)
            self.assertTrue(110.0 <= interval.due < 120.1, interval.due)

    def test_an_answered_poll_ends_the_back_off(self):
        interval = self.hurried(now=0.0, chance=0.5, jitter=0.0)
        for _ in range(5):
            interval.failed(10.0, None)
        interval.answered(50.0, 50.0, moved=True)
        self.assertEqual(51.0, interval.due)
        interval.failed(60.0, None)
        self.assertEqual(62.0, interval.due)
