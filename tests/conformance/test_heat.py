"""A driver on Heat keeps every promise, on a Heat that is played.

The other ones are in tests/functional/clusters, a real Heat in tests/functional/heat.
"""

import unittest

from kiln.testing.clusters import OwnEngineConformance
from tests.conformance.heat_bench import WebBench
from tests.unit.test_layering import ROOT


class FolderConformance(OwnEngineConformance, unittest.TestCase):
    """A driver of a template and mappings alone; 000-9, 000-10, 000-17."""

    driver = str(ROOT / 'doc/examples/cluster_drivers/web_on_heat_v1')
    bench_class = WebBench
