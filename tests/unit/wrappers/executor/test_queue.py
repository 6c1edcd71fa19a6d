import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.calls import Traffic
from kiln.exceptions import ConfigurationError
from kiln.wrappers.executor.queue import PerKeyQueue, TrafficQueue
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.operation import Priority

READ, BUILD, CHANGE = Traffic.READ, Traffic.BUILD, Traffic.CHANGE


def queue_of(threads=4, **shares):
    return TrafficQueue(
        threads=threads,
        shares={traffic: shares.get(traffic.value, threads) for traffic in Traffic},
        wanted=lambda _: True,
    )


def taken(queue, now=0.0):
    items = []
    while (pair := queue.take(now)) is not None:
        items.append(pair[1])
    return items


class Order(unittest.TestCase):
    def test_items_are_ordered_by_priority_and_then_by_arrival_across_kinds(self):
        queue = queue_of(threads=9)
        queue.put(READ, Priority.LOW, 'low')
        queue.put(READ, Priority.NORMAL, 'first')
        queue.put(CHANGE, Priority.NORMAL, 'second')
        queue.put(BUILD, Priority.HIGH, 'high')
        queue.put(READ, Priority.NORMAL, 'third')
        self.assertEqual(taken(queue), ['high', 'first', 'second', 'third', 'low'])

    def test_an_item_that_is_put_back_keeps_its_place(self):
        queue = queue_of()
        order = queue.put(READ, Priority.NORMAL, 'first')
        queue.put(READ, Priority.NORMAL, 'second')
        self.assertEqual(queue.take(0.0), (READ, 'first'))
        queue.give_back(READ)
        queue.put(READ, Priority.NORMAL, 'first', order)
        self.assertEqual(taken(queue), ['first', 'second'])

    def test_a_held_kind_waits_while_others_run(self):
        queue = queue_of()
        queue.put(READ, Priority.HIGH, 'read')
        queue.put(CHANGE, Priority.LOW, 'change')
        queue.hold(READ, 5.0)
        queue.hold(READ, 3.0)
        self.assertEqual(taken(queue, 4.9), ['change'])
        self.assertEqual(taken(queue, 5.0), ['read'])


class Parties(unittest.TestCase):
    def test_parties_take_turns_however_many_items_one_of_them_has(self):
        queue = queue_of(threads=20)
        for number in range(6):
            queue.put(BUILD, Priority.NORMAL, f'a{number}', party='a')
        queue.put(BUILD, Priority.NORMAL, 'b0', party='b')
        queue.put(BUILD, Priority.NORMAL, 'b1', party='b')
        found = taken(queue)
        self.assertEqual(found[:4], ['a0', 'b0', 'a1', 'b1'])
        self.assertEqual([one for one in found if one[0] == 'a'], [f'a{i}' for i in range(6)])

    def test_a_priority_comes_before_turns(self):
        queue = queue_of(threads=9)
        queue.put(READ, Priority.NORMAL, 'b', party='b')
        queue.put(READ, Priority.HIGH, 'a1', party='a')
        queue.put(READ, Priority.HIGH, 'a2', party='a')
        self.assertEqual(taken(queue), ['a1', 'a2', 'b'])

    def test_a_party_that_comes_late_does_not_wait_for_the_queue_of_another(self):
        queue = queue_of(threads=1)
        for number in range(1000):
            queue.put(CHANGE, Priority.NORMAL, number, party='huge')
        for _ in range(10):
            queue.take(0.0)
            queue.give_back(CHANGE)
        queue.put(CHANGE, Priority.NORMAL, 'small', party='small')
        first = [queue.take(0.0)[1]]
        queue.give_back(CHANGE)
        first.append(queue.take(0.0)[1])
        self.assertIn('small', first)


