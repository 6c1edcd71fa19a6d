"""Animals with defects in ports, networks, groups and other resources."""

import contextlib
import dataclasses
import threading

from kiln.exceptions import (
    BuildConflict,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    ResourceNotFoundError,
)
from kiln.models import Attachment, Resource
from tests.kit.zoo.species import NO_ADDRESS, PLACED, NoopAnimal, caught_by


@caught_by(
    'test_attaching_a_port_again_is_a_success',
    'test_the_ports_of_a_build_are_attached',
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached',
)
class AttachesOnce(NoopAnimal):
    """Refuses to attach a port that is already attached to the instance."""

    def _attach_port(self, amphora_id, port_id):
        ports = {address.port_id for address in super()._get(amphora_id).addresses}
        if port_id in ports:
            raise InstanceStateConflict(f'Cannot attach {port_id}: it is already attached.')
        return super()._attach_port(amphora_id, port_id)


@caught_by(
    'test_a_port_in_use_elsewhere_is_refused',
    'test_detaching_the_port_of_another_instance_leaves_it',
    'test_a_detached_port_can_be_attached_to_the_same_instance_again',
)
class StealsPorts(NoopAnimal):
    """Detaches a port from any instance that has it."""

    def _attach_port(self, amphora_id, port_id):
        for other in self.cloud.instances():
            if other.id != amphora_id and other.state == 'active':
                super()._detach_port(other.id, port_id)
        return super()._attach_port(amphora_id, port_id)


@caught_by(
    'test_an_attachment_names_instance_and_port',
    'test_attaching_a_port_again_is_a_success',
    'test_the_ports_of_a_build_are_attached',
    'test_a_build_with_a_free_and_a_taken_port_takes_neither',
    'test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached',
)
class ForgetsThePort(NoopAnimal):
    """Does not return which port it attached."""

    def _attach_port(self, amphora_id, port_id):
        return dataclasses.replace(super()._attach_port(amphora_id, port_id), port_id='')


@caught_by(
    'test_detaching_an_unattached_port_is_a_success',
    'test_detaching_a_port_again_is_a_success',
    'test_detaching_the_port_of_another_instance_leaves_it',
    'test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached',
)
class DetachesOnlyWhatHangs(NoopAnimal):
    """Fails a detach of an unattached port."""

    def _detach_port(self, amphora_id, port_id):
        ports = {address.port_id for address in super()._get(amphora_id).addresses}
        if port_id not in ports:
            raise ResourceNotFoundError(f'Cannot detach {port_id}: it is not attached.')
        super()._detach_port(amphora_id, port_id)


@caught_by(
    'test_a_network_can_be_attached_to_two_instances',
    'test_each_attaching_of_a_network_makes_a_port_and_detaching_it_takes_all',
)
class HasOnePortForAll(NoopAnimal):
    """Gives each instance on a network the same port."""

    def _attach_network(self, amphora_id, network_id, address):
        attachment = super()._attach_network(amphora_id, network_id, address)
        return dataclasses.replace(attachment, port_id='the-port')


@caught_by(
    'test_an_instance_knows_its_server_group',
    'test_deleting_a_server_group_leaves_its_members',
)
class ForgetsTheGroup(NoopAnimal):
    """Does not report the server group of an instance."""

    def _get(self, amphora_id):
        return dataclasses.replace(super()._get(amphora_id), server_group_id=None)


@caught_by(
    'test_deleting_a_server_group_again_is_a_success',
    'test_deleting_an_unknown_server_group_is_a_success',
)
class DeletesOnlyGroupsThatAre(NoopAnimal):
    """Fails a delete of a group that is gone."""

    def _delete_server_group(self, server_group_id):
        groups = {one.id for one in super()._list_resources(self.owner)}
        if server_group_id not in groups:
            raise ResourceNotFoundError(
                f'Cannot delete group {server_group_id}: it does not exist.'
            )
        super()._delete_server_group(server_group_id)


@caught_by('test_deleting_a_server_group_leaves_its_members')
class DeletesTheMembersToo(NoopAnimal):
    """Deletes the members of a group with the group."""

    def _delete_server_group(self, server_group_id):
        for amphora in self.cloud.instances():
            if amphora.server_group_id == server_group_id:
                self.cloud.vanish(amphora.id)
        super()._delete_server_group(server_group_id)


