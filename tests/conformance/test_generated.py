"""The package that ``kiln driver new cluster --form package`` writes, as it is generated."""

import tempfile
import unittest
from pathlib import Path

from kiln.cli.driver.scaffold.skeletons import new_cluster_driver
from kiln.testing.clusters import ClusterDriverConformance, CrashConformance
from kiln.testing.clusters.behaviours.in_machines import InMachines
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import show
from tests.unit.cli.driver.generated_package import importable, module_at


class GeneratedPackage(unittest.TestCase):
    """Each test is a behaviour of the kit, as the package's own tests have it.

    With its own runner it is tried in tests/functional/scaffold.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        target = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        new_cluster_driver('generated_v1', 'package', target)
        root = target / 'kiln-driver-generated-v1'
        cls.enterClassContext(importable(root, 'generated_v1'))
        cls.module = module_at(root / 'tests' / 'test_conformance.py')

    def test_000_17_the_tests_of_a_package_are_the_conformance_kit(self):
        loaded = unittest.defaultTestLoader.getTestCaseNames(self.module.Conformance)
        self.assertEqual(KIT, set(loaded))
        self.assertGreaterEqual(len(loaded), 30)
        self.assertTrue(issubclass(self.module.Crashes, CrashConformance))


KIT = {
    name
    for suite in ClusterDriverConformance.__bases__
    for name in vars(suite)
    if name.startswith('test_')
}


#: Behaviours about what a package does not have before its author adds it: values that are
#: refused, a monitor, a rotation, and machines to which the driver talks. Reports omit them.
NOT_ITS_OWN = {
    'test_values_that_its_author_refuses_are_reported',
    'test_values_that_its_author_accepts_are_no_problem',
    'test_a_change_is_refused_if_its_author_refuses_it_and_no_other',
    'test_arguments_that_its_author_refuses_are_refused',
    'test_a_monitor_that_asks_nobody_follows_the_nodes',
    *(name for name in vars(InMachines) if name.startswith('test_')),
}


def _test_of(name):
    def test(self):
        case = self.module.Conformance(name)
        result = show(case, 'generated')
        self.assertEqual(name not in NOT_ITS_OWN, case.applies, result.reason)
        if case.applies:
            self.assertIs(BehaviourOutcome.PASSED, result.outcome, result.reason)

    test.__name__ = f'test_of_a_package_{name.removeprefix("test_")}'
    return test


for _test in map(_test_of, sorted(KIT)):
    setattr(GeneratedPackage, _test.__name__, _test)
