"""Behaviours of clusters in an engine of the driver's own: what was asked is what stands."""

from __future__ import annotations

import dataclasses

from kiln.cluster_drivers.values import Cap
from kiln.cluster_service import requests
from kiln.clusters.exceptions import ClusterDriverError
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters.behaviours.own_engine import Nodes, OwnEngine

#: The group that an update adds, and a later one drops.
_NEW = 'kit-more'


class OwnEngineLife(OwnEngine):
    """Life in an engine of its own."""

    def test_a_cluster_of_a_file_is_created(self) -> None:
        self.created()

    def test_an_update_ends(self) -> None:
        self.created()
        self.updated(self.other_spec())

    def test_a_resize_ends(self) -> None:
        self.has(Cap.RESIZE)
        self.resized(self.created(), self.largest(self.spec()), 1)

    def test_an_upgrade_ends(self) -> None:
        self.has(Cap.UPGRADE)
        there = self.created()
        with self.unless_refused():
            self.done(requests.Upgrade(cluster=there.name, machine=self.bench.other))

    def test_a_reboot_ends(self) -> None:
        self.has(Cap.REBOOT)
        self.done(requests.Reboot(cluster=self.created().name))

    def test_a_rebuild_ends(self) -> None:
        self.has(Cap.REBUILD)
        self.done(requests.Rebuild(cluster=self.created().name))

    def test_a_rotation_of_credentials_ends(self) -> None:
        self._rotated(Cap.ROTATE_CREDENTIAL, requests.Rotated.CREDENTIAL)

    def test_a_rotation_of_certificates_ends(self) -> None:
        self._rotated(Cap.ROTATE_CA_CERTIFICATE, requests.Rotated.CA_CERTIFICATE)

    def _rotated(self, cap: Cap, what: requests.Rotated) -> None:
        self.has(cap)
        self.done(requests.Rotate(cluster=self.created().name, what=what))

    def test_a_rollback_ends(self) -> None:
        self.created()
        spec = self.other_spec()
        self.updated(spec)
        self.done(requests.GoBack(cluster=spec.name))

    def test_a_check_of_a_settled_cluster_succeeds(self) -> None:
        self.done(requests.Check(cluster=self.created().name))

    def test_a_deleted_cluster_can_be_created_again(self) -> None:
        there = self.created()
        self.done(requests.Delete(cluster=there.name))
        self.done(self.declare(self.spec()))


