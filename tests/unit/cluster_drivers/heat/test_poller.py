"""HeatPoller: one list a tick for all clusters of a site, details for what changed; 000-11."""

import threading
import unittest

from kiln.cluster_drivers.heat.errors import HeatUnavailable
from kiln.cluster_drivers.heat.poller import QUIET_S, TICK_S, HeatPoller, News
from kiln.openstack.heat.events import StackEvent
from kiln.openstack.heat.rows import StackRow
from kiln.testing.clock import VirtualClock


def row(name, status='IN_PROGRESS'):
    return StackRow(id=f'id-{name}', name=name, action='UPDATE', status=status)


class Lists:
    """A client that lists stacks."""

    def __init__(self, *rows):
        self.rows = list(rows)
        self.asked = []
        self.error = None

    def stacks(self, **filters):
        self.asked.append(filters)
        if self.error:
            raise self.error
        yield from self.rows

    def outputs(self, name, id_):
        self.asked.append(name)
        return {'name': name}


class Hanging:
    """A client whose list hangs until it may go on, and then ends with an error or without."""

    def __init__(self, error=None):
        self.asked = 0
        self.error = error
        self.begun, self.go_on = threading.Event(), threading.Event()

    def stacks(self, **_):
        self.asked += 1
        self.begun.set()
        self.go_on.wait(30)
        if self.error:
            raise self.error
        yield row('a')


class CountedClock(VirtualClock):
    """A clock that lets a test wait until it was read some times."""

    def __init__(self):
        super().__init__()
        self.was_read = threading.Semaphore(0)

    def monotonic(self):
        now = super().monotonic()
        self.was_read.release()
        return now


