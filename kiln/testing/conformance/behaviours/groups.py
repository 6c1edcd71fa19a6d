"""Behaviours of server groups and of resources other than instances."""

from __future__ import annotations

import contextlib

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import (
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
)
from kiln.models import Ability, ComputeStatus, Resource, ServerGroup, State
from kiln.testing.conformance.fixture import ConformanceFixture, needs, takes

_DAY_S = 86_400.0


class Groups(
    ConformanceFixture,
    contract=(AmphoraComputeDriver.list_resources, AmphoraComputeDriver.delete_resource),
):
    """Server groups and resources."""

    @needs(Ability.CREATE_SERVER_GROUP)
    def test_a_server_group_has_the_name_and_policy_it_was_given(self) -> None:
        name = self.new_key()
        group = self.new_group(name, 'anti-affinity')
        self.assertEqual((group.name, group.policy), (name, 'anti-affinity'))

    @needs(Ability.CREATE_SERVER_GROUP)
    def test_each_server_group_has_an_id_of_its_own(self) -> None:
        self.assertNotEqual(self.new_group().id, self.new_group().id)

    @needs(Ability.CREATE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_an_instance_knows_its_server_group(self) -> None:
        group = self.new_group()
        self.assertEqual(self.described(server_group_id=group.id).server_group_id, group.id)

    @needs(Ability.CREATE_SERVER_GROUP, Ability.DELETE_SERVER_GROUP)
    def test_deleting_a_server_group_again_is_a_success(self) -> None:
        group = self.new_group()
        self.driver.delete_server_group(group.id)
        self.driver.delete_server_group(group.id)

    @needs(Ability.CREATE_SERVER_GROUP)
    def test_an_unknown_policy_of_a_server_group_is_refused(self) -> None:
        with self.assertRaises(InvalidRequest):
            self.new_group(policy='no-such-policy')

    @needs(Ability.CREATE_SERVER_GROUP, Ability.DELETE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_a_server_group_exists_until_it_is_deleted(self) -> None:
        # A key with a capital, which must not be lost on its way into the error.
        key = f'{self.new_key()}-K'
        with self.assertRaises(InvalidBuildRequest) as caught:
            self.build(build_key=key, server_group_id=self.unknown_id())
        self.assertEqual(caught.exception.build_key, key, 'build_key of the error')
        goes, stays = self.new_group(), self.new_group()
        self.driver.delete_server_group(goes.id)
        self.assert_not_built(server_group_id=goes.id)
        for group in (stays, self.new_group(goes.name, goes.policy)):
            self.build(server_group_id=group.id)

    @needs(Ability.CREATE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_members_of_an_affinity_group_share_a_host(self) -> None:
        members = self.members(self.new_group(policy='affinity'), 1)
        self.assertEqual(len(members), 2, 'the number of amphorae that were built')
        self.assertEqual(len(self.hosts_of(members)), 1, 'the number of hosts')

    @needs(Ability.CREATE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_members_of_an_anti_affinity_group_have_distinct_hosts(self) -> None:
        # The host of another group's member can be used, too.
        self.build(server_group_id=self.new_group().id)
        members = self.members(self.new_group(policy='anti-affinity'), self.hosts_per_zone or 1)
        self.assertEqual(len(self.hosts_of(members)), len(members), 'the number of hosts')
        if self.hosts_per_zone:
            self.assertEqual(len(members), self.hosts_per_zone, 'the number of members')

    @needs(Ability.CREATE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_a_soft_policy_of_a_server_group_refuses_no_build(self) -> None:
        for policy, more in (
            ('soft-affinity', 1),
            ('soft-anti-affinity', self.hosts_per_zone or 1),
        ):
            try:
                group = self.new_group(policy=policy)
            except InvalidRequest:
                # This backend has no soft policies.
                continue
            members = self.members(group, more)
            self.assertEqual(len(members), 1 + more, f'the number of members, with {policy}')

    @needs(Ability.DELETE_SERVER_GROUP)
    def test_deleting_an_unknown_server_group_is_a_success(self) -> None:
        self.driver.delete_server_group(self.unknown_id())

    @needs(Ability.CREATE_SERVER_GROUP, Ability.DELETE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_deleting_a_server_group_leaves_its_members(self) -> None:
        group, other = self.new_group(), self.new_group()
        member = self.build_active(server_group_id=group.id)
        stranger = self.build(server_group_id=other.id)
        self.driver.delete_server_group(group.id)
        self.assert_exists(member)
        found = self.driver.get_amphora(amphora_id=stranger)
        self.assertEqual(found.server_group_id, other.id, 'server_group_id of another member')

    @needs(Ability.LIST_RESOURCES)
    def test_each_resource_listed_has_its_owner(self) -> None:
        self.build_active()
        owners = {resource.owner for resource in self.driver.list_resources()}
        self.assertEqual(owners - {self.driver.owner}, set(), 'other owners')

    @needs(Ability.LIST_RESOURCES)
    def test_no_resource_of_this_site_is_listed_for_another(self) -> None:
        self.build_active()
        self.assertEqual(list(self.driver.list_resources(f'{self.prefix}-nobody')), [])

    @needs(Ability.LIST_RESOURCES)
    def test_listed_resources_are_distinct(self) -> None:
        self.build_active()
        self.build_active()
        listed = [(resource.kind, resource.id) for resource in self.driver.list_resources()]
        self.assertEqual(len(listed), len(set(listed)))

    @needs(Ability.LIST_RESOURCES)
    def test_a_deleted_instance_leaves_no_resource_behind(self) -> None:
        before = self.resources()
        amphora_id = self.build_active()
        self.driver.delete(amphora_id)
        self.vanishes(lambda: self.resources() - before)

    @needs(Ability.LIST_RESOURCES, Ability.DELETE_RESOURCE, Ability.CREATE_SERVER_GROUP)
    def test_a_deleted_resource_is_no_longer_listed(self) -> None:
        resource = self.resource()
        self.driver.delete_resource(resource)
        self.vanishes(lambda: self.resources() & {(resource.kind, resource.id)})

    @needs(Ability.LIST_RESOURCES, Ability.DELETE_RESOURCE, Ability.CREATE_SERVER_GROUP)
    def test_deleting_a_resource_again_is_a_success(self) -> None:
        resource = self.resource()
        self.driver.delete_resource(resource)
        self.driver.delete_resource(resource)

    @needs(Ability.LIST_RESOURCES)
    def test_a_resource_names_its_owner_and_the_instance_that_uses_it(self) -> None:
        before = self.resources()
        amphora_id = self.build_active()
        self.used(before, amphora_id)

    @needs(Ability.LIST_RESOURCES, Ability.DELETE_RESOURCE)
    def test_a_resource_in_use_is_not_deleted(self) -> None:
        before = self.resources()
        amphora_id = self.build_active()
        for resource in self.used(before, amphora_id):
            with self.assertRaises(InstanceStateConflict, msg=f'delete of {resource.kind}'):
                self.driver.delete_resource(resource)
            self.assertIn((resource.kind, resource.id), self.resources(), 'the resources')

    @needs(Ability.LIST_RESOURCES, Ability.DELETE_RESOURCE)
    def test_deleting_an_unused_resource_deletes_nothing_else(self) -> None:
        amphora_id = self.build_active()
        go, stay = self.leave_resources(), self.leave_resources()
        listed = {(one.kind, one.id): one for one in self.driver.list_resources()}
        for left in (*go, *stay):
            self.assertIn((left.kind, left.id), listed, 'the resources')
            found = listed[left.kind, left.id]
            self.assertEqual(found.owner, self.driver.owner, f'owner of {left.kind} {left.id}')
            self.assertIsNone(found.amphora_id, 'amphora_id of an unused resource is None')
        for left in go:
            self.driver.delete_resource(left)
        gone = {(left.kind, left.id) for left in go}
        self.vanishes(lambda: self.resources() & gone)
        self.assertLessEqual(set(listed) - gone, self.resources(), 'the resources')
        self.assert_exists(amphora_id)

    @needs(Ability.DELETE_RESOURCE)
    def test_a_resource_of_an_unknown_kind_is_refused(self) -> None:
        unknown = Resource(kind='no-such-kind', id=self.unknown_id(), owner=self.driver.owner)
        with self.assertRaises(InvalidRequest) as caught:
            self.driver.delete_resource(unknown)
        self.assertEqual(caught.exception.resource_id, unknown.id, 'resource_id of the error')

    def test_a_resource_of_another_owner_is_not_deleted(self) -> None:
        foreign = Resource(kind='port', id=self.unknown_id(), owner=self.other_owner)
        with self.assertRaises(InvalidRequest):
            self.driver.delete_resource(foreign)

    def members(self, group: ServerGroup, more: int) -> list[str]:
        """Build an amphora in a group, and more in its zone; return those with a place."""
        first = self.build_active(server_group_id=group.id)
        zone = self.driver.get_amphora(amphora_id=first).availability_zone
        # Only then are the hosts known that can take the others.
        given = self.taken(availability_zone=zone) if self.hosts_per_zone and zone else {}
        accepted = []
        for _ in range(more):
            with contextlib.suppress(InsufficientCapacity):
                accepted.append(self.build(server_group_id=group.id, **given))
        return [first, *filter(self.has_place, accepted)]

    def has_place(self, amphora_id: str) -> bool:
        """Wait until an instance is active, or has failed for lack of a host."""

        def ended(status: ComputeStatus) -> bool:
            return status.task_state is None and status.state in (State.ACTIVE, State.ERROR)

        sentence = f'amphora {amphora_id} is active, or in error for lack of a host'
        seen = self.becomes(lambda: self.driver.status(amphora_id), ended, sentence)
        if seen.state is State.ERROR:
            self.assertEqual(seen.fault_code, InsufficientCapacity.code, 'fault_code')
        return seen.state is State.ACTIVE

    def hosts_of(self, members: list[str]) -> set[str]:
        """Return the hosts of active instances."""
        return {self.bench.host_of(amphora_id) for amphora_id in members}

    def used(self, before: set[tuple[str, str]], amphora_id: str) -> list[Resource]:
        """Return the resources that came with an instance, each of which must name it."""
        listed = [one for one in self.driver.list_resources() if (one.kind, one.id) not in before]
        if not listed:
            raise CannotBeShown('this backend lists no resource that an instance uses')
        for one in listed:
            self.assertEqual(one.owner, self.driver.owner, f'owner of {one.kind} {one.id}')
            self.assertEqual(one.amphora_id, amphora_id, f'amphora_id of {one.kind} {one.id}')
            # A backend might not know it, and its clock can differ from the local one.
            if one.created_at is not None:
                age_s = abs(one.created_at - self.time.time())
                self.assertLess(age_s, _DAY_S, f'seconds since created_at of {one.kind} {one.id}')
        return listed

    def resources(self) -> set[tuple[str, str]]:
        """Return the resources of this site other than instances."""
        return {(resource.kind, resource.id) for resource in self.driver.list_resources()}

    def resource(self) -> Resource:
        """Create a resource that can be deleted: a server group without members."""
        group = self.new_group()
        for resource in self.driver.list_resources():
            if resource.id == group.id:
                return resource
        raise CannotBeShown('this backend does not list server groups as resources')
