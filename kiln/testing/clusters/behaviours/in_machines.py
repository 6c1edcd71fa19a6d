"""Behaviours of drivers that talk to their machines, which a bench plays: one cluster, always."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Cap
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road.machine_journey import MachineJourney, Way, travelled

#: Journeys of this process, by all that makes them different.
_MADE: dict[str, MachineJourney] = {}
_USUAL = Way()
_REPEATED = Way(repeated=True)
_LOSES = Way(loses=True)


class InMachines(ClusterFixture):
    """In its machines."""

    def test_every_change_succeeds_by_polls_of_the_machines(self) -> None:
        self._none('failures', 'A change does not succeed.')

    def test_the_cluster_counts_the_nodes_that_kiln_has(self) -> None:
        self._none('differences', 'The cluster counts other nodes than kiln.')

    def test_nothing_is_wrong_with_the_cluster_itself(self) -> None:
        self._none('wrongs', 'The bench finds something wrong.')

    def test_a_node_goes_once_its_work_is_done(self) -> None:
        if type(self.nodes_driver()).drain is NodeClusterDriver.drain:
            self.not_for_this_driver('it drains no node')
        self._none('interrupted', 'Nodes went while they had work.', needs='serve')

    def test_tending_a_cluster_that_is_well_reports_nothing(self) -> None:
        if not self.nodes_driver().tends:
            self.not_for_this_driver('it tends no cluster')
        self._none('troubles', 'A cluster that is well is reported as troubled.')

    def test_every_metric_of_a_cluster_is_measured(self) -> None:
        if Cap.MONITOR not in self.nodes_driver().capabilities:
            self.not_for_this_driver('the driver has no monitor')
        self._none('unknown', 'A metric has no value, although every machine answers.')

    def test_verbs_without_arguments_succeed(self) -> None:
        if all(
            any(one.required for one in verb.parameters) for verb in self.driver_class.verbs.values()
        ):
            self.not_for_this_driver('the driver has no such verb')
        self._none('refusals', 'A verb fails, although every machine answers.')

    def test_a_rotation_reaches_the_machines(self) -> None:
        cans = {Cap.ROTATE_CREDENTIAL: 'credentials', Cap.ROTATE_CA_CERTIFICATE: 'certificate'}
        marks = [mark for cap, mark in cans.items() if cap in self.nodes_driver().capabilities]
        if not marks:
            self.not_for_this_driver('the driver rotates nothing')
        for mark in marks:
            self._none('kept', 'A rotation has changed nothing.', needs=mark)

    def test_each_call_can_be_repeated_by_another_process(self) -> None:
        self._as_usual(_REPEATED, 'if each call is made twice, by a driver that was just opened')

    def test_a_lost_answer_of_a_machine_changes_nothing(self) -> None:
        self._as_usual(_LOSES, 'if a machine does what it is asked, and its answer is lost')

    # ---- journeys ------------------------------------------------------------------

    def _none(self, name: str, text: str, *, needs: str = '') -> None:
        journey = self._journey(_USUAL)
        if needs and any(one.startswith(f'{needs}()') for one in journey.not_offered):
            raise CannotBeShown(f'{needs}() is not among what the bench of the driver offers')
        found: Sequence[str] = getattr(journey, name)
        self.assertEqual([], found, text)

    def _as_usual(self, way: Way, when: str) -> None:
        usual, found = self._journey(_USUAL), self._journey(way)
        for name in ('failures', 'differences', 'wrongs', 'interrupted'):
            # What goes wrong in any case is shown by another behaviour.
            more = set(getattr(found, name)) - set(getattr(usual, name))
            self.assertEqual(set(), more, f'{name}, {when}')

    def _journey(self, way: Way) -> MachineJourney:
        opened = self.nodes_driver()
        bench_class = self.machine_bench_class()
        if bench_class is None:
            self.not_for_this_driver('it has no bench that plays its machines')
        machine = self.filled_machine(opened, **samples.secrets_of(opened))
        counts = dict(self.groups)
        key = repr((self.driver, bench_class, machine, self.other, counts, way))
        if key not in _MADE:
            _MADE[key] = travelled(
                self.new_folder(), self.driver_class, bench_class, self.network,
                machine, self.other, counts, way,
            )  # fmt: skip
        journey = _MADE[key]
        self.assertEqual([], journey.mistakes, 'The bench itself is wrong.')
        return journey
