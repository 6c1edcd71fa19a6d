"""Tests of progress: each amphora counts once, in whatever order updates arrive."""

import io
import threading
import unittest

from rich.console import Console

from kiln.cli.output.fleet_progress import LineTally, LiveTally, Tally


class Counting(unittest.TestCase):
    def test_a_late_status_does_not_change_an_ended_entry(self):
        tally = Tally(1)
        tally.end('a', 'failed')
        tally.set('a', 'building')
        self.assertEqual((1, ['failed']), tally.snapshot())

    def test_an_end_is_reported_only_once(self):
        out = io.StringIO()
        tally = LineTally(1, out)
        tally.end('a', 'active')
        tally.end('a', 'active')
        self.assertEqual('a: active (1 of 1)\n', out.getvalue())

    def test_counts_are_correct_with_many_threads(self):
        out = io.StringIO()
        tally = LineTally(400, out)

        def some(start):
            for n in range(start, start + 100):
                tally.set(str(n), 'building')
                tally.end(str(n), 'active')

        threads = [threading.Thread(target=some, args=[n * 100]) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((400, ['active'] * 400), tally.snapshot())
        numbers = sorted(
            int(line.split('(')[1].split()[0]) for line in out.getvalue().splitlines()
        )
        self.assertEqual(list(range(1, 401)), numbers)


class Drawing(unittest.TestCase):
    def drawn(self, total):
        tally = LiveTally(total, 'building ')
        for n in range(total):
            tally.set(str(n), 'building')
        tally.end('0', 'odd')
        console = Console(file=io.StringIO(), width=100)
        console.print(tally)
        return console.file.getvalue()

    def test_a_small_fleet_is_drawn_with_a_square_per_machine(self):
        text = self.drawn(3)
        self.assertIn('building 1/3  1 odd  2 building', text)
        self.assertEqual(3, text.count('■'))

    def test_a_large_fleet_is_drawn_only_with_counts(self):
        text = self.drawn(500)
        self.assertIn('499 building', text)
        self.assertNotIn('■', text)
