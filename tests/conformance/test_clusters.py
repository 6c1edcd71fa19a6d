"""The cluster drivers in tree keep every promise.

Kills, and the drivers that take the kit longest, are in tests/functional/clusters.
"""

import unittest
from pathlib import Path

import kiln
from kiln.clusters.models import NodeState
from kiln.testing.clusters import (
    ClusterDriverConformance,
    run_cluster_conformance,
)
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.conformance import BehaviourOutcome
from tests.unit.test_layering import ROOT

NODES = str(Path(kiln.__file__).parent / 'cluster_drivers' / 'nodes_v1')
MODELS = ROOT / 'doc' / 'examples' / 'cluster_drivers'
#: A life of three operations, which is over in a second.
BRIEF = 'tests.kit.cluster_animals:Brief'
EXAMPLE = 'kiln.cluster_drivers.example_v1.driver:Driver'


def ready(nodes):
    return [node for node in nodes if node.state is NodeState.READY]


class NodesConformance(ClusterDriverConformance, unittest.TestCase):
    driver = NODES

    def expected_outputs(self, nodes):
        return {'addresses': [node.address for node in ready(nodes)]}


class ExampleConformance(ClusterDriverConformance, unittest.TestCase):
    driver = EXAMPLE


class Creations(JourneyFixture, unittest.TestCase):
    driver = NODES

    def test_a_journey_that_only_creates_has_no_later_step(self):
        made = self.journey(creation_only=True)
        self.assertEqual({'create': ''}, made.steps)
        self.assertEqual(sum(self.groups.values()), sum(made.ready.values()))


class PlayedCreations(Creations):
    """The same on machines that a bench plays."""

    driver = str(MODELS / 'quorum_v1')


class Report(unittest.TestCase):
    def test_000_17_every_behaviour_is_shown_on_a_driver_without_python(self):
        heard = []
        report = run_cluster_conformance(
            NODES, select=['Declaration', 'answers'], progress=heard.append
        )
        self.assertTrue(report.ok, report.render())
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.NOT_SHOWN))
        self.assertEqual(list(report.results), heard)
        self.assertEqual('nodes_v1', report.driver)
