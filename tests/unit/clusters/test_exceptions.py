"""Errors of clusters: facts, remedies and codes."""

import pickle
import unittest

from kiln.clusters.exceptions import ClusterDriverError, ClusterError, InvalidCluster, Problem

MISTAKE = Problem(message='must be a number', path='nodegroups[0].count', line=3, column=12)


def kinds(root):
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


class Errors(unittest.TestCase):
    def test_a_problem_states_its_location(self):
        self.assertEqual('line 3:12: nodegroups[0].count: must be a number', str(MISTAKE))
        named = Problem(message='is empty', file='web.yaml', line=1, column=1)
        self.assertEqual('web.yaml:1:1: is empty', str(named))
        self.assertEqual('is empty', str(Problem(message='is empty')))

    def test_all_problems_are_reported_at_once(self):
        error = InvalidCluster([MISTAKE, Problem(message='is empty')])
        self.assertEqual(2, len(str(error).splitlines()))
        self.assertEqual(error.problems, pickle.loads(pickle.dumps(error)).problems)

    def test_a_driver_can_provide_the_remedy(self):
        error = ClusterDriverError('No room.', 'Ask for less.', retryable=True)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual('No room. Ask for less.', str(again))
        self.assertEqual(('Ask for less.', True), (again.hint, again.retryable))

    def test_no_secret_of_a_driver_is_shown(self):
        error = ClusterDriverError('Cannot log in: password=hunter2', 'Use token=abc.')
        self.assertNotIn('hunter2', str(error) + error.reason)
        self.assertNotIn('abc', str(error) + error.hint)

    def test_every_error_has_a_code_of_its_own_and_a_remedy(self):
        # Copies of drivers, which other tests have loaded, have errors of their own.
        everyone = [ClusterError, *kinds(ClusterError)]
        found = [kind for kind in everyone if kind.__module__.startswith('kiln.')]
        self.assertEqual(len(found), len({kind.code for kind in found}))
        self.assertEqual([], [kind for kind in found if not kind.__dict__.get('remedy')
                              and kind.__name__ != 'DriverSelectionError'])  # fmt: skip
