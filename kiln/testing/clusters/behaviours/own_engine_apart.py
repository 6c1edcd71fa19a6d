"""Behaviours of clusters beside each other, of what is left, and of what is remembered."""

from __future__ import annotations

import dataclasses
import json

from kiln.cluster_drivers.values import Progress
from kiln.cluster_service import requests
from kiln.clusters.models import Cluster
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.own_engine import Nodes, OwnEngine
from kiln.testing.clusters.behaviours.own_engine_played import POLL_S
from kiln.testing.clusters.simulation.own_engine_process import call_in_process


class Apart(OwnEngine):
    """Each cluster its own."""

    def test_two_clusters_have_nothing_in_common(self) -> None:
        east, west = self._two()
        for one, other in ((east, west), (west, east)):
            told = json.dumps(
                [one.driver_handle, dict(one.driver_state), dict(one.outputs)], default=str
            )
            for word in (other.id, other.name):
                self.assertNotIn(word, told, 'What is reported of a cluster names another one.')

    def test_a_change_of_a_cluster_leaves_the_other_alone(self) -> None:
        east, west = self._two()
        before = self.nodes(west)
        changed = self.grown(self.other_spec(), self.largest(east.spec), 1)
        with self.unless_refused():
            self.done(self.declare(dataclasses.replace(changed, name=east.name)))
        self.assert_stands(east.name)
        self._untouched(west, before)

    def test_the_deletion_of_a_cluster_leaves_the_other_alone(self) -> None:
        east, west = self._two()
        before = self.nodes(west)
        self.done(requests.Delete(cluster=east.name))
        self._untouched(west, before)
        self.done(requests.Check(cluster=west.name))

    def test_a_cluster_of_another_owner_can_have_the_same_name(self) -> None:
        driver = self.played.open()
        mine = self.stood(driver, 'kit-mine')
        theirs = self.stood(driver, 'kit-theirs')
        self.settled(driver, self.call(driver, 'delete_cluster', theirs))
        self.call(driver, 'update_cluster_status', mine)
        self.assertIs(
            Progress.COMPLETE, self.played.calls[-1].progress,
            'A cluster is gone with another of the same name: name what you make after the id.',
        )  # fmt: skip
        if self.shows_nodes:
            self.none_of(self.wrongs(mine), 'What stands is not what was asked for.')

    def _two(self) -> tuple[Cluster, Cluster]:
        names = [f'{self.name}-{side}' for side in ('east', 'west')]
        for name in names:
            self.created(dataclasses.replace(self.spec(), name=name))
        east, west = map(self.store.clusters.get, names)
        return east, west

    def _untouched(self, cluster: Cluster, before: Nodes) -> None:
        self.assertEqual(before, self.nodes(cluster), 'A change of one cluster reached another.')


class Leavings(OwnEngine):
    """Leavings."""

    def test_a_life_leaves_nothing_in_the_engine(self) -> None:
        before = set(self.bench.resources())
        there = self.created()
        with self.unless_refused():
            self.done(self.declare(self.grown(self.other_spec(), self.largest(there.spec), 1)))
        self.done(requests.Delete(cluster=there.name))
        self.assert_gone(there, before)

    def test_a_creation_that_failed_leaves_nothing_once_it_is_deleted(self) -> None:
        before = set(self.bench.resources())
        self.bench.fail('no room for the kit')
        self.played.run(self.played.ask(self.declare(self.spec())))
        there = self.stored()
        self.done(requests.Delete(cluster=there.name))
        self.assert_gone(there, before)

    def test_a_creation_under_way_leaves_nothing_once_it_is_deleted(self) -> None:
        before = set(self.bench.resources())
        for killed in (False, True):
            operation = self.played.ask(self.declare(self.spec()))
            if killed:
                self.played.kill(operation)
            else:
                self.played.run(operation, for_s=0.0)
            there = self.stored()
            self.done(requests.Delete(cluster=there.name))
            self.assert_gone(there, before)

    def test_a_plan_makes_nothing(self) -> None:
        there = self.created()
        before = set(self.bench.resources())
        with self.unless_refused():
            self.played.clusters.plan(self.declare(self.other_spec()))
        self.played.clusters.plan(
            self.declare(dataclasses.replace(self.spec(), name=f'{there.name}-2'))
        )
        self.played.pass_time(POLL_S)
        self.assertEqual(before, set(self.bench.resources()), 'A plan has changed the engine.')


class Memory(OwnEngine):
    """Memory."""

    def test_another_instance_goes_on_at_any_time(self) -> None:
        spec = self.spec()
        for request in (
            self.declare(spec),
            self.declare(self.grown(spec, self.largest(spec), 1)),
            requests.Delete(cluster=spec.name),
        ):
            with self.unless_refused():
                operation = self.played.ask(request)
            end = self.clock.monotonic() + self.bench.takes_s
            while not self.store.operations.get(operation.id).state.ended:
                self.played.run(operation, for_s=POLL_S)
                self.played.restart()
                self.assertLess(
                    self.clock.monotonic(),
                    end,
                    'An operation does not end if another process goes on.',
                )
            self.no_defect()
            ended = self.store.operations.get(operation.id)
            self.assertEqual('succeeded', ended.state.value, ended.cause)
            if self.shows_nodes and operation.kind.value != 'delete':
                self.assert_stands(spec.name)

    def test_another_process_goes_on(self) -> None:
        if not self.bench.outlives_process:
            raise CannotBeShown('the engine of the bench lives in this process alone')
        driver = self.played.open()
        there = self.stood(driver, 'kit-one')
        told, _ = call_in_process(self.driver, self.bench, there, 'update_cluster_status')
        self.assertEqual(
            Progress.COMPLETE.value, told, 'What a driver needs is in handle, state or engine.'
        )
        call_in_process(self.driver, self.bench, there, 'delete_cluster')
        self.played.pass_time(POLL_S)
        going = self.call(self.played.open(), 'delete_cluster', there)
        self.settled(self.played.open(), going)
