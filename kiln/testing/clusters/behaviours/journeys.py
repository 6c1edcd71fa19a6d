"""Journeys of clusters from a file to their deletion, for behaviours that read them."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road import machine_journey
from kiln.testing.clusters.road.journey import CREATE, Journey, travelled
from kiln.testing.clusters.road.machine_journey import MachineJourney, Way
from kiln.testing.clusters.road.machines import REFUSING
from kiln.testing.clusters.simulation.site import simulated
from kiln.testing.shared_results import SharedResults

#: Journeys of this process, by all that makes them different.
_MADE: SharedResults[tuple[Journey, list[str]]] = SharedResults()
_PLAYED: SharedResults[MachineJourney] = SharedResults()
#: Virtual seconds that a driver waited on a journey, after which no test lets it wait for real.
_WAITS_S = 5.0
#: Methods in which a driver talks to its machines; the default of each talks to none of them,
#: or by a rule that the kit knows.
_TALKING = ('is_ready', 'drain', 'tend', 'rotate_credential', 'rotate_ca_certificate')


class JourneyFixture(ClusterFixture):
    """A journey, which is made once for all behaviours."""

    def journey(self, *, fresh: bool = False, creation_only: bool = False) -> Journey:
        """Return the journey of a cluster.

        :param fresh: Each call is made on a driver that was just opened.
        :param creation_only: It ends once the cluster was created, which takes less time.
        """
        if self.machine_bench_class() is not None:
            return self.in_machines(Way(fresh=fresh, creation_only=creation_only))
        opened = self.nodes_driver()
        machine = self.filled_machine(opened, **samples.secrets_of(opened))
        counts = dict(self.groups)
        way = fresh, creation_only
        key = repr((self.driver, machine, self.other, counts, self.ready_machine, way))

        def make() -> tuple[Journey, list[str]]:
            with self.network.playing(self.ready_machine or REFUSING):
                made = travelled(
                    self.new_folder(), simulated(self.driver), machine, self.other, counts,
                    fresh=fresh, creation_only=creation_only,
                )  # fmt: skip
                made.waited_s = self.network.clock.monotonic()
            return made, self.network.asked

        journey, asked = _MADE.get(key, make)
        if any(journey.steps.values()) and asked and self.ready_machine is None:
            raise CannotBeShown(
                f'the driver asks {asked[0]} while kiln works; set ready_machine to its answers'
            )
        return journey

    def in_machines(self, way: Way) -> MachineJourney:
        """Return the journey of a cluster whose machines the bench of the driver plays."""
        opened, bench_class = self.nodes_driver(), self.machine_bench_class()
        if bench_class is None and _talks(type(opened)):
            raise CannotBeShown('the driver names no bench that plays the machines it talks to')
        if bench_class is None:
            self.not_for_this_driver('it talks to no machine but by its rule of readiness')
        machine = self.filled_machine(opened, **samples.secrets_of(opened))
        counts = dict(self.groups)
        key = repr((self.driver, bench_class, machine, self.other, counts, way))
        made = _PLAYED.get(
            key,
            lambda: machine_journey.travelled(
                self.new_folder(), type(opened), bench_class, self.network,
                machine, self.other, counts, way,
            ),
        )  # fmt: skip
        self.assertEqual([], made.mistakes, 'The bench itself is wrong.')
        return made

    def expect_a_cluster(self, *, first: bool = False, creation_only: bool = False) -> None:
        """End a behaviour at once for a driver whose clusters never come to be.

        :param first: This is the behaviour that shows it; all others would show the same.
        :param creation_only: Nothing else reads the journey in this process, so it need not
            go further.
        """
        if type(self).site is not ClusterFixture.site:
            return  # what machines need on another backend is not known here
        try:
            journey = self.journey(creation_only=creation_only)
        except CannotBeShown:
            return  # the kit cannot play its machines
        reason = journey.steps[CREATE]
        if journey.waited_s > _WAITS_S:
            raise CannotBeShown(f'the driver waits for {journey.waited_s:.0f} s while kiln works')
        if reason and first:
            self.fail(reason)
        if reason:
            raise CannotBeShown('the driver creates no cluster')

    def whole_journey(self) -> Journey:
        """Return the journey of a cluster that was created."""
        journey = self.journey()
        if journey.steps[CREATE]:
            raise CannotBeShown('the cluster of two roles was not created')
        return journey


def _talks(driver_class: type[NodeClusterDriver]) -> bool:
    return any(
        getattr(driver_class, name) is not getattr(NodeClusterDriver, name) for name in _TALKING
    )
