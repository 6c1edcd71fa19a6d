"""Ironic's error answers as kiln's errors."""

import json
import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_answers import unreadable
from kiln.compute_drivers.ironic.api.errors import is_locked, refused
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    DeleteFailed,
    InstanceNotFoundError,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    PermissionDenied,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.openstack.replies import Reply

LOCKED = (
    'Node 1be26c0b-03f2-4d2e-ae87-c02d7f33c781 is locked by host own, please retry after the '
    'current operation is completed.'
)
STATE = 'The requested action "rebuild" can not be performed on node "n" while it is in state "x".'
GONE = 'Allocation 0f0c2c8e could not be found.'
BUILD = Asked(verb='build', subject='web-1', build_key='k-1', looking=True)
MAKE = Asked(verb='build', subject='web-1', build_key='k-1', making=True)
DELETE, REBUILD = Asked.about('delete', 'a-1'), Asked.about('rebuild', 'a-1')


def reply(status, said='no', **headers):
    """Return an answer in Ironic's form: JSON within JSON."""
    fault = {'faultcode': 'Client', 'faultstring': said, 'debuginfo': None}
    body = {'error_message': json.dumps(fault)}
    return Reply(service='baremetal', status=status, headers=headers, body=body)


def astray(status):
    return Reply(service='baremetal', status=status, headers={}, body=None)


class Meanings(unittest.TestCase):
    def test_each_answer_is_the_error_of_its_call(self):
        for asked, answer, kind in (
            (BUILD, reply(400), InvalidBuildRequest),
            (BUILD, reply(404), InvalidBuildRequest),
            (BUILD, reply(409), BuildConflict),
            (BUILD, reply(400, STATE), BuildConflict),
            (MAKE, reply(500), BuildOutcomeUnknown),
            (MAKE, astray(504), BuildOutcomeUnknown),
            (BUILD, reply(503), ServiceUnavailable),
            (DELETE, reply(400, STATE), DeleteFailed),
            (DELETE, reply(409, LOCKED), DeleteFailed),
            (DELETE, reply(404, GONE), InstanceNotFoundError),
            (DELETE, reply(404, 'Node n could not be found.'), ResourceNotFoundError),
            (REBUILD, reply(400), InvalidRequest),
            (REBUILD, reply(400, STATE), InstanceStateConflict),
            (REBUILD, reply(409, LOCKED), InstanceStateConflict),
            (REBUILD, reply(401), AuthenticationFailed),
            (REBUILD, reply(403), PermissionDenied),
            (REBUILD, reply(406), UnsupportedOperation),
            (REBUILD, reply(418), AmphoraComputeError),
            (REBUILD, reply(429), RateLimited),
            (REBUILD, reply(302), ServiceUnavailable),
        ):
            with self.subTest(verb=asked.verb, status=answer.status, said=answer.reason):
                error = refused(asked, answer, now=0.0)
                self.assertIs(kind, type(error))
                self.assertEqual(answer.status, error.http_status)

    def test_the_words_are_those_of_ironic(self):
        error = refused(REBUILD, reply(409, LOCKED), now=0.0)
        self.assertEqual(f'Cannot rebuild a-1: Ironic answered 409: {LOCKED}', str(error))

    def test_a_page_of_a_proxy_never_means_that_an_amphora_is_gone(self):
        error = refused(DELETE, astray(404), now=0.0)
        self.assertIs(ServiceUnavailable, type(error))
        self.assertIn('in front of Ironic, or a wrong endpoint', str(error))

    def test_a_node_that_is_locked_comes_free_and_a_state_stays(self):
        self.assertTrue(is_locked(reply(409, LOCKED)))
        self.assertTrue(refused(REBUILD, reply(409, LOCKED), now=0.0).retryable)
        self.assertFalse(is_locked(reply(409, 'An allocation with name x already exists.')))
        self.assertFalse(refused(REBUILD, reply(400, STATE), now=0.0).retryable)

    def test_a_look_that_fails_has_done_nothing(self):
        self.assertIs(Outcome.NOT_APPLIED, refused(BUILD, reply(503), now=0.0).outcome)
        self.assertIs(Outcome.UNKNOWN, refused(MAKE, reply(500), now=0.0).outcome)

    def test_a_rate_limit_says_when_to_retry(self):
        self.assertEqual(
            3.0, refused(BUILD, reply(429, **{'retry-after': '3'}), now=0.0).retry_after
        )

    def test_an_answer_that_is_not_json_is_not_of_ironic(self):
        self.assertIs(ServiceUnavailable, type(unreadable(REBUILD, astray(200))))
        self.assertIs(BuildOutcomeUnknown, type(unreadable(MAKE, astray(200))))
