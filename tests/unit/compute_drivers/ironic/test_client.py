"""Requests to Ironic: versions, logins, pages and what answers mean."""

import unittest

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.ironic.api import errors
from kiln.exceptions import (
    AuthenticationFailed,
    BuildConflict,
    BuildOutcomeUnknown,
    ConfigurationError,
    DeleteFailed,
    InstanceStateConflict,
    InvalidBuildRequest,
    InvalidRequest,
    Outcome,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    ResourceNotFoundError,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.openstack.replies import Reply
from tests.unit.compute_drivers.ironic.case import IronicCase
from tests.unit.compute_drivers.ironic.played import _fault, _titled

BUILD = Asked(verb='build', subject='web-1', build_key='k1')
MAKING = Asked(verb='build', subject='web-1', build_key='k1', making=True)
STATUS = Asked.about('read the status of', 'a-1')
DELETE = Asked.about('delete', 'a-1')
LOCKED = 'Node n-1 is locked by host kiln-ctl, please retry after the operation is completed.'


class Versions(IronicCase):
    def test_the_highest_version_that_both_have_is_used(self):
        for theirs, used in (('1.115', '1.115'), ('1.200', '1.115'), ('1.60', '1.60')):
            self.ironic.versions = ('1.1', theirs)
            self.assertEqual(f'API version {used}', self.open().check().detail)

    def test_an_ironic_that_is_too_old_is_one_clear_error(self):
        self.ironic.versions = ('1.1', '1.46')
        with self.assertRaisesRegex(UnsupportedOperation, r'1\.1 to 1\.46; kiln needs .*1\.58'):
            self.open().check()

    def test_what_is_not_ironic_is_named(self):
        self.ironic.versions = ('', '')
        with self.assertRaisesRegex(ServiceUnavailable, 'is not Ironic'):
            self.open().check()

    def test_a_version_that_kiln_was_not_tested_with_is_refused(self):
        with self.assertRaisesRegex(ConfigurationError, r'1\.58 to 1\.115'):
            self.open(microversion='1.46')


class Logins(IronicCase):
    def test_http_basic_sends_user_and_password(self):
        self.ironic.basic = True
        driver = self.open(auth_type='http_basic', username='kiln', password='secret')
        self.assertTrue(driver.check().healthy)

    def test_a_wrong_password_is_an_authentication_failure(self):
        self.ironic.basic = True
        driver = self.open(auth_type='http_basic', username='kiln', password='wrong')
        with self.assertRaises(AuthenticationFailed):
            driver.check()

    def test_without_a_login_ironic_answers_too(self):
        self.assertTrue(self.open(auth_type='none').check().healthy)

    def test_an_endpoint_may_have_its_version(self):
        driver = self.open(baremetal_endpoint_override=f'{self.ironic.url}/v1/')
        self.assertTrue(driver.check().healthy)

    def test_without_an_endpoint_the_option_is_named(self):
        driver = self.open(baremetal_endpoint_override=None)
        with self.assertRaisesRegex(ServiceUnavailable, 'baremetal_endpoint_override'):
            driver.check()


class Lists(IronicCase):
    def test_a_list_of_many_pages_has_each_amphora_once(self):
        ids = {self.build(name=f'n-{n}', build_key=f'k{n}') for n in range(5)}
        listed = [one.id for one in self.open(page_size=2).list_amphorae()]
        self.assertEqual((ids, 5), (set(listed), len(listed)))

    def test_a_list_goes_on_when_the_last_row_of_a_page_has_ended(self):
        for n in range(4):
            self.build(name=f'n-{n}', build_key=f'k{n}')
        self.ironic.fail('GET', r'^/v1/allocations$', 404, 'Allocation x could not be found.')
        # The first page has no row before it.
        with self.assertRaises(ResourceNotFoundError):
            self.open(page_size=2).list_amphorae()
        taken = self.ironic.get_allocations

        def vanish(rest, query, body):
            if 'marker' in query and query['marker'] in self.ironic.allocations:
                self.ironic.get_allocations = taken
                self.ironic._end(self.ironic.allocations[query['marker']])
            return taken(rest, query, body)

        self.ironic.get_allocations = vanish
        self.assertEqual(3, len({one.id for one in self.open(page_size=2).list_amphorae()} - {''}))

    def test_all_amphorae_are_one_list_of_each_kind(self):
        for n in range(4):
            self.build(name=f'n-{n}', build_key=f'k{n}')
        self.driver.list_amphorae()
        self.ironic.asked.clear()
        self.assertEqual(4, len(self.driver.changes().statuses))
        self.assertEqual(
            [('GET', '/v1/allocations'), ('GET', '/v1/nodes')],
            [one[:2] for one in self.ironic.asked],
        )

    def test_a_site_without_amphorae_asks_for_no_nodes(self):
        self.driver.changes()
        self.assertEqual(0, self.ironic.count('GET', '/v1/nodes'))


class Errors(unittest.TestCase):
    def error(self, asked, status, said='words', body=None, **headers):
        body = _fault(said) if body is None else body
        reply = Reply(service='baremetal', status=status, headers=headers, body=body)
        return errors.refused(asked, reply, now=0.0)

    def test_each_answer_has_its_error(self):
        for asked, status, said, kind in (
            (BUILD, 400, 'x', InvalidBuildRequest),
            (STATUS, 400, 'x', InvalidRequest),
            (DELETE, 400, 'x', DeleteFailed),
            (STATUS, 401, 'x', AuthenticationFailed),
            (STATUS, 403, 'x', PermissionDenied),
            (BUILD, 403, 'Quota exceeded', QuotaExceeded),
            (STATUS, 404, 'x', ResourceNotFoundError),
            (BUILD, 404, 'x', InvalidBuildRequest),
            (STATUS, 406, 'x', UnsupportedOperation),
            (BUILD, 409, 'x', BuildConflict),
            (DELETE, 409, 'x', DeleteFailed),
            (STATUS, 409, 'x', InstanceStateConflict),
            (STATUS, 429, 'x', RateLimited),
            (STATUS, 500, 'x', ServiceUnavailable),
            (MAKING, 500, 'x', BuildOutcomeUnknown),
            (STATUS, 503, 'x', ServiceUnavailable),
        ):
            with self.subTest(verb=asked.verb, status=status):
                self.assertIs(kind, type(self.error(asked, status, said)))

    def test_a_node_that_a_task_holds_passes(self):
        for asked in (BUILD, DELETE, STATUS):
            error = self.error(asked, 409, LOCKED)
            self.assertTrue(error.retryable)
            self.assertTrue(errors.is_locked(error))
        self.assertFalse(self.error(STATUS, 409, 'Node is protected').retryable)

    def test_a_path_that_ironic_does_not_have_is_not_taken_for_gone(self):
        for body in (_titled(), {}, None, 'x', {'error_message': 'no JSON'}):
            with self.subTest(body=body):
                reply = Reply(service='baremetal', status=404, headers={}, body=body)
                error = errors.refused(STATUS, reply, now=0.0)
                self.assertIs(ServiceUnavailable, type(error))

    def test_ironics_words_are_in_the_error_in_either_form(self):
        for body in (_fault('so it is.'), {'error_message': {'faultstring': 'so it is.'}}):
            error = self.error(STATUS, 409, body=body)
            self.assertIn('Ironic answered 409: so it is.', str(error))

    def test_a_request_that_makes_nothing_left_nothing_if_it_only_looked(self):
        looking = Asked(verb='build', subject='x', build_key='k', looking=True)
        self.assertIs(Outcome.NOT_APPLIED, self.error(looking, 503).outcome)
        self.assertIs(Outcome.UNKNOWN, self.error(BUILD, 503).outcome)
