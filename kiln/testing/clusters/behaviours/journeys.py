"""Journeys of clusters from a file to their deletion, for behaviours that read them."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.road import machine_journey
from kiln.testing.clusters.road.journey import CREATE, Journey, travelled
from kiln.testing.clusters.road.machine_journey import MachineJourney, Way
from kiln.testing.clusters.road.machines import REFUSING
from kiln.testing.clusters.simulation.site import simulated

#: Journeys of this process, by all that makes them different.
_MADE: dict[str, tuple[Journey, list[str]]] = {}
_PLAYED: dict[str, MachineJourney] = {}
#: Virtual seconds that a driver waited on a journey, after which no test lets it wait for real.
_WAITS_S = 5.0


class JourneyFixture(ClusterFixture):
    """A journey, which is made once for all behaviours."""

    def journey(self, *, fresh: bool = False) -> Journey:
        """Return the journey of a cluster.

        :param fresh: Each call is made on a driver that was just opened.
        """
        if self.machine_bench_class() is not None:
            return self.in_machines(Way(fresh=fresh))
        opened = self.nodes_driver()
        machine = self.filled_machine(opened, **samples.secrets_of(opened))
        counts = dict(self.groups)
        key = repr((self.driver, machine, self.other, counts, self.ready_machine, fresh))
        if key not in _MADE:
            with self.network.playing(self.ready_machine or REFUSING):
                made = travelled(
                    self.new_folder(), simulated(self.driver), machine, self.other, counts,
                    fresh=fresh,
                )  # fmt: skip
                made.waited_s = self.network.clock.monotonic()
            _MADE[key] = made, self.network.asked
        journey, asked = _MADE[key]
        if any(journey.steps.values()) and asked and self.ready_machine is None:
            raise CannotBeShown(
                f'the driver asks {asked[0]} while kiln works; set ready_machine to its answers'
            )
        return journey

    def in_machines(self, way: Way) -> MachineJourney:
        """Return the journey of a cluster whose machines the bench of the driver plays."""
        opened, bench_class = self.nodes_driver(), self.machine_bench_class()
        if bench_class is None:
            self.not_for_this_driver('it has no bench that plays its machines')
        machine = self.filled_machine(opened, **samples.secrets_of(opened))
        counts = dict(self.groups)
        key = repr((self.driver, bench_class, machine, self.other, counts, way))
        if key not in _PLAYED:
            _PLAYED[key] = machine_journey.travelled(
                self.new_folder(), type(opened), bench_class, self.network,
                machine, self.other, counts, way,
            )  # fmt: skip
        self.assertEqual([], _PLAYED[key].mistakes, 'The bench itself is wrong.')
        return _PLAYED[key]

    def expect_a_cluster(self, *, first: bool = False) -> None:
        """End a behaviour at once for a driver whose clusters never come to be.

        :param first: This is the behaviour that shows it; all others would show the same.
        """
        if type(self).site is not ClusterFixture.site:
            return  # what machines need on another backend is not known here
        try:
            journey = self.journey()
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
