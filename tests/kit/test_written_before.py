"""Drivers written from the guides before modules moved still load, and keep every promise.

Their folders are as the guides of that time had them, and are not changed.
"""

import importlib
import sys
import unittest
from pathlib import Path

from oslo_config import cfg

from kiln.plugins.moved_paths import MOVED
from kiln.testing.clusters import ClusterDriverConformance
from kiln.testing.conformance import ComputeDriverConformance, FaultConformance

FOLDER = Path(__file__).parent / 'written_before'


def written_before(module):
    """Return a module of that folder; what it imports has moved since."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(FOLDER))


ElderDriver = written_before('kiln_elder.driver').ElderDriver
written_before('kiln_elder.bench')


class ElderComputeConformance(ComputeDriverConformance, FaultConformance, unittest.TestCase):
    """Its stand-in drops ports and fixed addresses, as those of its time did."""

    network_ids = ('net-1',)
    port_ids = ('port-1', 'port-2')

    @unittest.expectedFailure
    def test_the_ports_of_a_build_are_attached(self):
        super().test_the_ports_of_a_build_are_attached()

    @unittest.expectedFailure
    def test_a_build_with_the_port_of_another_instance_is_refused(self):
        super().test_a_build_with_the_port_of_another_instance_is_refused()

    @unittest.expectedFailure
    def test_a_build_with_a_free_and_a_taken_port_takes_neither(self):
        super().test_a_build_with_a_free_and_a_taken_port_takes_neither()

    @unittest.expectedFailure
    def test_a_build_has_the_fixed_address_that_it_requested_or_is_refused(self):
        super().test_a_build_has_the_fixed_address_that_it_requested_or_is_refused()

    @unittest.expectedFailure
    def test_the_fixed_address_of_an_instance_is_refused_to_another_build(self):
        super().test_the_fixed_address_of_an_instance_is_refused_to_another_build()

    @unittest.expectedFailure
    def test_of_two_builds_at_once_at_one_address_one_has_it_and_the_other_nothing(self):
        super().test_of_two_builds_at_once_at_one_address_one_has_it_and_the_other_nothing()

    @unittest.expectedFailure
    def test_a_build_at_what_is_not_an_address_is_refused(self):
        super().test_a_build_at_what_is_not_an_address_is_refused()

    def make_driver(self):
        conf = cfg.ConfigOpts()
        conf.register_opts(ElderDriver.options, 'test')
        conf([], default_config_files=[], default_config_dirs=[])
        return ElderDriver.open(conf.test, name='elder', owner='kit')


class ElderClusterConformance(ClusterDriverConformance, unittest.TestCase):
    driver = str(FOLDER / 'elder_v1')


class OldPaths(unittest.TestCase):
    def test_each_leads_to_the_module_of_today(self):
        for old, new in MOVED.items():
            with self.subTest(old):
                sys.modules.pop(old, None)
                module = importlib.import_module(old)
                self.assertIs(importlib.import_module(new), module)
                self.assertEqual(new, module.__name__)
                self.assertEqual(new, module.__spec__.name)

    def test_what_never_was_is_not_found(self):
        with self.assertRaises(ModuleNotFoundError):
            importlib.import_module('kiln.cluster_drivers.never')

    def test_each_is_imported_by_the_drivers_of_that_time_or_by_guides(self):
        source = '\n'.join(path.read_text() for path in FOLDER.rglob('*.py'))
        imported = {old for old in MOVED if f'from {old} import' in source}
        guides = {
            'kiln.cluster_drivers.facts', 'kiln.cluster_drivers.text_template',
            'kiln.compute_drivers.pools', 'kiln.hooks.answers', 'kiln.hooks.plugins',
        }  # fmt: skip
        self.assertEqual(set(MOVED), imported | guides)
