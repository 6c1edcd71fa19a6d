"""Outcome of requests that end in a server error, or without a response."""

import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import unreadable
from kiln.compute_drivers.nova.api import errors
from kiln.exceptions import (
    BuildOutcomeUnknown,
    InvalidBuildRequest,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.openstack.replies import Reply
from tests.unit.compute_drivers.nova.asking import (
    BUILD,
    DELETE,
    FAILURE,
    NOT_APPLIED,
    NOW,
    STATUS,
    UNKNOWN,
    Table,
    about,
)
from tests.unit.compute_drivers.nova.corpus import ANSWERS, reply


class Breakdowns(Table):
    """Rows 500 to 504 and no response: the request might have taken effect."""

    def test_500_leaves_the_outcome_of_a_build_unknown(self):
        self.says(
            ['nova/build_volume_no_cinder', 'unseen/unexpected', 'proxies/apache_500'],
            BUILD, BuildOutcomeUnknown, UNKNOWN, FAILURE, retryable=True,
        )  # fmt: skip

    def test_500_of_any_other_request_is_retryable(self):
        for asked in (DELETE, STATUS, about('attach network n to')):
            self.says(
                ['nova/attach_port_failed', 'nova/attach_network_unknown', 'unseen/unexpected'],
                asked, ServiceUnavailable, UNKNOWN, FAILURE, retryable=True,
            )  # fmt: skip

    def test_502_503_and_504_leave_the_outcome_of_a_build_unknown(self):
        self.says(
            [name for name in ANSWERS if name.endswith(('_502', '_503', '_504', '_503_json'))],
            BUILD, BuildOutcomeUnknown, UNKNOWN, FAILURE, retryable=True,
        )  # fmt: skip

    def test_502_503_and_504_of_any_other_request_are_retryable(self):
        for asked in (DELETE, STATUS):
            self.says(
                [name for name in ANSWERS if name.endswith(('_502', '_503', '_504', '_503_json'))],
                asked, ServiceUnavailable, UNKNOWN, FAILURE, retryable=True,
            )  # fmt: skip

    def test_503_can_have_retry_after(self):
        name = 'proxies/nginx_503_retry_after'
        self.says(name, BUILD, BuildOutcomeUnknown, UNKNOWN, FAILURE, retryable=True, after=30.0)
        self.says(name, STATUS, ServiceUnavailable, UNKNOWN, FAILURE, retryable=True, after=30.0)

    def unanswered(self, asked, *, sent, slow=False):
        error = asked.unanswered('Nova', 'the line is dead', sent=sent, slow=slow)
        return type(error), error.outcome, error.circuit, error.retryable

    def test_no_connection_means_that_nothing_was_applied(self):
        for asked in (BUILD, DELETE, STATUS):
            for slow in (True, False):
                self.assertEqual(
                    (ServiceUnavailable, NOT_APPLIED, FAILURE, True),
                    self.unanswered(asked, sent=False, slow=slow),
                )

    def test_no_answer_leaves_the_outcome_of_a_build_unknown(self):
        for slow in (True, False):
            self.assertEqual(
                (BuildOutcomeUnknown, UNKNOWN, FAILURE, True),
                self.unanswered(BUILD, sent=True, slow=slow),
            )

    def test_no_answer_to_any_other_request_is_retryable(self):
        for asked in (DELETE, STATUS):
            self.assertEqual(
                (ServiceTimeout, UNKNOWN, FAILURE, True),
                self.unanswered(asked, sent=True, slow=True),
            )
            self.assertEqual(
                (ServiceUnavailable, UNKNOWN, FAILURE, True), self.unanswered(asked, sent=True)
            )

    def test_a_successful_response_without_json_is_an_error(self):
        page = Reply(service='compute', status=200, headers={'x-openstack-request-id': 'req-7'})
        for asked, kind in ((BUILD, BuildOutcomeUnknown), (STATUS, ServiceUnavailable)):
            error = unreadable(asked, page)
            self.assertIs(kind, type(error))
            self.assertIs(UNKNOWN, error.outcome)
            self.assertEqual((200, 'req-7'), (error.http_status, error.request_id))
            self.assertIn('something in front of Nova answered 200 without JSON', str(error))


class LookUps(unittest.TestCase):
    """Look-ups within a build create nothing, however they end."""

    asked = Asked(verb='build', subject='web-1', build_key='k-1', looking=True)

    def test_a_failed_look_up_leaves_no_build_in_doubt(self):
        found = [
            errors.refused(self.asked, reply('proxies/haproxy_503'), now=NOW),
            unreadable(self.asked, reply('proxies/nginx_502')),
            *(
                self.asked.unanswered('Glance', 'it took too long', sent=sent, slow=slow)
                for sent in (True, False)
                for slow in (True, False)
            ),
        ]
        for error in found:
            with self.subTest(str(error)):
                self.assertNotIsInstance(error, BuildOutcomeUnknown)
                self.assertEqual((NOT_APPLIED, True), (error.outcome, error.retryable))

    def test_a_look_up_that_finds_nothing_is_an_invalid_build(self):
        error = errors.refused(self.asked, reply('nova/build_image_unknown'), now=NOW)
        self.assertIs(InvalidBuildRequest, type(error))
