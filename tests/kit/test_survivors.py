"""The files of survivors are right: each entry names a mutant, and has a reason.

A soak judges the mutants themselves.
"""

import pathlib
import tempfile
import unittest

from kiln.cli.driver.scaffold.skeletons import new_compute_driver
from kiln.testing.mutants.cluster_subject import ClusterSubject
from kiln.testing.mutants.loading import source_of
from kiln.testing.mutants.mutants import mutants_of
from kiln.testing.mutants.survivors import read_survivors
from tests.unit.cli.driver.generated_package import importable
from tests.unit.test_layering import ROOT

MODELS = ROOT / 'doc' / 'examples' / 'cluster_drivers'
FOLDER = pathlib.Path(__file__).parent / 'survivors'


class SurvivorsTest(unittest.TestCase):
    def test_each_entry_names_a_mutant(self):
        # The package of the guide for vendors, which acme.yaml is about.
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        new_compute_driver('acme', 'container', folder)
        self.enterContext(importable(folder / 'kiln-driver-acme', 'kiln_acme'))
        for path in sorted(FOLDER.glob('*.yaml')):
            keys = set(read_survivors(path))
            self.assertTrue(keys, path)
            for module in {place.partition(':')[0] for place, _, _ in keys}:
                operators = {name for place, name, _ in keys if place.partition(':')[0] == module}
                keys -= {one.key for one in mutants_of(module, source_of(module), operators)}
            self.assertEqual(set(), keys, f'{path} has entries of mutants that do not exist')

    def test_each_entry_of_a_cluster_driver_names_a_mutant(self):
        for path in sorted((FOLDER / 'clusters').glob('*.yaml')):
            keys = set(read_survivors(path))
            self.assertTrue(keys, path)
            model = MODELS / path.stem
            installed = ROOT / 'kiln' / 'cluster_drivers' / path.stem
            subject = ClusterSubject.find(str(model if model.is_dir() else installed))
            for module in subject.modules():
                operators = {name for place, name, _ in keys if place.startswith(module)}
                keys -= {one.key for one in subject.mutants(module, operators)}
            self.assertEqual(set(), keys, f'{path} has entries of mutants that do not exist')