class Shares(unittest.TestCase):
    def test_no_kind_takes_more_than_its_share(self):
        queue = queue_of(threads=16, build=3)
        for number in range(5):
            queue.put(BUILD, Priority.NORMAL, number)
        self.assertEqual(taken(queue), [0, 1, 2])

    def test_one_thread_is_reserved_for_each_kind_without_one(self):
        queue = queue_of(threads=5)
        for number in range(9):
            queue.put(BUILD, Priority.HIGH, number)
        self.assertEqual(len(taken(queue)), 3)
        queue.put(READ, Priority.LOW, 'read')
        queue.put(CHANGE, Priority.LOW, 'change')
        self.assertEqual(taken(queue), ['read', 'change'])
        self.assertEqual(queue.running, 5)

    @given(
        st.integers(3, 6),
        st.lists(st.sampled_from([*Traffic, 'back', 'cancel']), max_size=60),
        st.randoms(use_true_random=False),
    )
    def test_threads_are_neither_leaked_nor_exceeded(self, threads, events, chance):
        gone = set()
        queue = TrafficQueue(
            threads=threads, shares=dict.fromkeys(Traffic, 4), wanted=lambda item: item not in gone
        )
        waiting, running, number = set(), [], 0

        def take():
            while (pair := queue.take(0.0)) is not None:
                waiting.discard(pair[1])
                running.append(pair[0])
            for traffic in Traffic:
                free = threads - len(running)
                lacking = [t for t in Traffic if t not in running]
                self.assertLessEqual(len(lacking), free)
                self.assertLessEqual(running.count(traffic), 4)

        for event in events:
            if event == 'back':
                if running:
                    queue.give_back(running.pop(chance.randrange(len(running))))
            elif event == 'cancel':
                if waiting:
                    victim = chance.choice(sorted(waiting))
                    waiting.discard(victim)
                    gone.add(victim)
                    queue.withdraw()
            else:
                number += 1
                waiting.add(number)
                queue.put(event, Priority(chance.randrange(3)), number)
            take()
            self.assertEqual((queue.waiting, queue.running), (len(waiting), len(running)))
        while running:
            queue.give_back(running.pop())
            take()
        self.assertEqual((queue.waiting, queue.running, waiting), (0, 0, set()))

    def test_cancelled_items_behind_a_hanging_one_are_dropped(self):
        gone = set()
        queue = TrafficQueue(
            threads=3, shares=dict.fromkeys(Traffic, 1), wanted=lambda item: item not in gone
        )
        queue.put(READ, Priority.NORMAL, 'hangs')
        queue.take(0.0)
        for number in range(5000):
            queue.put(READ, Priority.NORMAL, number)
            gone.add(number)
            queue.withdraw()
        self.assertLess(len(queue._queues[READ]), 1500)
        self.assertEqual(queue.waiting, 0)


class OneAtATime(unittest.TestCase):
    def test_items_of_a_key_run_one_after_another(self):
        turns = PerKeyQueue()
        self.assertTrue(turns.join('k', 'a'))
        self.assertFalse(turns.join('k', 'b'))
        self.assertTrue(turns.join('other', 'c'))
        self.assertEqual(turns.leave('k', 'a'), 'b')
        self.assertIsNone(turns.leave('k', 'b'))
        self.assertIsNone(turns.leave('other', 'c'))
        self.assertEqual(len(turns), 0)

    def test_an_item_that_leaves_the_queue_early_starts_no_other(self):
        turns = PerKeyQueue()
        for item in 'abc':
            turns.join('k', item)
        self.assertIsNone(turns.leave('k', 'b'))
        self.assertEqual(turns.leave('k', 'a'), 'c')

    def test_a_replacement_takes_the_place_of_an_item(self):
        turns = PerKeyQueue()
        for item in 'ab':
            turns.join('k', item)
        self.assertTrue(turns.hand_over('k', 'a', 'heir'))
        self.assertFalse(turns.hand_over('k', 'b', 'second'))
        self.assertEqual(turns.leave('k', 'heir'), 'second')


class Settings(unittest.TestCase):
    def test_an_invalid_value_is_refused_by_name(self):
        for name, value in (
            ('max_workers', 2), ('max_queue', 0), ('read_workers', 0), ('build_workers', 0),
            ('change_workers', 0), ('timeout_s', 0), ('cleanup_timeout_s', -1),
            ('cleanup_grace_s', -1), ('first_delay_s', 0), ('max_delay_s', 0.1),
        ):  # fmt: skip
            with self.subTest(name), self.assertRaisesRegex(ConfigurationError, name):
                ExecutorSettings(**{name: value})

    def test_a_share_above_max_workers_is_refused_with_both_values(self):
        for name in ('read_workers', 'build_workers', 'change_workers'):
            with self.subTest(name), self.assertRaisesRegex(
                ConfigurationError, rf'{name} must be 1 to 4 \(max_workers\), not 5\.'
            ):  # fmt: skip
                ExecutorSettings(max_workers=4, **{name: 5})

    def test_by_default_builds_and_changes_have_a_part_each(self):
        for workers, read, build, change in (
            (3, 3, 1, 2), (4, 4, 2, 3), (16, 16, 8, 12), (64, 64, 32, 48),
        ):  # fmt: skip
            with self.subTest(workers):
                shares = ExecutorSettings(max_workers=workers).shares
                self.assertEqual(shares, {READ: read, BUILD: build, CHANGE: change})

    def test_a_configured_share_applies(self):
        settings = ExecutorSettings(read_workers=5, build_workers=16, change_workers=1)
        self.assertEqual(settings.shares, {READ: 5, BUILD: 16, CHANGE: 1})
