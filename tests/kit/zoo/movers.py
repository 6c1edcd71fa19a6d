"""Animals with defects in suspend, resume, reboot, rebuild and validation."""

import contextlib
import dataclasses
from types import MappingProxyType

from kiln.exceptions import (
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidRequest,
    NotSuspendedError,
)
from kiln.models import State
from tests.kit.zoo.species import LATENCIES, NoopAnimal, caught_by


@caught_by('test_resuming_what_runs_is_refused_as_not_suspended')
class ResumesWhatRuns(NoopAnimal):
    """Accepts a resume of a running instance."""

    def _resume(self, amphora_id):
        try:
            super()._resume(amphora_id)
        except NotSuspendedError:
            return


@caught_by('test_suspending_again_is_a_success')
class SuspendsOnce(NoopAnimal):
    """Refuses to suspend a suspended instance."""

    def _suspend(self, amphora_id):
        if super()._status(amphora_id).state == 'suspended':
            raise InstanceStateConflict(f'Cannot suspend {amphora_id}: it is suspended.')
        super()._suspend(amphora_id)


@caught_by(
    'test_an_instance_survives_a_soft_reboot',
    'test_an_instance_survives_a_hard_reboot',
    'test_rebooting_an_instance_leaves_that_of_another_owner',
    'test_a_rebooting_instance_is_known_to_have_run',
    'test_a_console_log_that_is_read_again_has_what_came_since',
    'test_a_reboot_is_hard_only_if_that_was_requested',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
)
class RebootsByBuilding(NoopAnimal):
    """Has another instance, with another id, after a reboot."""

    def _reboot(self, amphora_id, hard):
        super()._reboot(amphora_id, hard)
        self.cloud.vanish(amphora_id)


@caught_by('test_an_instance_survives_a_hard_reboot')
class NeedsToStartAgain(NoopAnimal):
    """Takes a hard reboot for switching off."""

    def _reboot(self, amphora_id, hard):
        super()._reboot(amphora_id, hard)
        if hard:
            self.cloud.stop(amphora_id)


@caught_by(
    'test_a_rebuilt_instance_becomes_active_again',
    'test_a_rebuilt_instance_keeps_name_key_and_owner',
    'test_rebuilding_an_instance_leaves_that_of_another_owner',
    'test_a_rebuild_refuses_an_unknown_image_as_a_build_would_refuse_it',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
    'test_an_instance_has_the_image_that_it_was_rebuilt_from_last',
)
class RebuildsUnderAnotherId(NoopAnimal):
    """Has another instance, with another id, after a rebuild."""

    def _rebuild(self, amphora_id, image_id):
        super()._rebuild(amphora_id, image_id)
        self.cloud.vanish(amphora_id)


@caught_by('test_a_rebuilt_instance_keeps_name_key_and_owner')
class RebuildsWithoutKey(NoopAnimal):
    """Loses the build key in a rebuild."""

    def __init__(self):
        super().__init__()
        self._rebuilt = set()

    def _rebuild(self, amphora_id, image_id):
        super()._rebuild(amphora_id, image_id)
        self._rebuilt.add(amphora_id)

    def _get(self, amphora_id):
        amphora = super()._get(amphora_id)
        key = None if amphora_id in self._rebuilt else amphora.build_key
        return dataclasses.replace(amphora, build_key=key)


@caught_by(
    'test_a_console_log_has_no_more_lines_than_were_asked_for',
    'test_a_console_log_of_some_lines_has_the_last_ones',
)
class SaysAllItKnows(NoopAnimal):
    """Returns the whole console log, ignoring the requested length."""

    def _console_log(self, amphora_id, lines):
        return super()._console_log(amphora_id, None)


@caught_by('test_an_unknown_flavor_is_refused_as_a_build_would_refuse_it')
class FindsEveryFlavorValid(NoopAnimal):
    """Validates a value that its builds refuse."""

    def _validate_flavor(self, flavor):
        return None


