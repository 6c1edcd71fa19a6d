"""Error messages: the request and the service's message in one line."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api import errors
from kiln.exceptions import ServiceUnavailable
from kiln.openstack.replies import Reply
from tests.unit.compute_drivers.nova.asking import (
    BUILD,
    DELETE,
    ID,
    NOT_APPLIED,
    NOW,
    STATUS,
    UNKNOWN,
    about,
)
from tests.unit.compute_drivers.nova.corpus import ANSWERS, reply

#: A response, the request, and the whole message.
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
    def test_an_error_has_the_object_and_the_services_message(self):
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

    def test_an_error_has_the_request_id_of_the_service(self):
        for header in ('x-openstack-request-id', 'x-compute-request-id'):
            answer = Reply(service='compute', status=403, headers={header: 'req-7'})
            self.assertEqual('req-7', errors.refused(BUILD, answer, now=NOW).request_id)

    def test_sent_content_is_not_repeated(self):
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

    def test_without_a_message_the_next_best_field_is_used(self):
        for fault, said in (
            ({'message': ' ', 'detail': 'It is full'}, 'It is full'),
            ({'message': '', 'detail': None, 'title': 'Conflict'}, 'Conflict'),
        ):
            answer = Reply(service='compute', status=409, headers={}, body={'conflict': fault})
            text = str(errors.refused(BUILD, answer, now=NOW))
            self.assertEqual(f'Cannot build web-1: Nova answered 409: {said}.', text)

    def test_an_unknown_service_is_named_by_its_type(self):
        answer = Reply(service='placement', status=503, headers={})
        self.assertIn('in front of placement', str(errors.refused(BUILD, answer, now=NOW)))

    def test_a_missing_answer_is_reported_with_its_cause(self):
        for sent, slow, text in (
            (False, False, 'Nova cannot be reached: the line is dead.'),
            (True, False, 'Nova gave no answer: the line is dead.'),
            (True, True, 'Nova gave no answer in time: the line is dead.'),
        ):
            error = DELETE.unanswered('Nova', 'the line is dead', sent=sent, slow=slow)
            self.assertEqual(f'Cannot delete {ID}: {text}', str(error))


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
    def test_any_response_becomes_one_error_of_one_line(self, status, body, after, asked):
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