class WhatStands(OwnEngine):
    """What was asked is what stands."""

    def test_a_created_cluster_has_the_nodes_of_its_file(self) -> None:
        self.assert_stands(self.created().name)

    def test_values_of_one_group_reach_its_nodes_alone(self) -> None:
        spec = self.spec()
        group = dataclasses.replace(self.largest(spec), machine=self.bench.other)
        # A driver whose engine has no values of groups refuses them in validate().
        with self.unless_refused():
            there = self.created(self.with_group(spec, group))
        self.assert_stands(there.name)

    def test_an_update_reaches_every_node(self) -> None:
        self.created()
        self.assert_stands(self.updated(self.other_spec()).name)

    def test_an_update_reaches_more_and_fewer_nodes(self) -> None:
        spec = self.spec()
        self.created()
        for more in (1, -1):
            changed = self.grown(spec, self.largest(spec), more)
            before = self.others(self.stored(), self.largest(spec).name)
            self.assert_stands(self.updated(changed).name)
            self.kept(before)

    def test_an_update_adds_and_drops_a_group(self) -> None:
        spec = self.spec()
        there = self.created()
        before = self.nodes(there)
        more = dataclasses.replace(self.largest(spec), name=_NEW)
        self.assert_stands(self.updated(self.with_group(spec, more)).name)
        self.kept(before)
        self.assert_stands(self.updated(spec).name)
        self.kept(before)

    def test_an_update_can_empty_a_group(self) -> None:
        spec = self.spec()
        self.created()
        group = self.largest(spec)
        self.assert_stands(self.updated(self.grown(spec, group, -group.shape.count)).name)

    def test_an_update_moves_a_node_from_one_group_to_another(self) -> None:
        spec = self.spec()
        self.created()
        most, least = self.largest(spec), min(spec.groups, key=lambda one: one.shape.count)
        if most.name == least.name:
            raise CannotBeShown('the cluster_file of the bench has no groups of different sizes')
        # As many nodes as before: what counts them all has nothing to wait for.
        moved = self.grown(self.grown(spec, most, -1), least, 1)
        self.assert_stands(self.updated(moved).name)

    def test_an_update_without_a_change_of_a_group_keeps_its_nodes(self) -> None:
        spec = self.spec()
        there = self.created()
        group = self.largest(spec)
        before = self.others(there, group.name)
        machine = dataclasses.replace(group, machine=self.bench.other)
        self.updated(self.with_group(spec, machine))
        self.kept(before)

    def test_a_rollback_returns_to_what_stood_before(self) -> None:
        there = self.created()
        self.updated(self.grown(self.other_spec(), self.largest(there.spec), 1))
        # What has not succeeded is what a rollback leads away from.
        stopped = self.played.ask(
            self.declare(self.grown(self.spec(), self.largest(there.spec), 2))
        )
        self.played.run(stopped, for_s=0.0)
        self.store.operations.cancel(stopped.id)
        self.played.run(stopped)
        self.played.pass_time(self.bench.takes_s / 3)
        self.done(requests.GoBack(cluster=there.name))
        self.assert_stands(there.name)

    # ---- groups ----------------------------------------------------------------------------

    def test_a_resize_reaches_the_count_of_its_group_alone(self) -> None:
        self.has(Cap.RESIZE)
        there = self.created()
        shown = 0
        for group in there.spec.groups:
            before = self.others(there, group.name)
            try:
                self.resized(there, group, 1)
            except CannotBeShown:
                continue
            shown += 1
            self.assert_stands(there.name)
            self.kept(before)
        if not shown:
            raise CannotBeShown('the driver refuses another count of each group')

    def test_a_smaller_group_keeps_the_nodes_that_it_needs(self) -> None:
        self.has(Cap.RESIZE)
        there = self.created()
        group = self.largest(there.spec)
        before = self.nodes(there)
        self.resized(there, group, -1)
        self.assert_stands(there.name)
        new = [name for name, one in self.now().items() if before.get(name) != one]
        self.none_of(new, 'A smaller group has new nodes.')

    def test_the_named_nodes_are_removed_and_no_others(self) -> None:
        self.has(Cap.RESIZE)
        there = self.created()
        group = self.largest(there.spec)
        before = self.nodes(there)
        # Neither the oldest nor the newest: an engine without a choice removes one of these.
        members = sorted(name for name, one in before.items() if one.group == group.name)
        named = members[1:-1][:1]
        if not named:
            raise CannotBeShown('no group of the cluster_file of the bench has three nodes')
        for name in named:
            with self.unless_refused(ClusterDriverError):
                self.done(requests.Resize(cluster=there.name, group=group.name, remove=(name,)))
        self.assert_stands(there.name)
        self.kept({name: one for name, one in before.items() if name not in named})
        left = [name for name in named if self.now().get(name) == before[name]]
        self.none_of(left, 'A node that the user has named is still there.')

    def test_a_node_that_does_not_exist_is_refused_and_nothing_is_removed(self) -> None:
        self.has(Cap.RESIZE)
        there = self.created()
        before = self.nodes(there)
        group = self.largest(there.spec).name
        request = requests.Resize(cluster=there.name, group=group, remove=('kit-no-such-node',))
        self.refused(request)
        self.kept(before)

    def test_an_upgrade_reaches_the_named_group_alone(self) -> None:
        self.has(Cap.UPGRADE)
        there = self.created()
        group = self.largest(there.spec).name
        before = self.others(there, group)
        with self.unless_refused():
            self.done(
                requests.Upgrade(cluster=there.name, machine=self.bench.other, groups=(group,))
            )
        self.assert_stands(there.name)
        self.kept(before)

    def test_a_reboot_keeps_every_node(self) -> None:
        self.has(Cap.REBOOT)
        there = self.created()
        before = self.nodes(there)
        self.done(requests.Reboot(cluster=there.name))
        self.kept(before)
        self._booted(before, set(before))
        before, named = self.now(), min(before)
        with self.unless_refused(ClusterDriverError):
            self.done(requests.Reboot(cluster=there.name, nodes=(named,)))
        self.kept(before)
        self._booted(before, {named})
        self.refused(requests.Reboot(cluster=there.name, nodes=('kit-no-such-node',)))

    def _booted(self, before: Nodes, asked: set[str]) -> None:
        """Fail unless exactly some nodes were booted, where the engine counts that."""
        now = self.now()
        booted = {name for name, one in before.items() if now[name].boots != one.boots}
        if all(one.boots is not None for one in before.values()):
            self.assertEqual(asked, booted, 'The nodes that were booted are not the named ones.')

    def test_a_rebuild_keeps_the_names_and_the_other_nodes(self) -> None:
        self.has(Cap.REBUILD)
        there = self.created()
        before = self.nodes(there)
        self.done(requests.Rebuild(cluster=there.name))
        self._rebuilt(before, set(before))
        before, named = self.now(), min(before)
        with self.unless_refused(ClusterDriverError):
            self.done(requests.Rebuild(cluster=there.name, nodes=(named,)))
        self._rebuilt(before, {named})
        self.refused(requests.Rebuild(cluster=there.name, nodes=('kit-no-such-node',)))

    def _rebuilt(self, before: Nodes, asked: set[str]) -> None:
        self.kept({name: one for name, one in before.items() if name not in asked})
        now = self.now()
        self.assertEqual(set(before), set(now), 'A rebuild keeps the names of the nodes.')
        self.none_of(
            (name for name in asked if before[name].id and before[name].id == now[name].id),
            'A node that was to be rebuilt is the same machine.',
        )

    # ---- rotations -------------------------------------------------------------------------

    def test_a_rotation_gives_the_cluster_new_credentials(self) -> None:
        self._renewed(Cap.ROTATE_CREDENTIAL, requests.Rotated.CREDENTIAL, 'credentials')

    def test_a_rotation_gives_the_cluster_a_new_certificate(self) -> None:
        self._renewed(Cap.ROTATE_CA_CERTIFICATE, requests.Rotated.CA_CERTIFICATE, 'certificate')

    def _renewed(self, cap: Cap, what: requests.Rotated, name: str) -> None:
        self.has(cap)
        there = self.created()
        before = getattr(self.bench, name)(there)
        # The account of a site can be what is handed on.
        self.played.secrets.change()
        self.done(requests.Rotate(cluster=there.name, what=what))
        after = getattr(self.bench, name)(self.stored())
        self.assertNotEqual(before, after, f'The {name} is the same after a rotation.')
