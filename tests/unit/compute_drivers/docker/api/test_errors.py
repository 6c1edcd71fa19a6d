"""Exceptions for each recorded answer of an engine, to builds and to other requests."""

import errno
import unittest

import requests
import urllib3.exceptions

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.errors import (
    Reply,
    Trouble,
    own_words,
    refused,
    trouble_in,
    unanswered,
)
from kiln.exceptions import (
    AmphoraBuildError,
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
    RateLimited,
    ResourceNotFoundError,
    ServiceTimeout,
    ServiceUnavailable,
    UnsupportedOperation,
)
from tests.unit.compute_drivers.docker.corpus import DOCKER, PODMAN

BUILD = Asked(verb='build', subject='web-1', build_key='k1', making=True)
START = Asked(verb='build', subject='web-1', build_key='k1')
STATUS = Asked(verb='get', subject='c1', amphora_id='c1')
DELETE = Asked(verb='delete', subject='c1', amphora_id='c1')

TO_BUILD = {
    'name taken': BuildConflict,
    'image unknown': InvalidBuildRequest,
    'image id unknown': InvalidBuildRequest,
    'registry out of reach': InvalidBuildRequest,
    'network unknown': InvalidBuildRequest,
    'too many processors': InsufficientCapacity,
    'too little memory': InvalidBuildRequest,
    'command unknown': InvalidBuildRequest,
    'capability lacking': PermissionDenied,
    'limit not allowed': PermissionDenied,
    'limit too small': AmphoraBuildError,
    'device unknown': InvalidBuildRequest,
    'container unknown': InstanceNotFoundError,
    'port taken': BuildConflict,
    'port taken by another program': BuildConflict,
    'address outside': InvalidBuildRequest,
    'address taken': BuildConflict,
    'disk full': InsufficientCapacity,
    'path unknown': InvalidBuildRequest,
    'removed twice at once': BuildConflict,
}
ELSEWHERE = {
    'container unknown': InstanceNotFoundError,
    'image unknown': InvalidRequest,
    'registry out of reach': InvalidRequest,
    'network unknown': ResourceNotFoundError,
    'path unknown': ResourceNotFoundError,
    'paused again': InstanceStateConflict,
    'started while paused': InstanceStateConflict,
    'resumed while running': NotSuspendedError,
    'paused while stopped': InstanceStateConflict,
    'killed while stopped': InstanceStateConflict,
    'network attached again': InstanceStateConflict,
    'network detached again': InstanceStateConflict,
    'address outside': InvalidRequest,
    'address taken': InstanceStateConflict,
    'removed while running': InstanceStateConflict,
    'removed twice at once': InstanceStateConflict,
}


