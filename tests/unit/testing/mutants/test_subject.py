"""The test classes that judge a driver, by the words of a command."""

import unittest

from kiln.exceptions import DriverNotFound
from kiln.testing.mutants.subject import suite_classes
from tests.unit.testing.mutants import part_of_kit

PART = part_of_kit.__name__


class SuiteClasses(unittest.TestCase):
    def names(self, path):
        return [one.__name__ for one in suite_classes(path)]

    def test_a_class_is_named_with_its_module(self):
        self.assertEqual(['Deletes'], self.names(f'{PART}:Deletes'))

    def test_a_module_stands_for_the_classes_that_it_defines(self):
        self.assertEqual(['Deletes', 'DeletesOfNoop'], self.names(PART))

    def test_a_package_stands_for_its_modules(self):
        found = self.names(PART.rpartition('.')[0])
        self.assertLess({'Deletes', 'SuiteClasses', 'ReachTest'}, set(found))
        self.assertEqual(len(set(found)), len(found))

    def test_a_module_without_a_test_is_refused(self):
        with self.assertRaises(DriverNotFound) as caught:
            suite_classes('tests.unit.cli.shell')
        self.assertIn('Cannot find a test in tests.unit.cli.shell', str(caught.exception))
