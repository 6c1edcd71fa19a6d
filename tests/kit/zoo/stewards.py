"""Animals with defects in groups, resources, offers, checks, and actions that repeat."""

import contextlib
import dataclasses
import functools
from types import MappingProxyType

from kiln.exceptions import (
    DeleteFailed,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
)
from kiln.models import State
from tests.kit.zoo.species import LATENCIES, NoopAnimal, caught_by

FEW_HOSTS = MappingProxyType({**LATENCIES, 'zones': ['az1'], 'hosts_per_zone': 2})


@caught_by('test_an_unknown_policy_of_a_server_group_is_refused')
class TakesAnyPolicy(NoopAnimal):
    """Creates a group with a policy that does not exist."""

    def _create_server_group(self, name, policy):
        known = 'affinity' if policy.startswith('no-') else policy
        return dataclasses.replace(super()._create_server_group(name, known), policy=policy)


@caught_by(
    'test_a_server_group_exists_until_it_is_deleted',
    'test_a_server_group_is_reported_as_it_was_given_or_refused',
)
class BuildsIntoAnyGroup(NoopAnimal):
    """Builds without a group where the group does not exist."""

    def _build(self, request):
        try:
            return super()._build(request)
        except InvalidBuildRequest as exc:
            if exc.resource_id is None:
                raise
            return super()._build(dataclasses.replace(request, server_group_id=None))


@caught_by('test_a_server_group_exists_until_it_is_deleted')
class RemembersGroups(NoopAnimal):
    """Returns a group that is gone for the next one of its name."""

    def __init__(self):
        super().__init__()
        self._groups_by_name = {}

    def _create_server_group(self, name, policy):
        known = self._groups_by_name.get((name, policy))
        if known is None:
            known = super()._create_server_group(name, policy)
            self._groups_by_name[name, policy] = known
        return known


@caught_by('test_deleting_a_server_group_leaves_its_members')
class DissolvesAllGroups(NoopAnimal):
    """Takes the members of other groups out of their group, too."""

    def _delete_server_group(self, server_group_id):
        super()._delete_server_group(server_group_id)
        with self.cloud.store.write(self.cloud.gate.now()) as db:
            db.execute('UPDATE machines SET group_id = NULL')


@caught_by('test_members_of_an_affinity_group_share_a_host')
class PlacesApart(NoopAnimal):
    """Ignores the policy of an affinity group."""

    def _create_server_group(self, name, policy):
        chosen = 'soft-anti-affinity' if policy == 'affinity' else policy
        return dataclasses.replace(super()._create_server_group(name, chosen), policy=policy)


@caught_by('test_members_of_an_anti_affinity_group_have_distinct_hosts')
class PlacesWhereThereIsRoom(NoopAnimal):
    """Takes the policy of an anti-affinity group for a wish."""

    cloud_options = FEW_HOSTS

    def _create_server_group(self, name, policy):
        chosen = 'soft-anti-affinity' if policy == 'anti-affinity' else policy
        return dataclasses.replace(super()._create_server_group(name, chosen), policy=policy)


@caught_by('test_members_of_an_anti_affinity_group_have_distinct_hosts')
class TakesFullGroupsForDefects(NoopAnimal):
    """Raises another error where no host is left for a group."""

    cloud_options = FEW_HOSTS

    def _build(self, request):
        try:
            return super()._build(request)
        except InsufficientCapacity as exc:
            if request.server_group_id is None:
                raise
            raise InvalidBuildRequest(str(exc), build_key=request.build_key) from exc


@caught_by('test_a_soft_policy_of_a_server_group_refuses_no_build')
class InsistsOnWishes(NoopAnimal):
    """Takes a soft policy for a hard one."""

    cloud_options = FEW_HOSTS

    def _create_server_group(self, name, policy):
        hard = policy.removeprefix('soft-')
        return dataclasses.replace(super()._create_server_group(name, hard), policy=policy)


@caught_by(
    'test_a_resource_names_its_owner_and_the_instance_that_uses_it',
    'test_a_resource_in_use_is_not_deleted',
)
class ListsWithoutUser(NoopAnimal):
    """Lists ports without the instance that has them."""

    def _list_resources(self, owner):
        return [
            dataclasses.replace(one, amphora_id=None) for one in super()._list_resources(owner)
        ]


@caught_by('test_a_resource_in_use_is_not_deleted')
class DeletesWhatIsInUse(NoopAnimal):
    """Takes a port away from the instance that has it."""

    def _delete_resource(self, resource):
        for address in self._addresses():
            if address.port_id == resource.id:
                with self.cloud.store.write(self.cloud.gate.now()) as db:
                    db.execute('UPDATE ports SET machine = NULL WHERE id = ?', (resource.id,))
        super()._delete_resource(resource)

    def _addresses(self):
        return [address for one in self.cloud.instances() for address in one.addresses]


@caught_by('test_deleting_an_unused_resource_deletes_nothing_else')
class DeletesAllThatIsUnused(NoopAnimal):
    """Deletes every unused resource of a site in one go."""

    def _delete_resource(self, resource):
        super()._delete_resource(resource)
        for other in super()._list_resources(self.owner):
            if other.amphora_id is None:
                super()._delete_resource(other)


