"""Failures that come again are told once for each reason."""

import unittest

from kiln.clusters.exceptions import ClusterDriverError, StoreError
from kiln.engine.failures import LOG, Failures


class Told(unittest.TestCase):
    def setUp(self):
        self.failures = Failures()

    def lines(self, *work):
        with self.assertLogs(LOG, 'WARNING') as logs:
            for one in work:
                one()
        return [record.getMessage() for record in logs.records], logs.records

    def fail(self, what, reason):
        return lambda: self.failures.failed(what, ClusterDriverError(reason))

    def test_a_reason_is_logged_once_however_often_it_comes(self):
        said, _ = self.lines(*[self.fail('A turn failed', 'the disk is full')] * 5)
        self.assertEqual(['A turn failed: the disk is full'], said)

    def test_another_reason_and_other_work_have_lines_of_their_own(self):
        said, _ = self.lines(self.fail('a', 'x'), self.fail('a', 'y'), self.fail('b', 'x'))
        self.assertEqual(['a: x', 'a: y', 'b: x'], said)

    def test_the_end_says_how_often_it_came_and_the_reason_is_new_afterwards(self):
        over = lambda: self.failures.succeeded('a')  # noqa: E731  # one of a list of steps
        again = self.fail('a', 'x')
        said, _ = self.lines(again, again, again, over, over, again, over)
        self.assertEqual(['a: x', 'No longer so, after 3 times: a', 'a: x'], said)

    def test_the_end_counts_failures_for_all_reasons(self):
        over = lambda: self.failures.succeeded('a')  # noqa: E731  # one of a list of steps
        said, _ = self.lines(self.fail('a', 'x'), self.fail('a', 'y'), over)
        self.assertEqual(['a: x', 'a: y', 'No longer so, after 2 times: a'], said)

    def test_a_store_that_cannot_be_used_is_one_failure_of_all_work_that_needs_it(self):
        def down(what, verb, why='connection refused'):
            error = StoreError(f'Cannot {verb} the store at postgresql://db/kiln: {why}')
            return lambda: self.failures.failed(what, error)

        over = lambda: self.failures.succeeded('a')  # noqa: E731  # one of a list of steps
        said, _ = self.lines(
            down('a', 'read'), down('b', 'write'), down('a', 'write'), down('b', 'read'), over,
            down('b', 'write'), down('a', 'read', 'the system is starting up'), over,
        )  # fmt: skip
        self.assertEqual(
            [
                'a: Cannot read the store at postgresql://db/kiln: connection refused',
                'No longer so, after 4 times: The store cannot be used',
                'b: Cannot write the store at postgresql://db/kiln: connection refused',
                'a: Cannot read the store at postgresql://db/kiln: the system is starting up',
                'No longer so, after 2 times: The store cannot be used',
            ],
            said,
        )

    def test_only_a_defect_has_its_place(self):
        defect = lambda: self.failures.failed('a', KeyError('x'))  # noqa: E731  # as above
        _, records = self.lines(self.fail('b', 'x'), defect)
        self.assertEqual([False, True], [bool(one.exc_info) for one in records])
        self.assertEqual(['WARNING', 'ERROR'], [one.levelname for one in records])


if __name__ == '__main__':
    unittest.main()