class Corpus(unittest.TestCase):
    def says(self, asked, wanted):
        for engine in (DOCKER, PODMAN):
            for what, kind in wanted.items():
                if what not in engine:
                    continue
                status, text = engine[what]
                with self.subTest(what, status=status):
                    error = refused(asked, Reply(status=status, reason=text))
                    self.assertIs(type(error), kind)
                    self.assertIs(error.outcome, Outcome.NOT_APPLIED)
                    self.assertEqual(text, error.fault)
                    self.assertEqual(status, error.http_status)

    def test_answers_to_a_build_are_distinguished(self):
        self.says(BUILD, TO_BUILD)

    def test_answers_to_the_start_of_a_build_are_distinguished(self):
        self.says(START, TO_BUILD)

    def test_answers_to_other_requests_are_distinguished(self):
        self.says(STATUS, ELSEWHERE)

    def test_what_was_not_recorded_is_known_by_the_words_of_its_engine(self):
        for text, kind in (
            ('configured logging driver does not support reading', UnsupportedOperation),
            ('port is already allocated', InstanceStateConflict),
            ('remove v1: volume is in use', InstanceStateConflict),
            ('container c1 is in private (none) mode', InstanceStateConflict),
            ('operation not permitted', PermissionDenied),
            ('could not find the file /x in container c1', ResourceNotFoundError),
        ):
            self.assertIs(type(refused(STATUS, Reply(status=500, reason=text))), kind)

    def test_a_build_is_judged_by_the_words_whatever_the_status(self):
        for text in ('manifest unknown: manifest unknown', 'lstat /x: no such file or directory'):
            error = refused(BUILD, Reply(status=500, reason=text))
            self.assertIs(type(error), InvalidBuildRequest)

    def test_a_delete_that_the_state_does_not_allow_has_failed(self):
        failed = {InstanceStateConflict: DeleteFailed}
        self.says(DELETE, {one: failed.get(kind, kind) for one, kind in ELSEWHERE.items()})
        error = refused(DELETE, Reply(status=500, reason='operation not permitted'))
        self.assertIs(type(error), PermissionDenied)

    def test_every_recorded_answer_is_tested(self):
        judged = TO_BUILD.keys() | ELSEWHERE.keys() | {'name malformed'}
        self.assertEqual(set(), (DOCKER.keys() | PODMAN.keys()) - judged)

    def test_of_refusals_only_that_of_a_container_being_removed_can_be_retried(self):
        for what in ('removed twice at once', 'name taken', 'container unknown'):
            status, text = DOCKER[what]
            for asked in (BUILD, STATUS, DELETE):
                error = refused(asked, Reply(status=status, reason=text))
                self.assertIs(what.startswith('removed'), error.retryable, (what, asked.verb))

    def test_a_port_in_use_is_not_an_address_in_use(self):
        for text in ('listen tcp4 :80: bind: address already in use', 'port is already allocated'):
            self.assertIs(trouble_in(text), Trouble.PORT_TAKEN)
        self.assertIs(trouble_in('Address already in use'), Trouble.ADDRESS_TAKEN)

    def test_an_error_without_words_is_of_no_known_kind(self):
        self.assertIsNone(trouble_in(None))


class Statuses(unittest.TestCase):
    def test_the_status_decides_if_the_text_is_unknown(self):
        for asked, status, kind in (
            (BUILD, 400, InvalidBuildRequest),
            (STATUS, 400, InvalidRequest),
            (BUILD, 403, PermissionDenied),
            (BUILD, 404, InvalidBuildRequest),
            (STATUS, 404, ResourceNotFoundError),
            (BUILD, 409, BuildConflict),
            (STATUS, 409, InstanceStateConflict),
            (DELETE, 409, DeleteFailed),
            (STATUS, 501, UnsupportedOperation),
            (BUILD, 401, AuthenticationFailed),
            (STATUS, 429, RateLimited),
            (BUILD, 500, BuildOutcomeUnknown),
            (START, 500, ServiceUnavailable),
            (STATUS, 500, ServiceUnavailable),
            (BUILD, 503, BuildOutcomeUnknown),
            (BUILD, 200, BuildOutcomeUnknown),
            (STATUS, 200, ServiceUnavailable),
        ):
            with self.subTest(asked.verb, status=status):
                self.assertIs(type(refused(asked, Reply(status=status, reason='Hm.'))), kind)

    def test_the_status_decides_if_the_text_is_about_another_request(self):
        for asked, status, text, kind in (
            (BUILD, 409, 'Container c1 is not paused', BuildConflict),
            (STATUS, 400, 'range of CPUs is from 0.01 to 2.00', InvalidRequest),
        ):
            self.assertIs(type(refused(asked, Reply(status=status, reason=text))), kind)

    def test_a_proxy_s_404_never_means_that_a_container_is_gone(self):
        error = refused(STATUS, Reply(status=404))
        self.assertIs(type(error), ServiceUnavailable)
        self.assertIn('is not a container engine', str(error))

    def test_a_proxy_that_refuses_a_build_has_not_passed_it_on(self):
        for status in (400, 404, 499):
            error = refused(BUILD, Reply(status=status))
            self.assertIs(type(error), ServiceUnavailable)
            self.assertIs(error.outcome, Outcome.NOT_APPLIED)

    def test_an_engine_that_is_unavailable_is_so_whatever_it_says(self):
        text = 'No such container: c1'
        self.assertIs(type(refused(STATUS, Reply(status=503, reason=text))), ServiceUnavailable)
        self.assertIs(type(refused(STATUS, Reply(status=504, reason=text))), InstanceNotFoundError)

    def test_an_internal_error_might_have_taken_effect(self):
        error = refused(DELETE, Reply(status=500, reason='Hm.'))
        self.assertIs(error.outcome, Outcome.UNKNOWN)
        error = refused(DELETE, Reply(status=404))
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)

    def test_retry_after_is_passed_on(self):
        error = refused(STATUS, Reply(status=429, retry_after=3.0))
        self.assertEqual(3.0, error.retry_after)

    def test_an_error_names_the_action_and_its_object(self):
        error = refused(DELETE, Reply(status=409, reason='Busy.'))
        self.assertEqual('Cannot delete c1: the engine answered 409: Busy.', str(error))
        self.assertEqual('c1', error.amphora_id)


