"""Tests of helpers of all commands: results of operations, and cells of tables."""

import unittest

from kiln.cli.compute.build import _built
from kiln.cli.compute.calls import outcome
from kiln.cli.output.views import Cell
from kiln.exceptions import OperationRejected, ServiceTimeout
from kiln.wrappers.operations.errand import Errand


def operation(error=None, result=None):
    done = Errand('build', backend='east')
    if error is not None:
        done.fail(error)
    elif result is not None:
        done.resolve(result)
    return done


class OutcomesTest(unittest.TestCase):
    def test_results_and_errors_of_the_backend_are_values(self):
        refused, late = OperationRejected('The queue is full.'), ServiceTimeout('No answer.')
        self.assertIs(outcome(refused), refused)
        self.assertIs(outcome(operation(late)), late)
        self.assertEqual(outcome(operation(result='id-1')), 'id-1')

    def test_an_unexpected_error_is_raised_unchanged(self):
        with self.assertRaises(ZeroDivisionError):
            outcome(operation(ZeroDivisionError()))

    def test_only_successes_of_an_interrupted_build_count_as_built(self):
        self.assertTrue(_built(operation(result='id-1')))
        for other in (operation(), operation(ServiceTimeout('No.')), OperationRejected('Full.')):
            self.assertFalse(_built(other))


class CellsTest(unittest.TestCase):
    def test_a_cell_can_only_be_sorted_among_cells(self):
        with self.assertRaises(TypeError):
            sorted([Cell('a'), 'b'])
