"""The cluster drivers in tree keep every promise, and survive kill -9 at any commit."""

import os
import unittest
from pathlib import Path

import kiln
from kiln.cluster_models import OperationKind
from kiln.testing.clusters import (
    ClusterDriverConformance,
    CrashConformance,
    run_cluster_conformance,
)
from kiln.testing.conformance import BehaviourOutcome

NODES = str(Path(kiln.__file__).parent / 'cluster_drivers' / 'nodes_v1')
EXAMPLE = 'kiln.cluster_drivers.example_v1.driver:Driver'
#: Killed at each commit; with KILN_FULL all operations of all drivers are.
SOME = frozenset({OperationKind.CREATE, OperationKind.RESIZE, OperationKind.DELETE})
ALL = frozenset(OperationKind)
FULL = 'KILN_FULL' in os.environ


class NodesConformance(ClusterDriverConformance, unittest.TestCase):
    driver = NODES


class NodesCrashes(CrashConformance, unittest.TestCase):
    driver = NODES
    exhaustive = ALL if FULL else SOME


class ExampleConformance(ClusterDriverConformance, unittest.TestCase):
    driver = EXAMPLE


class ExampleCrashes(CrashConformance, unittest.TestCase):
    driver = EXAMPLE
    exhaustive = ALL if FULL else frozenset()
    seed = CrashConformance.seed + 1


class Report(unittest.TestCase):
    def test_000_17_every_behaviour_but_of_crashes_is_shown_on_a_driver_without_python(self):
        heard = []
        report = run_cluster_conformance(
            NODES, select=['Declaration', 'answers'], progress=heard.append
        )
        self.assertTrue(report.ok, report.render())
        self.assertEqual(frozenset(), report.of(BehaviourOutcome.NOT_SHOWN))
        self.assertEqual(list(report.results), heard)
        self.assertEqual('nodes_v1', report.driver)

    def test_a_report_of_crashes_tells_what_nobody_could_see_otherwise(self):
        report = run_cluster_conformance(NODES, select=['*often*'], crashes=1)
        self.assertEqual(
            [True], [one.outcome is BehaviourOutcome.PASSED for one in report.results]
        )