class Silence(unittest.TestCase):
    def test_an_unsent_request_changed_nothing(self):
        for asked in (BUILD, STATUS):
            error = asked.unanswered('the engine', 'connection refused', sent=False, slow=False)
            self.assertIs(type(error), ServiceUnavailable)
            self.assertIs(error.outcome, Outcome.NOT_APPLIED)

    def test_a_lost_answer_leaves_the_outcome_unknown(self):
        for asked, slow, kind in (
            (BUILD, True, BuildOutcomeUnknown),
            (BUILD, False, BuildOutcomeUnknown),
            (DELETE, True, ServiceTimeout),
            (DELETE, False, ServiceUnavailable),
        ):
            error = asked.unanswered('the engine', 'connection reset', sent=True, slow=slow)
            self.assertIs(type(error), kind)
            self.assertIs(error.outcome, Outcome.UNKNOWN)

    def test_a_refused_connection_carried_nothing(self):
        # That it failed while it was made is known by the name of the function.
        def connect():
            raise ConnectionRefusedError(errno.ECONNREFUSED, 'Connection refused')

        try:
            connect()
        except ConnectionRefusedError as exc:
            error = unanswered(STATUS, exc)
        self.assertIn('cannot be reached: connection refused.', str(error))
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)

    def test_a_failure_of_the_time_is_a_timeout(self):
        self.assertIs(type(unanswered(DELETE, TimeoutError())), ServiceTimeout)

    def test_a_failure_that_is_not_the_system_s_is_reported_too(self):
        error = unanswered(STATUS, urllib3.exceptions.ProtocolError('Half an answer.'))
        self.assertIn('gave no answer: Half an answer.', str(error))

    def test_a_failure_that_has_no_reason_is_reported_in_its_own_words(self):
        error = unanswered(STATUS, requests.ConnectionError('The cable ran\n out.'))
        self.assertIn('gave no answer: The cable ran out.', str(error))
        self.assertIs(error.outcome, Outcome.UNKNOWN)

    def test_nothing_was_sent_to_an_engine_of_which_the_version_is_not_known(self):
        error = unanswered(BUILD, ConnectionResetError(), at=' at tcp://far')
        self.assertIs(error.outcome, Outcome.NOT_APPLIED)
        self.assertIn('cannot be reached: ConnectionResetError at tcp://far.', str(error))

    def test_a_failure_without_a_text_is_reported_by_its_kind(self):
        self.assertIn('ConnectionResetError', str(unanswered(STATUS, ConnectionResetError())))

    def test_only_a_socket_that_kiln_has_no_access_to_is_reported_as_such(self):
        for code, kind in (
            (errno.EACCES, PermissionDenied),
            (errno.ECONNRESET, ServiceUnavailable),
        ):
            error = unanswered(STATUS, OSError(code, 'No.'), at=' at unix:///run/engine')
            self.assertIs(type(error), kind)
            is_denied = kind is PermissionDenied
            self.assertIs(is_denied, 'socket of the engine at unix:///run/engine.' in str(error))
            self.assertIs(error.outcome, Outcome.NOT_APPLIED)
            self.assertIs(is_denied, not error.retryable)


class Words(unittest.TestCase):
    def test_an_engine_s_message_becomes_one_short_line(self):
        self.assertEqual('a b', own_words({'message': 'a\n b'}))
        self.assertEqual('late', own_words({'error': 'late'}))
        self.assertEqual(500, len(own_words({'message': 'x' * 999})))

    def test_an_answer_not_from_an_engine_has_no_message(self):
        for body in (None, [], 'page', {}, {'message': ''}, {'error': ''}, {'message': 7}):
            self.assertIsNone(own_words(body))
