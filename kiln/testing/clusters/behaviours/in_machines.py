"""Behaviours of drivers that talk to their machines, which a bench plays: one cluster, always."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Cap
from kiln.clusters.exceptions import ClusterDriverDefect
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.journeys import JourneyFixture
from kiln.testing.clusters.road.machine_journey import Way

_USUAL = Way()


class InMachines(JourneyFixture):
    """In its machines."""

    def test_the_cluster_counts_the_nodes_that_kiln_has(self) -> None:
        self._none('differences', 'The cluster counts other nodes than kiln.', needs='members')

    def test_a_node_is_ready_once_the_cluster_counts_it_and_not_before(self) -> None:
        self._none('early', 'Nodes are ready before the cluster counts them.', needs='members')

    def test_what_is_told_of_the_cluster_is_what_its_author_expects(self) -> None:
        self._none('mistold', 'What is told is not what the bench says.')

    def test_tending_brings_back_a_node_that_the_cluster_has_lost(self) -> None:
        if not self.nodes_driver().tends:
            self.not_for_this_driver('it tends no cluster')
        self._none('lost', 'The machine of a node runs, and the cluster lacks it.', needs='lose')

    def test_nothing_is_wrong_with_the_cluster_itself(self) -> None:
        self._none('wrongs', 'The bench finds something wrong.')

    def test_a_node_goes_once_its_work_is_done(self) -> None:
        if type(self.nodes_driver()).drain is NodeClusterDriver.drain:
            self.not_for_this_driver('it drains no node')
        self._none('untimely', 'A node goes once its work is done.', needs='serve')

    def test_tending_a_cluster_that_is_well_reports_nothing(self) -> None:
        if not self.nodes_driver().tends:
            self.not_for_this_driver('it tends no cluster')
        self._none('troubles', 'A cluster that is well is reported as troubled.')

    def test_every_metric_of_a_cluster_is_measured(self) -> None:
        if Cap.MONITOR not in self.nodes_driver().capabilities:
            self.not_for_this_driver('the driver has no monitor')
        self._none('unknown', 'A metric has no value, although every machine answers.')

    def test_a_rotation_reaches_the_machines(self) -> None:
        marks = {Cap.ROTATE_CREDENTIAL: 'credentials', Cap.ROTATE_CA_CERTIFICATE: 'certificate'}
        known = [mark for cap, mark in marks.items() if cap in self.nodes_driver().capabilities]
        if not known:
            self.not_for_this_driver('the driver rotates nothing')
        for mark in known:
            self._none('kept', 'A rotation has changed nothing.', needs=mark)

    def test_each_call_can_be_repeated_by_another_process(self) -> None:
        way = Way(fresh=True, twice=True)
        self._as_usual(way, 'if each call is made twice, by a driver that was just opened')

    def test_requests_that_fail_and_answers_that_are_lost_change_nothing(self) -> None:
        self._as_usual(
            Way(troubled=True),
            'if each machine refuses at first, and then loses an answer, and one never comes up',
        )

    def test_nothing_is_measured_while_no_machine_answers(self) -> None:
        if Cap.MONITOR not in self.nodes_driver().capabilities:
            self.not_for_this_driver('the driver has no monitor')
        self._none('stale', 'What was measured once is reported for ever.')

    # ---- journeys ------------------------------------------------------------------

    def _none(self, name: str, text: str, *, needs: str = '') -> None:
        journey = self.in_machines(_USUAL)
        if needs and any(one.startswith(f'{needs}()') for one in journey.not_offered):
            raise CannotBeShown(f'{needs}() is not among what the bench of the driver offers')
        found: Sequence[str] = getattr(journey, name)
        self.assertEqual([], found, text)

    def _as_usual(self, way: Way, when: str) -> None:
        usual, found = self.in_machines(_USUAL), self.in_machines(way)
        # What goes wrong in any case is shown by another behaviour.
        worse = {
            title: reason
            for title, reason in found.steps.items()
            if reason and not usual.steps.get(title)
        }
        self.assertEqual({}, worse, when)
        for name in ('differences', 'wrongs', 'untimely'):
            if not getattr(usual, name):
                self.assertEqual([], getattr(found, name), f'{name}, {when}')
        defects = [
            str(one.error) for one in found.calls if isinstance(one.error, ClusterDriverDefect)
        ]
        self.assertEqual([], defects, when)
