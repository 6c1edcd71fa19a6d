"""Drivers on Heat keep every promise, on a Heat that is played."""

import unittest

from kiln.testing.clusters import OwnEngineConformance
from tests.functional.clusters.heat_bench import GroupBench, HeatBench, SwarmBench, WebBench
from tests.unit.test_layering import ROOT


class GeneratedConformance(OwnEngineConformance, unittest.TestCase):
    driver = 'kiln.cluster_drivers.heat_generated_v1.driver:Driver'
    bench_class = HeatBench


class GroupConformance(OwnEngineConformance, unittest.TestCase):
    """One resource group, which note 003 thought could not lose a node in the middle; 003-6."""

    driver = 'kiln.cluster_drivers.heat_group_v1.driver:Driver'
    bench_class = GroupBench


class FolderConformance(OwnEngineConformance, unittest.TestCase):
    """A driver of a template and mappings alone; 000-9, 000-10, 000-17."""

    driver = str(ROOT / 'doc/examples/cluster_drivers/web_on_heat_v1')
    bench_class = WebBench


class RemovableFolderConformance(OwnEngineConformance, unittest.TestCase):
    """The same where any node can go by its name; 003-6."""

    driver = str(ROOT / 'doc/examples/cluster_drivers/swarm_on_heat_v1')
    bench_class = SwarmBench
