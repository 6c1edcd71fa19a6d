"""Drivers on Heat keep every promise, on a Heat that is played; a real one is elsewhere."""

import unittest

from kiln.testing.clusters import OwnEngineConformance
from tests.conformance.heat_bench import HeatBench, WebBench
from tests.unit.test_layering import ROOT


class GeneratedConformance(OwnEngineConformance, unittest.TestCase):
    driver = 'kiln.cluster_drivers.heat_generated_v1.driver:Driver'
    bench_class = HeatBench


class FolderConformance(OwnEngineConformance, unittest.TestCase):
    """A driver of a template and mappings alone; 000-9, 000-10, 000-17."""

    driver = str(ROOT / 'doc/examples/cluster_drivers/web_on_heat_v1')
    bench_class = WebBench