@caught_by('test_the_zone_of_an_instance_is_valid')
class FindsNoZoneValid(NoopAnimal):
    """Rejects a value that its builds accept."""

    def _validate_zone(self, availability_zone):
        raise InvalidRequest(
            f'Zone {availability_zone} does not exist.', resource_id=availability_zone
        )


@caught_by('test_a_network_that_a_build_has_is_valid')
class FindsNoNetworkValid(NoopAnimal):
    """Rejects every network, though its builds accept any."""

    def _validate_network(self, network_id):
        raise InvalidRequest(f'Network {network_id} does not exist.', resource_id=network_id)


@caught_by('test_an_unknown_network_is_refused_as_a_build_would_refuse_it')
class FindsEveryNetworkValid(NoopAnimal):
    """Validates networks that its builds refuse."""

    cloud_options = MappingProxyType({**LATENCIES, 'networks': ('net-1',)})

    def _validate_network(self, network_id):
        return None


@caught_by('test_a_security_group_that_a_build_has_is_valid')
class FindsNoSecurityGroupValid(NoopAnimal):
    """Rejects every security group, though its builds accept any."""

    def _validate_security_group(self, security_group):
        raise InvalidRequest(
            f'Security group {security_group} does not exist.', resource_id=security_group
        )


@caught_by('test_an_unknown_security_group_is_refused_as_a_build_would_refuse_it')
class FindsEverySecurityGroupValid(NoopAnimal):
    """Validates security groups that its builds refuse."""

    cloud_options = MappingProxyType({**LATENCIES, 'sec_groups': ('default',)})

    def _validate_security_group(self, security_group):
        return None


@caught_by(
    'test_a_port_that_a_security_group_does_not_open_is_refused_by_its_name',
    'test_a_port_that_is_open_to_members_is_refused_for_machines_of_other_groups',
)
class FindsEveryPortOpen(NoopAnimal):
    """Accepts security groups that do not open the ports."""

    def _check_ports(self, sec_groups, ports, peers):
        return None


@caught_by(
    'test_ports_that_security_groups_open_to_their_members_are_open',
    'test_a_port_that_a_security_group_does_not_open_is_refused_by_its_name',
)
class FindsNoPortOpen(NoopAnimal):
    """Refuses ports that the security groups open."""

    def _check_ports(self, sec_groups, ports, peers):
        if ports:
            raise InvalidRequest(
                f'Cannot use {sec_groups}: no rule opens {ports}.', resource_id=sec_groups[0]
            )


@caught_by('test_a_port_that_is_open_to_members_is_refused_for_machines_of_other_groups')
class OpensPortsToStrangers(NoopAnimal):
    """Takes machines of other security groups for members."""

    def _check_ports(self, sec_groups, ports, peers):
        super()._check_ports(sec_groups, ports, None)


@caught_by('test_a_port_that_a_security_group_does_not_open_is_refused_by_its_name')
class NamesNoClosedPort(NoopAnimal):
    """Refuses security groups without naming the ports that are closed."""

    def _check_ports(self, sec_groups, ports, peers):
        try:
            super()._check_ports(sec_groups, ports, peers)
        except InvalidRequest as exc:
            raise InvalidRequest('A port is closed.', resource_id=exc.resource_id) from exc


@caught_by('test_ports_that_security_groups_open_to_their_members_are_open')
class ChecksGroupsOneByOne(NoopAnimal):
    """Demands of each security group that it opens all ports alone."""

    def _check_ports(self, sec_groups, ports, peers):
        for group in sec_groups:
            super()._check_ports((group,), ports, peers or sec_groups)


@caught_by('test_ports_of_an_unknown_security_group_are_checked_only_if_builds_take_it')
class ChecksPortsOfAnything(NoopAnimal):
    """Finds ports open in a security group that its builds refuse."""

    cloud_options = MappingProxyType({**LATENCIES, 'sec_groups': ('default',)})

    def _check_ports(self, sec_groups, ports, peers):
        return None


