"""Behaviours of clusters that go on with what exists in the engine."""

from __future__ import annotations

import dataclasses

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Existing, Progress
from kiln.cluster_service.requests import AdoptExisting, Delete
from kiln.clusters.exceptions import ClusterDriverDefect, ClusterDriverError, MissingCapability
from kiln.clusters.models import Cluster
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.behaviours.own_engine_played import POLL_S

_NOTHING = 'kit-of-nobody'


class GoingOn(OwnEngine):
    """What exists."""

    def test_what_does_not_exist_is_refused(self) -> None:
        self._only_if_it_goes_on()
        self._existing_is_refused(_NOTHING, 'It does not exist')

    def test_what_a_cluster_has_is_not_given_to_another(self) -> None:
        self._only_if_it_goes_on()
        there = self.created()
        if not there.driver_handle:
            raise CannotBeShown('the driver returns no handle')
        self._existing_is_refused(there.driver_handle, 'It is the cluster of another')

    def test_looking_at_what_exists_changes_nothing(self) -> None:
        reference, before = self._by_hand()
        self._found_existing(self.played.open(), self.record(self.spec(), 'kit-new'), reference)
        self.played.pass_time(POLL_S)
        self.assertEqual(before, set(self.bench.resources()), 'A look has changed the engine.')

    def test_a_cluster_goes_on_with_what_exists_and_keeps_it(self) -> None:
        self._keeps(killed=False)

    def test_going_on_with_what_exists_survives_a_kill(self) -> None:
        self._keeps(killed=True)

    def test_a_deletion_leaves_what_no_creation_has_reached(self) -> None:
        reference, before = self._by_hand()
        driver, record = self.played.open(), self.record(self.spec(), 'kit-new')
        found = self._found_existing(driver, record, reference)
        record = dataclasses.replace(record, driver_state=found.driver_state)
        left = self.call(driver, 'delete_cluster', record)
        if self.played.calls[-1].progress is not Progress.COMPLETE:
            self.settled(driver, left)
        self.assertEqual(before, set(self.bench.resources()), 'What existed was deleted.')

    def _keeps(self, *, killed: bool) -> None:
        others = set(self.bench.resources())
        reference, before = self._by_hand()
        whole = self.declare(self.spec())
        self.done(AdoptExisting(spec=whole.spec, existing=reference), killed=killed)
        self.assertEqual(before, set(self.bench.resources()), 'What existed was not kept.')
        if self.shows_nodes:
            self.assert_stands(self.name)
        there = self.stored()
        self.done(Delete(cluster=self.name))
        self.assert_gone(there, others)

    def _by_hand(self) -> tuple[str, set[str]]:
        """Make what exists; return its reference, and everything that is in the engine."""
        self._only_if_it_goes_on()
        reference = self.bench.make_existing(self.record(self.spec(), 'kit-new'))
        return reference, set(self.bench.resources())

    def _only_if_it_goes_on(self) -> None:
        if self.driver_class.find_existing is ClusterDriver.find_existing:
            self.not_for_this_driver('the driver goes on with nothing that exists')
        try:
            self._found_existing(self.played.open(), self.record(self.spec(), 'kit-new'), _NOTHING)
        except MissingCapability:
            self.not_for_this_driver('the driver goes on with nothing that exists')
        # The behaviours show by themselves what is wrong.
        except ClusterDriverError:
            return

    def _existing_is_refused(self, reference: str, why: str) -> None:
        record = self.record(dataclasses.replace(self.spec(), name='kit-new'), 'kit-new')
        try:
            self._found_existing(self.played.open(), record, reference)
        except ClusterDriverDefect:
            raise
        except ClusterDriverError:
            return
        self.fail(f'{why}: raise a ClusterDriverError in find_existing.')

    def _found_existing(self, driver: ClusterDriver, cluster: Cluster, reference: str) -> Existing:
        return call_driver(
            driver.name,
            'find_existing',
            lambda: driver.find_existing(
                context=self.context(), cluster=cluster, reference=reference
            ),
        )
