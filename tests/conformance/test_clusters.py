"""The cluster drivers in tree keep every promise; kills are tested elsewhere."""

import unittest
from pathlib import Path

import kiln
from kiln.testing.clusters import ClusterDriverConformance, run_cluster_conformance
from kiln.testing.clusters.behaviours.answers import Answers
from kiln.testing.clusters.behaviours.choice import Choice
from kiln.testing.clusters.behaviours.declaration import Declaration
from kiln.testing.clusters.behaviours.each_node import EachNode
from kiln.testing.clusters.behaviours.repeats import Repeats
from kiln.testing.clusters.behaviours.same_answer import SameAnswer
from kiln.testing.clusters.behaviours.truth import Truth
from kiln.testing.clusters.behaviours.versions import Versions
from kiln.testing.clusters.behaviours.waiting import Waiting
from kiln.testing.conformance import BehaviourOutcome
from tests.unit.test_layering import ROOT

NODES = str(Path(kiln.__file__).parent / 'cluster_drivers' / 'nodes_v1')
MODELS = ROOT / 'doc' / 'examples' / 'cluster_drivers'
#: A life of three operations, which is over in a second.
BRIEF = 'tests.conformance.cluster_animals:Brief'
EXAMPLE = 'kiln.cluster_drivers.example_v1.driver:Driver'


class NodesConformance(ClusterDriverConformance, unittest.TestCase):
    driver = NODES


class ExampleConformance(ClusterDriverConformance, unittest.TestCase):
    driver = EXAMPLE


class SwarmConformance(
    Declaration, Answers, SameAnswer, EachNode, Choice, Waiting, Repeats, Truth, Versions,
    unittest.TestCase,
):  # fmt: skip
    """As far as it needs no engines; with them it is judged in tests/functional/swarm."""

    driver = 'kiln.cluster_drivers.swarm_debian_v1.driver:Driver'
    role = 'control'
    # Nobody answers at the addresses of the kit, and its measurement waits for as long.
    look_s = 0.05
    # Its keys and certificates take a busy machine a while.
    soon_s = 30.0


class MeshConformance(Declaration, Answers, unittest.TestCase):
    """The models that authors copy; their clusters live in the tests of the commands."""

    driver = str(MODELS / 'mesh_v1')


class QuorumConformance(Declaration, Answers, unittest.TestCase):
    driver = str(MODELS / 'quorum_v1')
    # Nobody answers at the addresses of the kit.
    look_s = 0.05


class StackConformance(Declaration, Answers, unittest.TestCase):
    driver = str(MODELS / 'stack_v1')


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
