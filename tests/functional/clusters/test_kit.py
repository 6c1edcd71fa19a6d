"""The kit of cluster drivers reports the effects of processes that it kills."""

import dataclasses
import unittest
import uuid

from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.testing.clusters import CrashConformance, Site, run_cluster_conformance
from kiln.testing.clusters.simulation.site import STACK
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import show
from tests.conformance import cluster_animals as animals
from tests.conformance.test_clusters import BRIEF


class Report(unittest.TestCase):
    def test_a_run_can_select_crashes_alone_and_their_number(self):
        report = run_cluster_conformance(BRIEF, select=['Crashes at random'], crashes=1)
        self.assertTrue(report.ok, report.render())
        self.assertEqual(1, len(report.results))


class Doubling(NoopDriver):
    """A backend on which a repeated request is a new request."""

    def _build(self, request):
        return super()._build(dataclasses.replace(request, build_key=uuid.uuid4().hex))

    def _find_build(self, build_key):
        return None


class DoublingSite(Site):
    """A site where crashes cost machines."""

    def open_backend(self, faults=()):
        return Compute(Doubling(cloud=self._cloud(faults)), settings=STACK)


class Matrix(unittest.TestCase):
    def test_machines_that_are_built_twice_are_found(self):
        # Defined in here, so that only this test runs it.
        class Crashes(CrashConformance, unittest.TestCase):
            driver = f'{animals.__name__}:Right'

            def site(self, folder):
                return DoublingSite(folder=folder, driver=self.driver)

        case = Crashes('test_a_creation_killed_at_any_commit_ends_as_if_undisturbed')
        try:
            result = show(case, 'Crashes')
        finally:
            Crashes.doClassCleanups()
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn('belongs to no node', result.reason)
