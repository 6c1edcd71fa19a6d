"""Errors for each response status of a build, a delete and other requests."""

import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.errors import fault_code
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
    UserDataTooLarge,
)
from kiln.openstack.replies import Reply
from tests.unit.compute_drivers.nova.asking import (
    BUILD,
    DELETE,
    FAILURE,
    NEUTRAL,
    NOT_APPLIED,
    NOW,
    STATUS,
    SUCCESS,
    Table,
    about,
)
from tests.unit.compute_drivers.nova.corpus import SERVERS


class Refusals(Table):
    """Rows 400 to 409: the service has read the request, and refuses it."""

    def test_400_is_an_invalid_build(self):
        answers = [
            f'nova/build_{what}'
            for what in (
                'image_unknown', 'flavor_unknown', 'network_unknown', 'network_malformed',
                'port_unknown', 'zone_unknown', 'security_group_unknown', 'key_unknown',
                'group_unknown', 'user_data_too_long', 'name_too_long', 'tag_malformed',
                'networks_ambiguous', 'personality_too_new',
            )
        ] + ['neutron/invalid', 'glance/filter_bad']  # fmt: skip
        self.says(answers, BUILD, InvalidBuildRequest, NOT_APPLIED, NEUTRAL)

    def test_400_fails_a_delete(self):
        self.says('nova/action_unknown', DELETE, DeleteFailed, NOT_APPLIED, NEUTRAL)

    def test_400_is_an_invalid_request(self):
        self.says(
            ['nova/marker_unknown', 'nova/microversion_malformed', 'nova/filter_name_regex'],
            STATUS, InvalidRequest, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip
        self.says(
            'nova/rebuild_image_unknown', about('rebuild'), InvalidRequest, NOT_APPLIED, NEUTRAL
        )

    def test_400_for_lack_of_a_host_is_not_an_invalid_build(self):
        self.says(
            'unseen/no_valid_host',
            BUILD,
            InsufficientCapacity,
            NOT_APPLIED,
            NEUTRAL,
            retryable=True,
        )

    def test_400_for_an_address_in_use_is_a_conflict_of_the_build(self):
        self.says('unseen/build_address_in_use', BUILD, BuildConflict, NOT_APPLIED, NEUTRAL)

    def test_401_is_about_the_credentials_for_every_request(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['nova/token_bad', 'neutron/token_bad', 'glance/token_bad'],
                asked, AuthenticationFailed, NOT_APPLIED, FAILURE,
            )  # fmt: skip

    def test_403_quota_exceeded_is_the_quota_of_the_project(self):
        self.says(
            ['nova/build_quota_instances', 'nova/build_quota_cores', 'nova/build_quota_ports',
             'unseen/group_full'],
            BUILD, QuotaExceeded, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_403_otherwise_is_a_missing_permission_for_every_request(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['nova/build_zone_forced', 'nova/policy', 'nova/attach_address_in_use',
                 'neutron/policy', 'neutron/address_in_use', 'glance/forbidden'],
                asked, PermissionDenied, NOT_APPLIED, NEUTRAL,
            )  # fmt: skip

    def test_404_of_the_service_is_an_invalid_build(self):
        self.says(
            ['nova/flavor_unknown', 'nova/keypair_unknown', 'neutron/port_network_unknown',
             'neutron/group_unknown', 'glance/image_unknown'],
            BUILD, InvalidBuildRequest, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_404_of_nova_means_that_the_instance_is_gone(self):
        for asked in (DELETE, STATUS, about('suspend')):
            self.says(
                ['nova/server_unknown', 'nova/delete_server_unknown', 'nova/action_server_unknown',
                 'unseen/instance_without_id'],
                asked, InstanceNotFoundError, NOT_APPLIED, SUCCESS,
            )  # fmt: skip

    def test_404_of_another_object_is_not_about_the_instance(self):
        port = about('attach port p to', resource_id='p')
        self.says('nova/attach_port_unknown', port, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        console = about('read the console log of')
        self.says('unseen/no_console', console, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        # Only Nova can report about the id of the instance.
        self.says('neutron/port_unknown', port, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        image = Asked(verb='use image', subject='i')
        self.says('glance/image_unknown', image, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        group = Asked(verb='delete server group', subject='g')
        self.says('nova/group_unknown', group, ResourceNotFoundError, NOT_APPLIED, SUCCESS)

    def test_404_of_a_proxy_or_a_wrong_endpoint_never_means_gone(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['proxies/nginx_404', 'proxies/apache_404', 'proxies/gateway_404_json',
                 'nova/path_unknown', 'neutron/path_unknown', 'glance/path_unknown',
                 'keystone/path_wrong'],
                asked, ServiceUnavailable, NOT_APPLIED, FAILURE, retryable=True,
            )  # fmt: skip

    def test_409_is_a_conflict_of_the_build(self):
        self.says('nova/build_port_in_use', BUILD, BuildConflict, NOT_APPLIED, NEUTRAL)

    def test_409_with_a_quota_is_the_quota_of_the_project(self):
        self.says('neutron/quota_ports', BUILD, QuotaExceeded, NOT_APPLIED, NEUTRAL)
        attach = about('attach network n to')
        self.says('neutron/quota_ports', attach, QuotaExceeded, NOT_APPLIED, NEUTRAL)

    def test_409_fails_a_delete_and_is_retryable_while_a_task_runs(self):
        self.says('nova/delete_locked', DELETE, DeleteFailed, NOT_APPLIED, NEUTRAL)
        self.says(
            'nova/suspend_while_deleting', DELETE, DeleteFailed, NOT_APPLIED, NEUTRAL,
            retryable=True,
        )  # fmt: skip

    def test_409_means_that_the_instance_was_not_suspended(self):
        self.says(
            ['nova/resume_active', 'nova/resume_while_building'],
            about('resume'), NotSuspendedError, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_409_for_a_lock_does_not_mean_that_the_instance_was_not_suspended(self):
        resume = about('resume')
        self.says('nova/suspend_locked', resume, InstanceStateConflict, NOT_APPLIED, NEUTRAL)

    def test_409_is_a_conflict_with_the_state_of_the_instance(self):
        self.says(
            ['nova/suspend_suspended', 'nova/reboot_suspended', 'nova/suspend_locked',
             'nova/attach_port_in_use_self'],
            about('suspend'), InstanceStateConflict, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_409_while_it_is_built_is_retryable(self):
        self.says(
            'nova/reboot_while_building', about('reboot'), InstanceStateConflict, NOT_APPLIED,
            NEUTRAL, retryable=True,
        )  # fmt: skip

    def test_409_while_a_task_runs_is_retryable(self):
        for verb in ('suspend', 'resume', 'reboot'):
            self.says(
                'nova/suspend_while_deleting', about(verb), InstanceStateConflict, NOT_APPLIED,
                NEUTRAL, retryable=True,
            )  # fmt: skip


class Limits(Table):
    """Rows 406, 413, 429, 501: too much, too often, or not supported."""

    def test_413_with_retry_after_is_a_rate_limit(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                'unseen/over_limit_413', asked, RateLimited, NOT_APPLIED, NEUTRAL,
                retryable=True, after=42.0,
            )  # fmt: skip
            self.says(
                'unseen/over_limit_413_no_header', asked, RateLimited, NOT_APPLIED, NEUTRAL,
                retryable=True,
            )  # fmt: skip

    def test_413_without_retry_after_is_a_body_too_large(self):
        self.says(
            ['nova/build_body_too_large', 'proxies/nginx_413', 'proxies/apache_413'],
            BUILD, UserDataTooLarge, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip
        self.says('proxies/nginx_413', STATUS, InvalidRequest, NOT_APPLIED, NEUTRAL)

    def test_429_is_a_rate_limit_with_retry_after(self):
        for asked in (BUILD, DELETE, STATUS):
            for name, after in (
                ('proxies/haproxy_429', None),
                ('proxies/nginx_429_retry_after', 7.0),
                # The same as a date, sixty seconds from now.
                ('unseen/over_limit_429', 60.0),
            ):
                self.says(
                    name, asked, RateLimited, NOT_APPLIED, NEUTRAL, retryable=True, after=after
                )

    def test_406_is_an_unsupported_operation_of_this_nova(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                'nova/microversion_unknown', asked, UnsupportedOperation, NOT_APPLIED, NEUTRAL
            )

    def test_501_is_an_unsupported_operation_of_this_backend(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says('unseen/not_implemented', asked, UnsupportedOperation, NOT_APPLIED, NEUTRAL)

    def test_an_unlisted_4xx_status_was_not_applied(self):
        self.says('nova/path_gone', STATUS, AmphoraComputeError, NOT_APPLIED, NEUTRAL)

    def test_an_incomplete_request_can_be_repeated(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                'proxies/haproxy_408', asked, ServiceUnavailable, NOT_APPLIED, FAILURE,
                retryable=True,
            )  # fmt: skip

    def test_a_redirect_is_a_wrong_endpoint(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['nova/version_unknown', 'glance/root', 'proxies/nginx_301'],
                asked, ServiceUnavailable, NOT_APPLIED, FAILURE, retryable=True,
            )  # fmt: skip


class RetryAfter(unittest.TestCase):
    def after(self, text):
        return Reply(service='compute', status=429, headers={'retry-after': text}).retry_after(NOW)

    def test_retry_after_is_a_number_of_seconds_or_a_date(self):
        self.assertEqual(120.0, self.after('120'))
        self.assertEqual(3.0, self.after(' 3 '))
        self.assertEqual(40.0, self.after('Tue, 14 Nov 2023 22:14:00 GMT'))

    def test_a_date_in_the_past_means_now(self):
        self.assertEqual(0.0, self.after('Tue, 14 Nov 2023 22:00:00 GMT'))

    def test_other_values_of_retry_after_are_ignored(self):
        for text in ('', 'soon', '-1', '²', '12 s', 'Tue, 99 Nov 2023',
                     f'Tue, 14 Nov 2023 22:14:00 +{"9" * 20}'):  # fmt: skip
            with self.subTest(text):
                self.assertIsNone(self.after(text))


class Faults(unittest.TestCase):
    """Rows of accepted builds that end in ERROR: the error code of the fault."""

    def test_no_valid_host_and_no_retries_left_are_a_lack_of_capacity(self):
        for became in ('no_valid_host', 'spawn_failed', 'port_not_bound'):
            with self.subTest(became):
                fault = SERVERS[became]['fault']['message']
                self.assertEqual(InsufficientCapacity.code, fault_code(fault))

    def test_affinity_and_claims_are_a_lack_of_capacity(self):
        for fault in (
            'Build of instance 7 aborted: Anti-affinity instance group policy was violated.',
            'Affinity instance group policy was violated',
            'Insufficient compute resources: Free memory 512.00 MB < requested 2048 MB.',
            'Failed to claim PCI devices for instance',
        ):
            with self.subTest(fault):
                self.assertEqual(InsufficientCapacity.code, fault_code(fault))

    def test_a_quota_fault_is_a_quota_error(self):
        for fault in (
            'Build of instance 7 aborted: Quota exceeded for instances: Requested 1',
            'Build of instance 7 aborted: Maximum number of ports exceeded',
            'VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota',
        ):
            with self.subTest(fault):
                self.assertEqual(QuotaExceeded.code, fault_code(fault))

    def test_any_other_fault_is_a_plain_build_error(self):
        self.assertIsNone(fault_code(SERVERS['aborted']['fault']['message']))

    def test_no_fault_has_no_code(self):
        self.assertIsNone(fault_code(None))


if __name__ == '__main__':
    unittest.main()
