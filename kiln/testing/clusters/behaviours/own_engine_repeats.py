"""Behaviours of repeated calls: whatever is lost on the way, each request has one effect."""

from __future__ import annotations

import contextlib
import dataclasses

from kiln.cluster_drivers.values import Cap
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.behaviours.own_engine_played import POLL_S


class EngineRepeats(OwnEngine):
    """Repeats."""

    # ---- a creation ------------------------------------------------------------------------

    def test_a_repeated_creation_makes_one_cluster(self) -> None:
        before = self._already()
        first = self.record(self.spec(), 'kit-one')
        with self.creating():
            again = self.create(self.played.open(), first)
        self._created_twice(again, before)

    def test_a_creation_repeated_without_its_handle_makes_one_cluster(self) -> None:
        before = self._already()
        first = self.record(self.spec(), 'kit-one')
        with self.creating():
            self.create(self.played.open(), first)
        self._created_twice(first, before)

    def test_a_creation_repeated_after_its_end_makes_one_cluster(self) -> None:
        before = self._already()
        self.stood(self.played.open(), 'kit-one')
        self._created_twice(self.record(self.spec(), 'kit-one'), before)

    def _already(self) -> int:
        """Return how much is in the engine; a bench that cannot tell shows the rest."""
        with contextlib.suppress(CannotBeShown):
            return len(self.bench.resources())
        return 0

    def _created_twice(self, again: Cluster, before: int) -> None:
        """Repeat a creation, and compare with a cluster that was created once."""
        names = [call.report.driver_handle for call in self.played.calls if call.report]
        driver = self.played.open()
        found = self.settled(driver, self.create(driver, again))
        known = {one for one in (*names, found.driver_handle) if one}
        self.assertLessEqual(
            len(known), 1, 'A repeated create_cluster returns another handle: there are two.'
        )
        self.none_of(self.wrongs(found), 'What stands is not what was asked for.')
        self._one_of(found, before)

    def _one_of(self, found: Cluster, before: int) -> None:
        """Fail if the engine has more than for a cluster that was created once."""
        there = len(self.bench.resources())
        driver = self.played.open()
        other = self.create(driver, self.record(found.spec, 'kit-other'))
        self.settled(driver, other)
        once, twice = len(self.bench.resources()) - there, there - before
        self.assertEqual(once, twice, 'A repeated create_cluster has made more than one has.')

    def test_a_creation_survives_a_kill(self) -> None:
        self.creatable()
        for later_s in (0.0, self.bench.takes_s / 3):
            with self.subTest(f'killed, and continued {later_s:g} s later'):
                spec = dataclasses.replace(self.spec(), name=f'{self.name}-{later_s:g}')
                self.done(self.declare(spec), killed=True, later_s=later_s)
                self._stands_if_known(spec.name)

    # ---- changes ---------------------------------------------------------------------------

    def test_an_update_survives_a_kill(self) -> None:
        self.created()
        with self.unless_refused():
            self._twice(self.declare(self.other_spec()))

    def test_an_update_with_fewer_nodes_survives_a_kill(self) -> None:
        spec = self.spec()
        self.created()
        with self.unless_refused():
            self._twice(self.declare(self.grown(spec, self.largest(spec), -1)))

    def test_a_resize_survives_a_kill(self) -> None:
        self.has(Cap.RESIZE)
        there = self.created()
        group = self.largest(there.spec)
        for more in (1, -1):
            with self.unless_refused():
                count = group.shape.count + more
                self._twice(requests.Resize(cluster=there.name, group=group.name, count=count))

    def test_a_named_removal_survives_a_kill(self) -> None:
        self.has(Cap.RESIZE)
        spec = self.spec()
        with self.unless_refused():
            there = self.created(self.grown(spec, self.largest(spec), 1))
        # A driver can refuse all names; then it does so without a kill, too.
        with self.unless_refused(ClusterDriverError):
            self._removed(there)
        for later_s in (0.0, self.bench.takes_s / 3):
            self._removed(there, killed=True, later_s=later_s)

    def _removed(self, there: Cluster, *, killed: bool = False, later_s: float = 0.0) -> None:
        """Remove a node of the largest group by its name, and no other."""
        group, before = self.largest(there.spec).name, self.now()
        named = next(name for name, one in before.items() if one.group == group)
        request = requests.Resize(cluster=there.name, group=group, remove=(named,))
        self.done(request, killed=killed, later_s=later_s)
        self.assert_stands(there.name)
        self.kept({name: one for name, one in before.items() if name != named})

    def test_an_upgrade_survives_a_kill(self) -> None:
        self.has(Cap.UPGRADE)
        there = self.created()
        with self.unless_refused():
            self._twice(requests.Upgrade(cluster=there.name, machine=self.bench.other))

    def test_a_reboot_survives_a_kill(self) -> None:
        self.has(Cap.REBOOT)
        self._twice(requests.Reboot(cluster=self.created().name))

    def test_a_rebuild_survives_a_kill(self) -> None:
        self.has(Cap.REBUILD)
        self._twice(requests.Rebuild(cluster=self.created().name))

    def test_a_rotation_survives_a_kill(self) -> None:
        for cap in (Cap.ROTATE_CREDENTIAL, Cap.ROTATE_CA_CERTIFICATE):
            if cap in self.driver_class.capabilities:
                what = requests.Rotated(cap.value.removeprefix('rotate_'))
                self._twice(requests.Rotate(cluster=self.created().name, what=what))
                return
        self.not_for_this_driver('the driver cannot rotate')

    def _twice(self, request: requests.Request) -> None:
        """Lose the answer to a request, and check what stands after the second call."""
        self.done(request, killed=True, later_s=self.bench.takes_s / 3)
        self._stands_if_known(self.name)

    def _stands_if_known(self, name: str) -> None:
        # That it ends is shown in any case.
        if self.shows_nodes:
            self.assert_stands(name)

    # ---- a deletion ------------------------------------------------------------------------

    def test_a_deletion_survives_a_kill(self) -> None:
        for later_s in (0.0, self.bench.takes_s / 3):
            there = self.created()
            request = requests.Delete(cluster=there.name)
            self.done(request, killed=True, later_s=later_s)

    def test_the_deletion_of_what_is_gone_succeeds(self) -> None:
        driver = self.played.open()
        there = self.stood(driver, 'kit-one')
        for _ in range(2):
            gone = self.call(self.played.open(), 'delete_cluster', there)
            self.settled(self.played.open(), gone)

    def test_the_deletion_of_what_never_was_succeeds(self) -> None:
        driver = self.played.open()
        self.settled(driver, self.call(driver, 'delete_cluster', self.record(self.spec(), 'kit')))

    def test_a_creation_that_failed_can_be_retried(self) -> None:
        self.creatable()
        self.bench.fail('no room for the kit')
        operation = self.played.ask(self.declare(self.spec()))
        self.played.run(operation)
        self.played.pass_time(POLL_S)
        self.played.clusters.retry(self.name)
        ended = self.played.run(operation)
        self.assertEqual('succeeded', ended.state.value, ended.cause)
        self._stands_if_known(self.name)
