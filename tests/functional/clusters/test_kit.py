"""The kit of cluster drivers reports the effects of processes that it kills."""

import dataclasses
import os
import unittest
import uuid

from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.testing.clusters import CrashConformance, Site, run_cluster_conformance
from kiln.testing.clusters.simulation.site import STACK
from kiln.testing.conformance import BehaviourOutcome
from kiln.testing.runner import show
from tests.conformance.test_clusters import BRIEF
from tests.kit import cluster_animals as animals
from tests.kit.node_animals import lasting


class Report(unittest.TestCase):
    def test_behaviours_beside_the_others_are_reported_in_the_order_of_the_kit(self):
        heard = []
        select = ['Crashes at random', 'a deletion killed*', 'Versions']
        report = run_cluster_conformance(BRIEF, select=select, crashes=1, progress=heard.append)
        self.assertTrue(report.ok, report.render())
        self.assertEqual(
            [
                'test_all_files_that_nodes_depend_on_belong_to_the_version',
                'test_a_driver_that_is_open_keeps_to_the_files_of_its_version',
                'test_a_deletion_killed_at_any_commit_ends_as_if_undisturbed',
                'test_random_kills_do_not_change_the_end',
            ],
            [one.name for one in report.results],
        )
        self.assertEqual(set(report.results), set(heard))
        self.assertGreaterEqual(report.seconds, max(one.seconds for one in report.results))

    def test_a_driver_that_creates_no_cluster_fails_beside_the_others_as_among_them(self):
        driver = f'{lasting.__name__}:Broken'
        report = run_cluster_conformance(
            driver, select=['a creation*', 'a deletion*', '*file with several*']
        )
        failed = [one for one in report.results if one.outcome is BehaviourOutcome.FAILED]
        self.assertEqual(2, len(failed), report.render())
        for result in failed:
            self.assertIn('its driver does not say what it is given', result.reason)
        self.assertLess(1, len(report.of(BehaviourOutcome.NOT_SHOWN)))

    def test_a_process_that_ends_by_itself_fails_its_behaviour(self):
        report = run_cluster_conformance(f'{__name__}:Fatal', select=['*a creation killed*'])
        (result,) = report.results
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn('The process that ran it has ended', result.reason)


class Fatal(animals.Right):
    """Ends its process."""

    name = 'fatal_v1'

    def bootstrap(self, context, cluster, node):
        os._exit(3)


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
            # A busy machine must not end an operation before what is wrong can be seen.
            within_s = 600.0

            def site(self, folder):
                return DoublingSite(folder=folder, driver=self.driver)

        case = Crashes('test_a_creation_killed_at_any_commit_ends_as_if_undisturbed')
        try:
            result = show(case, 'Crashes')
        finally:
            Crashes.doClassCleanups()
        self.assertIs(BehaviourOutcome.FAILED, result.outcome)
        self.assertIn('belongs to no node', result.reason)
