"""Short runs: what a program is given, and that it ends in time with all it started."""

import pathlib
import tempfile
import unittest

from kiln.programs import supervisor
from kiln.programs.short import run_short


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

    def test_a_program_that_is_late_is_killed(self):
        found = run('echo begun; trap "" TERM; while :; do sleep 60; done', seconds=0.5)
        self.assertIsNone(found.status)

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