@caught_by(
    'test_resuming_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class ResumesAnything(NoopAnimal):
    """Accepts a resume of an unknown instance."""

    def _resume(self, amphora_id):
        with contextlib.suppress(InstanceNotFoundError):
            super()._resume(amphora_id)


@caught_by(
    'test_rebooting_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class RebootsAnything(NoopAnimal):
    """Accepts a reboot of an unknown instance."""

    def _reboot(self, amphora_id, hard):
        with contextlib.suppress(InstanceNotFoundError):
            super()._reboot(amphora_id, hard)


@caught_by(
    'test_rebuilding_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class RebuildsAnything(NoopAnimal):
    """Accepts a rebuild of an unknown instance."""

    def _rebuild(self, amphora_id, image_id):
        with contextlib.suppress(InstanceNotFoundError):
            super()._rebuild(amphora_id, image_id)


@caught_by(
    'test_a_console_log_of_an_unknown_instance_is_not_found',
    'test_each_call_about_an_unknown_instance_raises_the_same_error',
)
class HasALogForAnything(NoopAnimal):
    """Returns an empty console log for an unknown instance."""

    def _console_log(self, amphora_id, lines):
        try:
            return super()._console_log(amphora_id, lines)
        except InstanceNotFoundError:
            return ''


@caught_by(
    'test_a_resumed_instance_is_active_again',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
)
class ResumesNothing(NoopAnimal):
    """Accepts a resume without an effect."""

    def _resume(self, amphora_id):
        if super()._status(amphora_id).state != State.SUSPENDED:
            super()._resume(amphora_id)


@caught_by('test_an_unknown_image_is_refused_as_a_build_would_refuse_it')
class FindsNoImageValid(NoopAnimal):
    """Rejects a value that its builds accept."""

    def _validate_image(self, image_id):
        raise InvalidRequest(f'Image {image_id} does not exist.', resource_id=image_id)


@caught_by(
    'test_a_repeated_build_reports_at_once_that_its_instance_is_suspended',
    'test_a_suspended_instance_says_so',
    'test_suspending_again_is_a_success',
    'test_a_resumed_instance_is_active_again',
    'test_a_resume_returns_before_its_effect',
    'test_an_action_in_another_driver_is_seen_by_the_first',
    'test_suspending_an_instance_leaves_that_of_another_owner',
    'test_suspending_what_is_being_built_has_its_effect_or_is_a_conflict',
    'test_rebooting_what_is_suspended_has_its_effect_or_is_a_conflict',
    'test_rebuilding_what_is_suspended_has_its_effect_or_is_a_conflict',
    'test_a_conflict_with_what_is_suspended_is_not_retryable',
    'test_in_any_state_an_attached_port_can_be_attached_and_no_other_detached',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
)
class SuspendsNothing(NoopAnimal):
    """Accepts a suspend without an effect."""

    def _suspend(self, amphora_id):
        super()._status(amphora_id)


@caught_by('test_the_flavor_of_an_instance_is_valid')
class FindsNoFlavorValid(NoopAnimal):
    """Rejects the flavor that its instances have."""

    def _build(self, request):
        return super()._build(dataclasses.replace(request, flavor=request.flavor or 'small'))

    def _validate_flavor(self, flavor):
        if flavor == 'small':
            raise InvalidRequest(f'Flavor {flavor} does not exist.')
        super()._validate_flavor(flavor)


class Imaging(NoopAnimal):
    """Builds each instance from an image."""

    def _build(self, request):
        return super()._build(dataclasses.replace(request, image_id=request.image_id or 'image-1'))


@caught_by('test_the_image_of_an_instance_is_valid')
class RejectsItsOwnImage(Imaging):
    """Rejects the image that its instances have."""

    def _validate_image(self, image_id):
        if image_id == 'image-1':
            raise InvalidRequest(f'Image {image_id} does not exist.')


@caught_by(
    'test_the_image_of_an_instance_is_described_by_text',
    'test_an_image_is_described_by_its_own_name_and_properties',
)
class DescribesAnotherImage(Imaging):
    """Describes another image than the requested one."""

    def _describe_image(self, image_id):
        return dataclasses.replace(super()._describe_image(image_id), id='image-2')


@caught_by('test_the_image_of_an_instance_is_described_by_text')
class DescribesByNumbers(Imaging):
    """Describes an image by values that are not text."""

    def _describe_image(self, image_id):
        return dataclasses.replace(super()._describe_image(image_id), properties={'size': 7})


@caught_by(
    'test_an_unknown_image_is_described_only_if_builds_take_it',
    'test_an_image_is_described_by_its_own_name_and_properties',
)
class DescribesNoImage(NoopAnimal):
    """Cannot describe an image that its builds accept."""

    def _describe_image(self, image_id):
        raise InvalidRequest(f'Image {image_id} does not exist.', resource_id=image_id)


@caught_by(
    'test_the_zones_are_named_once_and_the_zone_of_an_instance_is_one_of_them',
    'test_an_instance_is_in_the_zone_that_was_requested',
    'test_builds_accept_each_zone_that_is_listed_or_any_where_none_is_listed',
)
class ListsZonesTwice(NoopAnimal):
    """Lists a zone for each of its hosts."""

    def _list_zones(self):
        return ['zone-1', 'zone-1']


@caught_by('test_a_console_log_is_text')
class ReturnsBytes(NoopAnimal):
    """Returns a console log as it was read."""

    def console_log(self, amphora_id, *, lines=None):
        return super().console_log(amphora_id, lines=lines).encode()


@caught_by('test_a_rebuild_refuses_an_unknown_image_as_a_build_would_refuse_it')
class RebuildsFromAnyImage(NoopAnimal):
    """Accepts an image for a rebuild that its builds refuse."""

    cloud_options = MappingProxyType({**LATENCIES, 'images': ['image-1']})

    def _rebuild(self, amphora_id, image_id):
        super()._rebuild(amphora_id, None)


class CrashesOnConflicts(NoopAnimal):
    """Raises an error of its own for an action that the state does not allow."""

    def refusing(self, act, *arguments):
        try:
            act(*arguments)
        except InstanceStateConflict as exc:
            raise DeleteFailed(str(exc)) from exc


@caught_by(
    'test_suspending_what_is_being_built_has_its_effect_or_is_a_conflict',
    'test_a_conflict_with_what_is_being_built_is_retryable',
)
class CrashesOnSuspend(CrashesOnConflicts):
    """Raises another error for a suspend that the state does not allow."""

    def _suspend(self, amphora_id):
        self.refusing(super()._suspend, amphora_id)


@caught_by('test_suspending_what_is_being_built_has_its_effect_or_is_a_conflict')
class SwallowsConflicts(NoopAnimal):
    """Reports a suspend as accepted that the state does not allow."""

    def _suspend(self, amphora_id):
        with contextlib.suppress(InstanceStateConflict):
            super()._suspend(amphora_id)


@caught_by(
    'test_rebooting_what_is_suspended_has_its_effect_or_is_a_conflict',
    'test_a_conflict_with_what_is_being_built_is_retryable',
    'test_a_conflict_with_what_is_suspended_is_not_retryable',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
)
class CrashesOnReboot(CrashesOnConflicts):
    """Raises another error for a reboot that the state does not allow."""

    def _reboot(self, amphora_id, hard):
        self.refusing(super()._reboot, amphora_id, hard)


@caught_by(
    'test_rebuilding_what_is_suspended_has_its_effect_or_is_a_conflict',
    'test_a_conflict_with_what_is_being_built_is_retryable',
    'test_a_conflict_with_what_is_suspended_is_not_retryable',
    'test_an_action_repeated_while_it_is_under_way_ends_as_if_requested_once',
)
class CrashesOnRebuild(CrashesOnConflicts):
    """Raises another error for a rebuild that the state does not allow."""

    def _rebuild(self, amphora_id, image_id):
        self.refusing(super()._rebuild, amphora_id, image_id)