@caught_by('test_deleting_an_unused_resource_deletes_nothing_else')
class ListsOnlyWhatIsUsed(NoopAnimal):
    """Lists no port that was left behind."""

    def _list_resources(self, owner):
        listed = super()._list_resources(owner)
        return [one for one in listed if one.amphora_id is not None or one.kind != 'port']


@caught_by('test_a_resource_of_an_unknown_kind_is_refused')
class DeletesAnyKind(NoopAnimal):
    """Takes a kind that does not exist for something that is gone."""

    def _delete_resource(self, resource):
        with contextlib.suppress(InvalidRequest):
            super()._delete_resource(resource)


@caught_by('test_builds_accept_each_zone_that_is_listed_or_any_where_none_is_listed')
class ListsNoZones(NoopAnimal):
    """Lists no zones, although its builds refuse a zone that does not exist."""

    def _list_zones(self):
        return ()


@caught_by(
    'test_builds_accept_each_zone_that_is_listed_or_any_where_none_is_listed',
    'test_an_instance_is_in_the_zone_that_was_requested',
)
class ListsClosedZones(NoopAnimal):
    """Lists a zone that takes no builds."""

    def _list_zones(self):
        return [*super()._list_zones(), 'az0']


@caught_by('test_an_image_is_described_by_its_own_name_and_properties')
class DropsImageProperties(NoopAnimal):
    """Describes an image without the properties that its owner set."""

    cloud_options = MappingProxyType(
        {
            **LATENCIES,
            'images': ['image-1'],
            'image_properties': {'image-1': {'os_distro': 'debian'}},
        }
    )

    def _describe_image(self, image_id):
        return dataclasses.replace(super()._describe_image(image_id), properties={})


@caught_by('test_a_health_check_has_values_of_their_types_and_the_time_that_it_took')
class ChecksInNoTime(NoopAnimal):
    """Does not report how long the backend took to answer."""

    def _check(self):
        self.clock.advance(0.5)
        return dataclasses.replace(super()._check(), latency_s=0.0)


@caught_by(
    'test_a_health_check_has_values_of_their_types_and_the_time_that_it_took',
    'test_each_fact_has_the_type_of_the_contract',
)
class ReportsHealthInWords(NoopAnimal):
    """Reports the health of the backend as a text, and its text as a flag."""

    def _check(self):
        return dataclasses.replace(super()._check(), healthy='all is well', detail=True)


@caught_by('test_a_health_check_fails_while_the_backend_cannot_be_used')
class ChecksOnce(NoopAnimal):
    """Returns the result of its first check again."""

    _check = functools.cache(NoopAnimal._check)


@caught_by('test_a_console_log_that_is_read_again_has_what_came_since')
class ReadsTheConsoleOnce(NoopAnimal):
    """Returns a console log as it was when it was first read."""

    _console_log = functools.cache(NoopAnimal._console_log)


@caught_by('test_a_console_log_of_some_lines_has_the_last_ones')
class ReadsTheBeginning(NoopAnimal):
    """Returns the first lines of a console log instead of the last."""

    def _console_log(self, amphora_id, lines):
        return ''.join(super()._console_log(amphora_id, None).splitlines(keepends=True)[:lines])


@caught_by('test_a_reboot_is_hard_only_if_that_was_requested')
class RebootsSoftlyOnly(NoopAnimal):
    """Takes a hard reboot for a soft one."""

    def _reboot(self, amphora_id, hard):
        super()._reboot(amphora_id, False)


@caught_by('test_an_instance_has_the_image_that_it_was_rebuilt_from_last')
class RebuildsFromTheFirstImage(NoopAnimal):
    """Rebuilds an instance from the image that it was built from."""

    def _rebuild(self, amphora_id, image_id):
        super()._rebuild(amphora_id, None)


@caught_by('test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once')
class TogglesSuspension(NoopAnimal):
    """Takes a repeated suspend for its opposite."""

    def _suspend(self, amphora_id):
        if super()._status(amphora_id).task_state == 'suspending':
            self.cloud.start(amphora_id)
            return
        super()._suspend(amphora_id)


@caught_by('test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once')
class CrashesWhenRepeated(NoopAnimal):
    """Raises another error for a reboot while one is under way."""

    def _reboot(self, amphora_id, hard):
        status = super()._status(amphora_id)
        if status.state is State.ACTIVE and status.task_state is not None:
            raise DeleteFailed(f'Cannot reboot {amphora_id}: it reboots.', amphora_id=amphora_id)
        super()._reboot(amphora_id, hard)


@caught_by('test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once')
class NeverSaysToWait(NoopAnimal):
    """Reports a conflict with a reboot as one that lasts."""

    def _reboot(self, amphora_id, hard):
        try:
            super()._reboot(amphora_id, hard)
        except InstanceStateConflict as exc:
            raise InstanceStateConflict(str(exc), amphora_id=amphora_id, retryable=False) from exc
