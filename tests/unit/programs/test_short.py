"""Short runs: what a program is given, and that it ends in time with all it started."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import unittest

from kiln.programs import supervisor
from kiln.programs.short import run_short

#: Another process runs a program, which kills that process before it does anything else.
OTHER = """
import os, sys
from kiln.programs.short import run_short
run_short(('/bin/sh', '-c', sys.argv[1]), b'', variables={'KILN': str(os.getpid())},
          seconds=3.0, most_bytes=99)
"""


def run(script, **more):
    given = {'document': b'', 'variables': {}, 'seconds': 60.0, 'most_bytes': 1000} | more
    return run_short(('/bin/sh', '-c', script), **given)


class Short(unittest.TestCase):
    def test_a_program_is_given_a_document_and_secrets(self):
        found = run('cat; cat <&3; echo "$A"', document=b'a', secrets=b'b', variables={'A': 'c'})
        self.assertEqual((0, b'abc\n'), (found.status, found.output))

    def test_a_program_has_no_other_file_of_kiln(self):
        found = run('ls /proc/self/fd')
        # The last is the folder that ls reads.
        self.assertEqual([b'0', b'1', b'2', b'3', b'4'], found.output.split())

    def test_the_status_and_the_end_of_the_errors_are_returned(self):
        found = run('echo why >&2; exit 7')
        self.assertEqual((7, b'why\n'), (found.status, found.errors))

    def test_the_errors_begin_with_a_whole_line(self):
        found = run('head -c 5000 /dev/zero >&2; echo >&2; echo why >&2')
        self.assertEqual(b'why\n', found.errors)

    def test_a_program_that_is_late_is_killed(self):
        found = run('echo begun; trap "" TERM; while :; do sleep 60; done', seconds=0.5)
        self.assertIsNone(found.status)

    def test_a_program_ends_at_its_limit_even_if_kiln_was_killed(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        os.mkfifo(folder / 'begun')
        script = (
            f'trap "" TERM; kill -KILL "$KILN"; echo $$ >{folder}/begun;while :; do sleep 60; done'
        )
        other = subprocess.Popen(
            [sys.executable, '-c', OTHER, script],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path), 'TMPDIR': str(folder)},
        )  # fmt: skip
        handle = os.pidfd_open(int((folder / 'begun').read_text()))
        self.addCleanup(os.close, handle)
        self.assertEqual(-signal.SIGKILL, other.wait())
        select.select([handle], [], [])

    def test_a_program_that_is_killed_has_the_signal_for_its_status(self):
        self.assertEqual(-signal.SIGKILL, run('kill -KILL $$').status)
        self.assertEqual(-signal.SIGTERM, run('kill -TERM $$').status)

    def test_folders_that_a_killed_kiln_has_left_are_removed(self):
        at = pathlib.Path(tempfile.gettempdir())
        old, new = (tempfile.mkdtemp(prefix='kiln-program-', dir=at) for _ in range(2))
        self.addCleanup(os.rmdir, new)
        os.utime(old, (0, 0))
        run('exit 0')
        self.assertEqual([False, True], [os.path.exists(one) for one in (old, new)])

    def test_what_a_program_leaves_behind_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            pids = pathlib.Path(folder, 'pid')
            run(f'setsid sleep 600 & echo $! >{pids}; sleep 600 & echo $! >>{pids}')
            for pid in pids.read_text().split():
                self.assertIsNone(supervisor.process(int(pid)))

    def test_no_more_is_read_than_the_limit(self):
        self.assertEqual(11, len(run('echo 012345678901234', most_bytes=10).output))


if __name__ == '__main__':
    unittest.main()