class Polls(unittest.TestCase):
    def setUp(self):
        self.clock = VirtualClock()
        self.poller = HeatPoller(self.clock)

    def test_000_11_one_list_a_tick_serves_all_clusters_of_a_site(self):
        names = [f'n{n}' for n in range(50)]
        client = Lists(*map(row, names))
        for tick in range(1, 4):
            for name in names:
                self.assertEqual(name, self.poller.row(client, 'east', name).name)
            self.assertEqual([{'tags': 'kiln:site=east'}] * tick, client.asked)
            self.clock.advance(TICK_S)

    def test_each_site_and_each_project_has_a_list_of_its_own(self):
        one, other = Lists(row('a')), Lists()
        self.poller.row(one, 'east', 'a')
        self.poller.row(one, 'west', 'a')
        self.assertIsNone(self.poller.row(other, 'east', 'a'))
        self.assertEqual((2, 1), (len(one.asked), len(other.asked)))

    def test_a_list_from_before_a_request_does_not_count_for_its_stack(self):
        client = Lists(row('a', 'COMPLETE'), row('b'))
        self.poller.row(client, 'east', 'a')
        with self.poller.changing(client, 'east', 'a'):
            # Another thread lists while the request is under way.
            self.clock.advance(TICK_S)
            self.poller.row(client, 'east', 'a')
        client.rows[0] = row('a')
        self.poller.row(client, 'east', 'b')
        self.assertEqual(2, len(client.asked))
        self.assertEqual('IN_PROGRESS', self.poller.row(client, 'east', 'a').status)
        self.assertEqual(3, len(client.asked))

    def test_a_list_that_fails_is_an_error_for_each_that_asks_and_the_next_tick_tries_again(self):
        client = Lists(row('a'))
        client.error = HeatUnavailable('away')
        raised = []
        for _ in range(50):
            with self.assertRaises(HeatUnavailable) as caught:
                self.poller.row(client, 'east', 'a')
            raised.append(caught.exception)
        self.assertEqual(1, len(client.asked))
        self.assertEqual({('away', True)}, {(one.reason, one.retryable) for one in raised})
        # Each caller masks and extends its own.
        self.assertEqual(50, len({id(one) for one in raised}))
        client.error = None
        self.clock.advance(TICK_S)
        self.assertEqual('a', self.poller.row(client, 'east', 'a').name)

    def test_callers_that_waited_for_a_list_that_hung_and_failed_do_not_try_it_again(self):
        client = Hanging(HeatUnavailable('no answer'))
        errors = []

        def poll():
            try:
                self.poller.row(client, 'east', 'a')
            except HeatUnavailable as exc:
                errors.append(exc.reason)

        threads = [threading.Thread(target=poll) for _ in range(8)]
        threads[0].start()
        client.begun.wait(10)
        for thread in threads[1:]:
            thread.start()
        self.clock.advance(60.0)
        client.go_on.set()
        for thread in threads:
            thread.join(10)
        poll()
        self.assertEqual(['no answer'] * 9, errors)
        self.assertEqual(1, client.asked)

    def test_a_change_does_not_wait_for_a_list_that_hangs_and_is_not_covered_by_it(self):
        client = Hanging()
        thread = threading.Thread(target=self.poller.row, args=(client, 'east', 'b'))
        thread.start()
        client.begun.wait(10)
        changed = threading.Event()

        def change():
            with self.poller.changing(client, 'east', 'a'):
                pass
            changed.set()

        changing = threading.Thread(target=change)
        changing.start()
        in_time = changed.wait(5)
        client.go_on.set()
        thread.join(10)
        changing.join(10)
        self.assertTrue(in_time)
        self.poller.row(client, 'east', 'b')
        self.assertEqual(1, client.asked)
        self.poller.row(client, 'east', 'a')
        self.assertEqual(2, client.asked)

    def test_a_change_before_a_list_that_breaks_off_still_counts(self):
        client = Lists(row('a'))
        self.poller.row(client, 'east', 'a')
        with self.poller.changing(client, 'east', 'a'):
            pass
        client.error = ValueError('not a list at all')
        with self.assertRaises(ValueError):
            self.poller.row(client, 'east', 'a')
        client.error, client.rows = None, [row('a', 'COMPLETE')]
        self.assertEqual('COMPLETE', self.poller.row(client, 'east', 'a').status)

    def test_callers_that_waited_for_a_slow_list_are_served_by_it(self):
        clock, client = CountedClock(), Hanging()
        poller = HeatPoller(clock)
        threads = [
            threading.Thread(target=poller.row, args=(client, 'east', 'a')) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        # Each reads the time once, and the one that requests the list twice.
        for _ in range(9):
            self.assertTrue(clock.was_read.acquire(timeout=10))
        clock.advance(2 * TICK_S)
        client.go_on.set()
        for thread in threads:
            thread.join(10)
        self.assertEqual(1, client.asked)

    def test_many_threads_share_one_list(self):
        client = Lists(row('a'))
        threads = [
            threading.Thread(target=self.poller.row, args=(client, 'east', 'a')) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(1, len(client.asked))

    def test_details_are_requested_once_for_each_change_of_a_row(self):
        client = Lists()
        for found in (row('a'), row('a'), row('a', 'COMPLETE'), row('a', 'COMPLETE')):
            self.assertEqual({'name': 'a'}, self.poller.detail(found, client.outputs))
        self.assertEqual(['a', 'a'], client.asked)


class Tail(unittest.TestCase):
    """Events of stacks in progress; none for long means that an engine of Heat was killed."""

    def setUp(self):
        self.clock = VirtualClock()
        self.poller = HeatPoller(self.clock)
        self.rows = [row('a')]
        self.now = []
        self.asked = []

    def stacks(self, **_):
        yield from self.rows

    def events(self, name, id_, after=''):
        self.asked.append((name, after))
        return self.now

    def after(self, seconds, number=0, after=''):
        """Return the news of a stack once some seconds have passed."""
        self.clock.advance(seconds)
        found = self.poller.row(self, 'east', self.rows[number].name)
        return self.poller.news(self, 'east', found, after)

    def happens(self, id_='1'):
        self.now = [StackEvent(id=id_)]

    def test_each_tick_reads_what_has_happened_since_the_last_event(self):
        self.happens()
        self.assertEqual(News(self.now), self.after(0))
        self.assertEqual(News(), self.after(TICK_S / 2, after='1'))
        self.happens('2')
        self.assertEqual(News(self.now), self.after(TICK_S / 2, after='1'))
        self.assertEqual([('a', ''), ('a', '1')], self.asked)

    def test_a_tick_has_one_request_for_events_however_many_are_in_progress(self):
        self.rows = [row(f'n{n}') for n in range(4)]
        self.happens()
        ticks = 40
        for _ in range(ticks):
            self.clock.advance(TICK_S)
            for number in range(4):
                self.after(0, number)
        self.assertLessEqual(len(self.asked), ticks + len(self.rows))
        self.assertEqual({one.name for one in self.rows}, {name for name, _ in self.asked})

    def test_events_of_many_stacks_at_once_are_not_read(self):
        self.rows = [row(f'n{n}') for n in range(11)]
        for _ in range(int(QUIET_S / TICK_S)):
            self.after(TICK_S)
        self.assertEqual([], self.asked)
        self.after(TICK_S)
        self.assertEqual([('n0', '')], self.asked)

    def test_settled_stacks_do_not_count(self):
        self.rows += [row(f'n{n}', 'COMPLETE') for n in range(20)]
        self.after(0)
        self.after(TICK_S)
        self.assertEqual([('a', '')] * 2, self.asked)

    def test_a_stack_is_quiet_once_it_had_no_event_for_long(self):
        self.happens()
        self.after(0)
        self.assertFalse(self.after(QUIET_S).quiet)
        self.now = []
        self.assertFalse(self.after(QUIET_S - TICK_S).quiet)
        self.assertTrue(self.after(TICK_S).quiet)

    def test_an_event_or_another_state_is_a_sign_of_work(self):
        self.after(0)
        for number in range(5):
            self.happens(f'event {number}')
            self.assertFalse(self.after(QUIET_S).quiet)
        self.now = []
        self.assertFalse(self.after(QUIET_S - 1).quiet)
        self.rows = [row('a', 'COMPLETE')]
        self.assertFalse(self.after(TICK_S).quiet)

    def test_after_it_was_quiet_it_has_as_long_again(self):
        self.after(0)
        self.assertTrue(self.after(QUIET_S).quiet)
        self.assertFalse(self.after(QUIET_S - 1).quiet)

    def test_a_request_that_fails_is_no_sign_of_anything(self):
        self.after(0)
        self.now = None
        failing = HeatUnavailable('away')

        def events(*_):
            raise failing

        self.events, heat = events, self.events
        for _ in range(int(QUIET_S / TICK_S)):
            with self.assertRaises(HeatUnavailable):
                self.after(TICK_S)
        self.events, self.now = heat, []
        self.assertTrue(self.after(0).quiet)
