"""Behaviours of server groups and of resources other than instances."""

from __future__ import annotations

from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.exceptions import InvalidRequest
from kiln.models import Ability, Resource
from kiln.testing.conformance.fixture import ConformanceFixture, needs, takes


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

    @needs(Ability.DELETE_SERVER_GROUP)
    def test_deleting_an_unknown_server_group_is_a_success(self) -> None:
        self.driver.delete_server_group(self.unknown_id())

    @needs(Ability.CREATE_SERVER_GROUP, Ability.DELETE_SERVER_GROUP)
    @takes(server_group_id='some')
    def test_deleting_a_server_group_leaves_its_members(self) -> None:
        group = self.new_group()
        member = self.build_active(server_group_id=group.id)
        self.driver.delete_server_group(group.id)
        self.assert_exists(member)

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

    def test_a_resource_of_another_owner_is_not_deleted(self) -> None:
        foreign = Resource(kind='port', id=self.unknown_id(), owner=self.other_owner)
        with self.assertRaises(InvalidRequest):
            self.driver.delete_resource(foreign)

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