@caught_by(
    'test_each_resource_listed_has_its_owner',
    'test_a_resource_in_use_is_not_deleted',
    'test_a_resource_names_its_owner_and_the_instance_that_uses_it',
    'test_deleting_an_unused_resource_deletes_nothing_else',
)
class ListsWithoutOwner(NoopAnimal):
    """Lists ports without their owner."""

    def _list_resources(self, owner):
        return [
            dataclasses.replace(one, owner=None) if one.kind == 'port' else one
            for one in super()._list_resources(owner)
        ]


@caught_by('test_no_resource_of_this_site_is_listed_for_another')
class ListsForEverybody(NoopAnimal):
    """Lists the resources of all owners for each owner."""

    def _list_resources(self, owner):
        return super()._list_resources(self.owner)


@caught_by('test_a_deleted_instance_leaves_no_resource_behind')
class LeavesPortsBehind(NoopAnimal):
    """Deletes instances, and leaves their ports."""

    def __init__(self):
        super().__init__()
        self._left = []

    def _delete(self, amphora_id):
        super()._delete(amphora_id)
        self._left.append(Resource(kind='port', id=f'of-{amphora_id}', owner=self.owner))

    def _list_resources(self, owner):
        left = self._left if owner == self.owner else []
        return [*super()._list_resources(owner), *left]


@caught_by(
    'test_a_resource_of_another_owner_is_not_deleted',
)
class DeletesForAnybody(NoopAnimal):
    """Deletes a resource without checking its owner."""

    def delete_resource(self, resource):
        super().delete_resource(dataclasses.replace(resource, owner=self.owner))


@caught_by(
    'test_a_detached_port_can_be_attached_elsewhere',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
    'test_a_detached_port_can_be_attached_to_the_same_instance_again',
)
class DetachesNothing(NoopAnimal):
    """Accepts a detach without an effect."""

    def _detach_port(self, amphora_id, port_id):
        return None


@caught_by(
    'test_an_attached_network_brings_a_port',
    'test_a_network_can_be_attached_to_two_instances',
    'test_each_attaching_of_a_network_makes_a_port_and_detaching_it_takes_all',
)
class ForgetsThePortOfANetwork(NoopAnimal):
    """Does not return the port of an attached network."""

    def _attach_network(self, amphora_id, network_id, address):
        attachment = super()._attach_network(amphora_id, network_id, address)
        return dataclasses.replace(attachment, port_id='')


@caught_by(
    'test_detaching_an_unattached_network_is_a_success',
    'test_detaching_a_network_again_is_a_success',
    'test_detaching_a_network_leaves_that_of_another_instance',
    'test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached',
)
class DetachesOnlyNetworksThatHang(NoopAnimal):
    """Fails a detach of an unattached network."""

    def _detach_network(self, amphora_id, network_id):
        networks = {address.network_id for address in super()._get(amphora_id).addresses}
        if network_id not in networks:
            raise ResourceNotFoundError(f'Cannot detach {network_id}: it is not attached.')
        super()._detach_network(amphora_id, network_id)


@caught_by(
    'test_a_server_group_has_the_name_and_policy_it_was_given',
    'test_an_unknown_policy_of_a_server_group_is_refused',
    'test_members_of_an_anti_affinity_group_have_distinct_hosts',
)
class HasOnePolicy(NoopAnimal):
    """Creates every group with its own choice of policy."""

    def _create_server_group(self, name, policy):
        return super()._create_server_group(name, 'soft-affinity')


@caught_by(
    'test_each_server_group_has_an_id_of_its_own',
    'test_a_server_group_exists_until_it_is_deleted',
    'test_deleting_a_server_group_leaves_its_members',
)
class HasOneGroup(NoopAnimal):
    """Returns the first group for every group."""

    def __init__(self):
        super().__init__()
        self._only = None

    def _create_server_group(self, name, policy):
        self._only = self._only or super()._create_server_group(name, policy)
        return dataclasses.replace(self._only, name=name)


@caught_by('test_listed_resources_are_distinct')
class ListsResourcesTwice(NoopAnimal):
    """Lists the same resource several times."""

    def _list_resources(self, owner):
        return [*super()._list_resources(owner)] * 2


@caught_by(
    'test_a_deleted_resource_is_no_longer_listed',
    'test_a_resource_in_use_is_not_deleted',
    'test_a_resource_of_an_unknown_kind_is_refused',
    'test_deleting_an_unused_resource_deletes_nothing_else',
)
class DeletesNoResource(NoopAnimal):
    """Accepts the delete of a resource without an effect."""

    def _delete_resource(self, resource):
        return None


