"""Watches of runs: real programs, which wait for the test at pipes."""

import os
import pathlib
import tempfile
import threading
import unittest

from kiln.programs import watching
from kiln.programs.detached import Job, Runs
from kiln.programs.watching import RunWatcher


class Watched(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.runs = Runs(self.folder / 'runs', 'one')
        self.watcher = RunWatcher()
        for name in ('go', 'end'):
            os.mkfifo(self.folder / name)

    def start(self, script):
        job = Job(
            argv=('/bin/sh', '-c', script), document=b'', facts={}, seconds=60.0,
            most_bytes=999, variables={'AT': str(self.folder)},
        )  # fmt: skip
        with self.runs.locked():
            run = self.runs.start(job)
        self.addCleanup(run.kill)
        return run

    def go(self, pipe='go'):
        (self.folder / pipe).write_text('go\n')

    def watch(self, run, size=0):
        """Watch a run; return what waits until the watch has ended."""
        told = threading.Event()
        self.watcher.once(run, size, told.set)
        return told

    def test_a_line_that_a_run_prints_ends_the_watch(self):
        run = self.start('read x <"$AT/go"; echo "$x"; read x <"$AT/end"')
        told = self.watch(run)
        self.assertFalse(told.is_set())
        self.go()
        told.wait()
        self.assertEqual(b'go\n', run.output(9))
        self.go('end')
        run.wait()

    def test_the_end_of_a_run_ends_the_watch(self):
        run = self.start('echo at once; read x <"$AT/go"')
        while not run.output(1):
            self.watch(run).wait()
        told = self.watch(run, len('at once\n'))
        self.assertFalse(told.is_set())
        self.go()
        told.wait()
        self.assertIsNotNone(run.result)

    def test_what_has_happened_before_the_watch_ends_it_at_once(self):
        run = self.start('echo x')
        run.wait()
        self.assertTrue(self.watch(run, len('x\n')).is_set())

    def test_a_watch_is_over_once_it_has_ended_or_its_run_is_removed(self):
        for number in range(3):
            run = self.start('echo x')
            run.wait()
            self.watch(run)
            self.assertEqual({}, self.watcher._watched, number)

    def test_a_second_watch_of_a_run_takes_the_place_of_the_first(self):
        run = self.start('read x <"$AT/go"')
        first, second = self.watch(run), self.watch(run)
        self.go()
        second.wait()
        self.assertFalse(first.is_set())

    def test_a_run_that_cannot_be_watched_is_no_error(self):
        run = self.start('echo x')
        run.wait()
        self.runs.forget()
        run.folder.rename(self.folder / 'elsewhere')
        self.assertFalse(self.watch(run).is_set())
        self.assertTrue(self.folder.joinpath('elsewhere').rename(run.folder))

    def test_events_of_the_kernel_are_read_one_after_the_other(self):
        head = watching._HEAD.pack
        content = head(1, 2, 0, 16) + b'out'.ljust(16, b'\0') + head(2, 0x8000, 0, 0)
        self.assertEqual([(1, 2, b'out'), (2, 0x8000, b'')], list(watching._events(content)))


if __name__ == '__main__':
    unittest.main()
