"""What each answer of a cloud means, to a build, to a delete and to a look at a server."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.nova import errors
from kiln.compute_drivers.nova.errors import Asked, Reply, fault_code
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InsufficientCapacity,
    InvalidBuildRequest,
    InvalidRequest,
    NotSuspendedError,
    Outcome,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
    UserDataTooLarge,
    Verdict,
)
from tests.unit.compute_drivers.nova.corpus import ANSWERS, SERVERS, reply

NOT_APPLIED, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN
FAILURE, NEUTRAL, SUCCESS = Verdict.FAILURE, Verdict.NEUTRAL, Verdict.SUCCESS
#: Tuesday, 14 November 2023, 22:13:20 GMT.
NOW = 1_700_000_000.0

ID = 'e8968ca2-0525-4a6d-b2b5-808c34bbd67f'
BUILD = Asked(verb='build', subject='web-1', build_key='k-1')


def about(verb, **more):
    return Asked(verb=verb, subject=ID, amphora_id=ID, **more)


DELETE, STATUS = about('delete'), about('read the status of')


class Table(unittest.TestCase):
    """Answers that mean the same, by what was asked for."""

    def says(self, answers, asked, kind, outcome, circuit, *, retryable=False, after=None):
        for name in [answers] if isinstance(answers, str) else answers:
            with self.subTest(name, verb=asked.verb):
                answer = reply(name)
                error = errors.refused(asked, answer, now=NOW)
                self.assertIs(kind, type(error), str(error))
                self.assertEqual(
                    (outcome, circuit, retryable, after),
                    (error.outcome, error.circuit, error.retryable, error.retry_after),
                    str(error),
                )
                self.assertEqual(answer.status, error.http_status)
                self.assertEqual(asked.amphora_id, error.amphora_id)
                self.assertEqual(asked.build_key, error.build_key)


class Refusals(Table):
    """Rows 400 to 409: the service has read the request, and will not do it."""

    def test_400_is_a_wrong_build(self):
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

    def test_400_leaves_what_was_to_be_deleted(self):
        self.says('nova/action_unknown', DELETE, DeleteFailed, NOT_APPLIED, NEUTRAL)

    def test_400_is_a_wrong_question(self):
        self.says(
            ['nova/marker_unknown', 'nova/microversion_malformed', 'nova/filter_name_regex'],
            STATUS, InvalidRequest, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip
        self.says(
            'nova/rebuild_image_unknown', about('rebuild'), InvalidRequest, NOT_APPLIED, NEUTRAL
        )

    def test_400_for_want_of_a_host_is_no_wrong_build(self):
        self.says('unseen/no_valid_host', BUILD, InsufficientCapacity, NOT_APPLIED, NEUTRAL)

    def test_401_is_about_the_credentials_whatever_was_asked(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['nova/token_bad', 'neutron/token_bad', 'glance/token_bad'],
                asked, AuthenticationFailed, NOT_APPLIED, FAILURE,
            )  # fmt: skip

    def test_403_quota_exceeded_is_the_projects_own_limit(self):
        self.says(
            ['nova/build_quota_instances', 'nova/build_quota_cores', 'nova/build_quota_ports',
             'unseen/group_full'],
            BUILD, QuotaExceeded, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_403_other_is_a_lack_of_permission_whatever_was_asked(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['nova/build_zone_forced', 'nova/policy', 'nova/attach_address_in_use',
                 'neutron/policy', 'neutron/address_in_use', 'glance/forbidden'],
                asked, PermissionDenied, NOT_APPLIED, NEUTRAL,
            )  # fmt: skip

    def test_404_of_the_service_is_a_wrong_build(self):
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

    def test_404_of_something_else_says_nothing_of_the_instance(self):
        port = about('attach port p to', resource_id='p')
        self.says('nova/attach_port_unknown', port, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        console = about('read the console log of')
        self.says('unseen/no_console', console, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        # The instance's own id is known to Nova alone.
        self.says('neutron/port_unknown', port, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        image = Asked(verb='use image', subject='i')
        self.says('glance/image_unknown', image, ResourceNotFoundError, NOT_APPLIED, SUCCESS)
        group = Asked(verb='delete server group', subject='g')
        self.says('nova/group_unknown', group, ResourceNotFoundError, NOT_APPLIED, SUCCESS)

    def test_404_of_a_proxy_or_a_wrong_endpoint_is_never_taken_for_gone(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['proxies/nginx_404', 'proxies/apache_404', 'proxies/gateway_404_json',
                 'nova/path_unknown', 'neutron/path_unknown', 'glance/path_unknown',
                 'keystone/path_wrong'],
                asked, ServiceUnavailable, NOT_APPLIED, FAILURE, retryable=True,
            )  # fmt: skip

    def test_409_is_a_conflict_of_the_build(self):
        self.says('nova/build_port_in_use', BUILD, BuildConflict, NOT_APPLIED, NEUTRAL)

    def test_409_with_a_quota_is_the_projects_own_limit(self):
        self.says('neutron/quota_ports', BUILD, QuotaExceeded, NOT_APPLIED, NEUTRAL)
        attach = about('attach network n to')
        self.says('neutron/quota_ports', attach, QuotaExceeded, NOT_APPLIED, NEUTRAL)

    def test_409_fails_a_delete_and_may_be_tried_again_while_a_task_runs(self):
        self.says('nova/delete_locked', DELETE, DeleteFailed, NOT_APPLIED, NEUTRAL)
        self.says(
            'nova/suspend_while_deleting', DELETE, DeleteFailed, NOT_APPLIED, NEUTRAL,
            retryable=True,
        )  # fmt: skip

    def test_409_says_that_nothing_was_suspended(self):
        self.says(
            ['nova/resume_active', 'nova/resume_while_building'],
            about('resume'), NotSuspendedError, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_409_for_a_lock_does_not_say_that_nothing_was_suspended(self):
        resume = about('resume')
        self.says('nova/suspend_locked', resume, InstanceStateConflict, NOT_APPLIED, NEUTRAL)

    def test_409_is_a_conflict_with_the_state_of_the_instance(self):
        self.says(
            ['nova/suspend_suspended', 'nova/reboot_suspended', 'nova/reboot_while_building',
             'nova/suspend_locked', 'nova/attach_port_in_use_self'],
            about('suspend'), InstanceStateConflict, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip

    def test_409_while_a_task_runs_ends_by_itself(self):
        for verb in ('suspend', 'resume', 'reboot'):
            self.says(
                'nova/suspend_while_deleting', about(verb), InstanceStateConflict, NOT_APPLIED,
                NEUTRAL, retryable=True,
            )  # fmt: skip


class Limits(Table):
    """Rows 406, 413, 429, 501: too much, too often, or not at all."""

    def test_413_with_retry_after_is_a_limit_of_the_rate(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                'unseen/over_limit_413', asked, RateLimited, NOT_APPLIED, NEUTRAL,
                retryable=True, after=42.0,
            )  # fmt: skip
            self.says(
                'unseen/over_limit_413_no_header', asked, RateLimited, NOT_APPLIED, NEUTRAL,
                retryable=True,
            )  # fmt: skip

    def test_413_without_it_is_a_body_too_large(self):
        self.says(
            ['nova/build_body_too_large', 'proxies/nginx_413', 'proxies/apache_413'],
            BUILD, UserDataTooLarge, NOT_APPLIED, NEUTRAL,
        )  # fmt: skip
        self.says('proxies/nginx_413', STATUS, InvalidRequest, NOT_APPLIED, NEUTRAL)

    def test_429_is_a_limit_of_the_rate_and_tells_when_to_come_back(self):
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

    def test_406_is_an_ability_that_this_nova_lacks(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                'nova/microversion_unknown', asked, UnsupportedOperation, NOT_APPLIED, NEUTRAL
            )

    def test_501_is_an_ability_that_this_backend_lacks(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says('unseen/not_implemented', asked, UnsupportedOperation, NOT_APPLIED, NEUTRAL)

    def test_a_status_that_no_row_names_has_at_least_not_been_applied(self):
        self.says('nova/path_gone', STATUS, AmphoraComputeError, NOT_APPLIED, NEUTRAL)

    def test_a_request_that_never_arrived_whole_may_be_sent_again(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                'proxies/haproxy_408', asked, ServiceUnavailable, NOT_APPLIED, FAILURE,
                retryable=True,
            )  # fmt: skip

    def test_another_address_instead_of_an_answer_is_a_wrong_endpoint(self):
        for asked in (BUILD, DELETE, STATUS):
            self.says(
                ['nova/version_unknown', 'glance/root', 'proxies/nginx_301'],
                asked, ServiceUnavailable, NOT_APPLIED, FAILURE, retryable=True,
            )  # fmt: skip


class Breakdowns(Table):
    """Rows 500 to 504 and no answer: it may have been done."""

    def test_500_leaves_the_outcome_of_a_build_unknown(self):
        self.says(
            ['nova/build_volume_no_cinder', 'unseen/unexpected', 'proxies/apache_500'],
            BUILD, BuildOutcomeUnknown, UNKNOWN, FAILURE,
        )  # fmt: skip

    def test_500_of_anything_else_may_be_tried_again(self):
        for asked in (DELETE, STATUS, about('attach network n to')):
            self.says(
                ['nova/attach_port_failed', 'nova/attach_network_unknown', 'unseen/unexpected'],
                asked, ServiceUnavailable, UNKNOWN, FAILURE, retryable=True,
            )  # fmt: skip

    def test_502_503_and_504_leave_the_outcome_of_a_build_unknown(self):
        self.says(
            [name for name in ANSWERS if name.endswith(('_502', '_503', '_504', '_503_json'))],
            BUILD, BuildOutcomeUnknown, UNKNOWN, FAILURE,
        )  # fmt: skip

    def test_502_503_and_504_of_anything_else_may_be_tried_again(self):
        for asked in (DELETE, STATUS):
            self.says(
                [name for name in ANSWERS if name.endswith(('_502', '_503', '_504', '_503_json'))],
                asked, ServiceUnavailable, UNKNOWN, FAILURE, retryable=True,
            )  # fmt: skip

    def test_503_may_tell_when_to_come_back(self):
        name = 'proxies/nginx_503_retry_after'
        self.says(name, BUILD, BuildOutcomeUnknown, UNKNOWN, FAILURE, after=30.0)
        self.says(name, STATUS, ServiceUnavailable, UNKNOWN, FAILURE, retryable=True, after=30.0)

    def unanswered(self, asked, *, sent, slow=False):
        error = errors.unanswered(asked, 'compute', 'the line is dead', sent=sent, slow=slow)
        return type(error), error.outcome, error.circuit, error.retryable

    def test_no_connection_means_that_nothing_was_done(self):
        for asked in (BUILD, DELETE, STATUS):
            for slow in (True, False):
                self.assertEqual(
                    (ServiceUnavailable, NOT_APPLIED, FAILURE, True),
                    self.unanswered(asked, sent=False, slow=slow),
                )

    def test_no_answer_leaves_the_outcome_of_a_build_unknown(self):
        for slow in (True, False):
            self.assertEqual(
                (BuildOutcomeUnknown, UNKNOWN, FAILURE, False),
                self.unanswered(BUILD, sent=True, slow=slow),
            )

    def test_no_answer_to_anything_else_may_be_asked_for_again(self):
        for asked in (DELETE, STATUS):
            self.assertEqual(
                (ServiceTimeout, UNKNOWN, FAILURE, True),
                self.unanswered(asked, sent=True, slow=True),
            )
            self.assertEqual(
                (ServiceUnavailable, UNKNOWN, FAILURE, True), self.unanswered(asked, sent=True)
            )

    def test_a_page_that_says_success_is_no_answer(self):
        page = Reply(service='compute', status=200, headers={'x-openstack-request-id': 'req-7'})
        for asked, kind in ((BUILD, BuildOutcomeUnknown), (STATUS, ServiceUnavailable)):
            error = errors.unreadable(asked, page)
            self.assertIs(kind, type(error))
            self.assertIs(UNKNOWN, error.outcome)
            self.assertEqual((200, 'req-7'), (error.http_status, error.request_id))
            self.assertIn('something in front of Nova answered 200 with no JSON', str(error))


#: What an operator reads: an answer, what it answered, and the whole text.
TEXTS = (
    ('nova/build_quota_instances', BUILD, 'Cannot build web-1: Nova answered 403: Quota exceeded '
     'for instances: Requested 3, but already used 0 of 2 instances.'),
    ('nova/build_flavor_unknown', BUILD,
     'Cannot build web-1: Nova answered 400: Flavor nope could not be found.'),
    ('nova/attach_port_failed', about('attach port p1 to'), f'Cannot attach port p1 to {ID}: '
     'Nova answered 500: Unexpected API Error. Please contact the administrator '
     "<class 'nova.exception_Remote.PortBindingFailed_Remote'>."),
    ('nova/microversion_unknown', STATUS, f'Cannot read the status of {ID}: Nova answered 406: '
     'Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.104.'),
    ('nova/build_body_too_large', BUILD, 'Cannot build web-1: Nova answered 413: Request is too '
     'large. Larger than max_request_body_size (%s).'),
    ('nova/build_user_data_too_long', BUILD, 'Cannot build web-1: Nova answered 400: '
     'Invalid input for field/attribute user_data: is too long.'),
    ('nova/build_networks_ambiguous', BUILD, 'Cannot build web-1: Nova answered 400: Invalid '
     "input for field/attribute server: 'networks' is a required property."),
    ('nova/build_personality_too_new', BUILD, 'Cannot build web-1: Nova answered 400: Invalid '
     "input for field/attribute server: 'personality' was unexpected."),
    ('nova/build_tag_malformed', BUILD, 'Cannot build web-1: Nova answered 400: Invalid input '
     "for field/attribute 0. Value: a/b. 'a/b' does not match '^[^,/]*$'."),
    ('nova/path_unknown', DELETE, f'Cannot delete {ID}: something in front of Nova, or a wrong '
     'endpoint, answered 404.'),
    ('neutron/quota_ports', BUILD,
     "Cannot build web-1: Neutron answered 409: Quota exceeded for resources: ['port']."),
    ('glance/image_unknown', Asked(verb='use image', subject='i1'), 'Cannot use image i1: Glance '
     'answered 404: No image found with ID 00000000-0000-4000-8000-000000000000.'),
    ('proxies/haproxy_503', DELETE, f'Cannot delete {ID}: something in front of Nova answered '
     '503.'),
    ('unseen/errors_list', STATUS, f'Cannot read the status of {ID}: Nova answered 503: The '
     'service is in maintenance.'),
)  # fmt: skip


class Words(unittest.TestCase):
    def test_an_error_names_the_object_and_what_the_service_said(self):
        for name, asked, text in TEXTS:
            with self.subTest(name):
                self.assertEqual(text, str(errors.refused(asked, reply(name), now=NOW)))

    def test_every_error_is_one_line(self):
        for name in ANSWERS:
            for asked in (BUILD, DELETE, STATUS):
                text = str(errors.refused(asked, reply(name), now=NOW))
                with self.subTest(name, text=text):
                    self.assertNotIn('\n', text)
                    self.assertRegex(
                        text, f'^Cannot {asked.verb} {asked.subject}: .*([^.]\\.|\\*)$'
                    )
                    self.assertLess(len(text), 700)

    def test_an_error_carries_the_id_under_which_the_service_logged_the_request(self):
        for header in ('x-openstack-request-id', 'x-compute-request-id'):
            answer = Reply(service='compute', status=403, headers={header: 'req-7'})
            self.assertEqual('req-7', errors.refused(BUILD, answer, now=NOW).request_id)

    def test_what_was_sent_is_not_told(self):
        secret = 'SHVudGVyMkh1bnRlcjI'
        for field in ('user_data', 'personality', 'server', 'contents'):
            for said in (
                f'Invalid input for field/attribute {field}. Value: {secret}. '
                f"'{secret}' is too long",
                f"Invalid input for field/attribute {field}. Value: {{'a': '{secret}'}}. "
                f"{{'a': '{secret}'}} is not valid under any of the given schemas",
                f'Invalid input for field/attribute {field}. Value: {secret}\n{secret}. '
                f'{secret} fits nowhere',
            ):
                body = {'badRequest': {'code': 400, 'message': said}}
                answer = Reply(service='compute', status=400, headers={}, body=body)
                text = str(errors.refused(BUILD, answer, now=NOW))
                self.assertNotIn(secret, text)
                self.assertIn(f'for field/attribute {field}', text)

    def test_where_there_is_no_message_the_next_best_is_told(self):
        for fault, said in (
            ({'message': ' ', 'detail': 'It is full'}, 'It is full'),
            ({'message': '', 'detail': None, 'title': 'Conflict'}, 'Conflict'),
        ):
            answer = Reply(service='compute', status=409, headers={}, body={'conflict': fault})
            text = str(errors.refused(BUILD, answer, now=NOW))
            self.assertEqual(f'Cannot build web-1: Nova answered 409: {said}.', text)

    def test_a_service_without_a_name_is_called_by_its_type(self):
        answer = Reply(service='placement', status=503, headers={})
        self.assertIn('in front of placement', str(errors.refused(BUILD, answer, now=NOW)))

    def test_no_answer_is_told_with_the_reason(self):
        for sent, slow, text in (
            (False, False, 'Nova cannot be reached: the line is dead.'),
            (True, False, 'Nova gave no answer: the line is dead.'),
            (True, True, 'Nova gave no answer in time: the line is dead.'),
        ):
            error = errors.unanswered(DELETE, 'compute', 'the line is dead', sent=sent, slow=slow)
            self.assertEqual(f'Cannot delete {ID}: {text}', str(error))


class RetryAfter(unittest.TestCase):
    def after(self, text):
        return Reply(service='compute', status=429, headers={'retry-after': text}).retry_after(NOW)

    def test_it_is_a_number_of_seconds_or_a_date(self):
        self.assertEqual(120.0, self.after('120'))
        self.assertEqual(3.0, self.after(' 3 '))
        self.assertEqual(40.0, self.after('Tue, 14 Nov 2023 22:14:00 GMT'))

    def test_a_moment_that_has_passed_is_now(self):
        self.assertEqual(0.0, self.after('Tue, 14 Nov 2023 22:00:00 GMT'))

    def test_what_is_neither_is_not_taken_for_one(self):
        for text in ('', 'soon', '-1', '²', '12 s', 'Tue, 99 Nov 2023'):
            with self.subTest(text):
                self.assertIsNone(self.after(text))


class Faults(unittest.TestCase):
    """Rows of accepted builds that end in ERROR: what the fault amounts to."""

    def test_no_host_and_no_retry_left_are_a_lack_of_capacity(self):
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

    def test_a_quota_is_a_quota(self):
        for fault in (
            'Build of instance 7 aborted: Quota exceeded for instances: Requested 1',
            'Build of instance 7 aborted: Maximum number of ports exceeded',
            'VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota',
        ):
            with self.subTest(fault):
                self.assertEqual(QuotaExceeded.code, fault_code(fault))

    def test_an_abort_for_any_other_reason_is_a_plain_build_error(self):
        self.assertIsNone(fault_code(SERVERS['aborted']['fault']['message']))

    def test_no_fault_has_no_code(self):
        self.assertIsNone(fault_code(None))


_texts = st.text(max_size=30) | st.sampled_from(['Quota exceeded', 'vm_state', 'a\nb', '<br />'])
_bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(['message', 'code', 'title', 'errors', 'badRequest', 'detail'])
            | _texts,
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


class Whatever(unittest.TestCase):
    @given(
        status=st.integers(300, 599),
        body=_bodies,
        after=st.none() | _texts | st.integers().map(str),
        asked=st.sampled_from([BUILD, DELETE, STATUS, about('resume')]),
    )
    def test_whatever_is_answered_becomes_one_error_of_one_line(self, status, body, after, asked):
        headers = {} if after is None else {'retry-after': after}
        answer = Reply(service='compute', status=status, headers=headers, body=body)
        error = errors.refused(asked, answer, now=NOW)
        self.assertEqual(1, len(str(error).splitlines()))
        self.assertEqual(status, error.http_status)
        self.assertTrue(error.retry_after is None or error.retry_after >= 0)
        if status >= 500 and status != 501:
            self.assertIs(UNKNOWN, error.outcome)
        else:
            self.assertIs(NOT_APPLIED, error.outcome)
        if asked is not BUILD and status == 404 and not isinstance(body, dict):
            self.assertIs(ServiceUnavailable, type(error))


if __name__ == '__main__':
    unittest.main()