@caught_by(
    'test_deleting_a_resource_again_is_a_success',
    'test_a_resource_of_an_unknown_kind_is_refused',
)
class DeletesOnlyResourcesThatAre(NoopAnimal):
    """Fails a delete of a resource that is gone."""

    def _delete_resource(self, resource):
        if resource.id not in {one.id for one in super()._list_resources(self.owner)}:
            raise ResourceNotFoundError(f'Cannot delete {resource.id}: it does not exist.')
        super()._delete_resource(resource)


@caught_by(
    'test_attaching_a_port_to_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class AttachesToNobody(NoopAnimal):
    """Accepts an attach to an unknown instance."""

    def _attach_port(self, amphora_id, port_id):
        try:
            return super()._attach_port(amphora_id, port_id)
        except InstanceNotFoundError:
            return Attachment(amphora_id=amphora_id, port_id=port_id)


@caught_by('test_the_port_of_a_deleted_instance_can_be_attached_elsewhere')
class KeepsPortsOfTheDead(NoopAnimal):
    """Refuses a port that a deleted instance had."""

    def __init__(self):
        super().__init__()
        self._had = {}

    def _attach_port(self, amphora_id, port_id):
        if self._had.get(port_id, amphora_id) != amphora_id:
            raise InstanceStateConflict(
                f'Cannot attach port {port_id}: it is in use.',
                amphora_id=amphora_id,
                resource_id=port_id,
            )
        attachment = super()._attach_port(amphora_id, port_id)
        self._had[port_id] = amphora_id
        return attachment

    def _detach_port(self, amphora_id, port_id):
        super()._detach_port(amphora_id, port_id)
        if self._had.get(port_id) == amphora_id:
            del self._had[port_id]


@caught_by('test_an_attachment_has_a_subnet_for_each_of_its_addresses_or_none')
class MixesUpSubnets(NoopAnimal):
    """Returns all subnets of a network with each attachment."""

    def _attach_network(self, amphora_id, network_id, address):
        attachment = super()._attach_network(amphora_id, network_id, address)
        return dataclasses.replace(attachment, subnet_ids=('subnet-1', 'subnet-2'))


class Placing(NoopAnimal):
    """Base of animals with defects in builds at a fixed address."""

    def elsewhere(self, request):
        """Return a request without its addresses."""
        networks = tuple(one.partition('=')[0] for one in request.network_ids)
        return dataclasses.replace(request, network_ids=networks)


@caught_by(*PLACED, NO_ADDRESS)
class DropsFixedAddresses(Placing):
    """Builds on a network at any address, whichever was requested."""

    def _build(self, request):
        return super()._build(self.elsewhere(request))


@caught_by(NO_ADDRESS)
class TakesAnyTextForAnAddress(Placing):
    """Builds at any address if it cannot read the one that was requested."""

    def _build(self, request):
        try:
            return super()._build(request)
        except InvalidBuildRequest:
            if not any('=' in one for one in request.network_ids):
                raise
            return super()._build(self.elsewhere(request))


@caught_by(*PLACED[1:])
class MovesToAnotherAddress(Placing):
    """Builds at another address if the one that was requested is in use."""

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildConflict:
            return super()._build(self.elsewhere(request))


@caught_by(PLACED[2])
class TrustsItsLook(Placing):
    """Looks if an address is in use, and takes no refusal after that."""

    def __init__(self):
        super().__init__()
        self._window = threading.Barrier(2)

    def _build(self, request):
        asked = {one.partition('=')[2] for one in request.network_ids} - {''}
        has = {one.address for other in self.cloud.instances() for one in other.addresses}
        if not asked or asked & has:
            return super()._build(request)
        if threading.current_thread().name == 'kit-at-once':
            with contextlib.suppress(threading.BrokenBarrierError):
                self._window.wait(timeout=0.5)
        try:
            return super()._build(request)
        except BuildConflict as exc:
            raise RuntimeError('the address was free a moment ago') from exc


@caught_by(PLACED[2])
class KeepsPortsOfLostAddresses(Placing):
    """Leaves the ports of a build whose address is in use with nobody."""

    def __init__(self):
        super().__init__()
        self._kept = set()

    def _build(self, request):
        try:
            return super()._build(request)
        except BuildConflict:
            if any('=' in one for one in request.network_ids):
                self._kept.update(request.port_ids)
            raise

    def _attach_port(self, amphora_id, port_id):
        if port_id in self._kept:
            raise InstanceStateConflict(f'Cannot attach port {port_id}: it is in use.')
        return super()._attach_port(amphora_id, port_id)
