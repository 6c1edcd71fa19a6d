"""Errors as data: advice, code, outcome and circuit verdict of every class."""

import pickle
import unittest

from hypothesis import given
from hypothesis import strategies as st

from kiln import exceptions
from kiln.exceptions import (
    Advice,
    AmphoraBuildError,
    AmphoraComputeError,
    BuildConflict,
    BuildOutcomeUnknown,
    ConfigurationError,
    KilnError,
    Outcome,
    RateLimited,
    ServiceTimeout,
    UnsupportedOperation,
    Verdict,
    redact,
)

SECRET = 'hunter2hunter2'
NOT_APPLIED, UNKNOWN, APPLIED = Outcome.NOT_APPLIED, Outcome.UNKNOWN, Outcome.APPLIED
FAILURE, NEUTRAL, SUCCESS = Verdict.FAILURE, Verdict.NEUTRAL, Verdict.SUCCESS

#: Class, its parent, its code, advice, outcome, circuit verdict.
TABLE = """
AmphoraComputeError    KilnError             compute_error           repair     unknown     failure
InvalidRequest         AmphoraComputeError   invalid_request         repair     not_applied neutral
AmphoraBuildError      AmphoraComputeError   build_error             repair     unknown     neutral
InvalidBuildRequest    AmphoraBuildError     invalid_build_request   repair     not_applied neutral
UserDataTooLarge       InvalidBuildRequest   user_data_too_large     repair     not_applied neutral
QuotaExceeded          AmphoraBuildError     quota_exceeded          repair     not_applied neutral
InsufficientCapacity   AmphoraBuildError     insufficient_capacity   build_anew not_applied neutral
BuildConflict          AmphoraBuildError     build_conflict          repair     not_applied neutral
BuildDiffers           BuildConflict         build_differs           repair     not_applied neutral
BuildTimeout           AmphoraBuildError     build_timeout           repeat     applied     neutral
BuildFailed            AmphoraBuildError     build_failed            build_anew not_applied neutral
BuildNotRunning        AmphoraBuildError     build_not_running       repair     applied     neutral
BuildVanished          AmphoraBuildError     build_vanished          build_anew not_applied neutral
BuildNotFound          AmphoraBuildError     build_not_found         build_anew not_applied neutral
BuildOutcomeUnknown    AmphoraBuildError     build_outcome_unknown   repeat     unknown     failure
DeleteFailed           AmphoraComputeError   delete_failed           repair     not_applied neutral
DeleteTimeout          DeleteFailed          delete_timeout          repeat     applied     neutral
InstanceNotFoundError  AmphoraComputeError   instance_not_found      give_up    not_applied success
ResourceNotFoundError  AmphoraComputeError   resource_not_found      repair     not_applied success
AmbiguousInstanceError AmphoraComputeError   ambiguous_instance      repair     not_applied success
InstanceStateConflict  AmphoraComputeError   instance_state_conflict repair     not_applied neutral
ChangeFailed           AmphoraComputeError   change_failed           repair     applied     neutral
NotSuspendedError      InstanceStateConflict not_suspended           give_up    not_applied neutral
ComputeServiceError    AmphoraComputeError   compute_service_error   repair     unknown     failure
ServiceUnavailable     ComputeServiceError   service_unavailable     wait       not_applied failure
ServiceTimeout         ComputeServiceError   service_timeout         repeat     unknown     failure
RateLimited            ComputeServiceError   rate_limited            wait       not_applied neutral
AuthenticationFailed   ComputeServiceError   authentication_failed   repair     not_applied failure
PermissionDenied       ComputeServiceError   permission_denied       repair     not_applied neutral
CircuitOpenError       AmphoraComputeError   circuit_open            wait       not_applied neutral
OperationRejected      AmphoraComputeError   operation_rejected      wait       not_applied neutral
OperationTimeout       AmphoraComputeError   operation_timeout       repeat     unknown     neutral
OperationCancelled     AmphoraComputeError   operation_cancelled     give_up    unknown     neutral
ForkedError            AmphoraComputeError   forked                  repair     unknown     neutral
UnsupportedOperation   AmphoraComputeError   unsupported_operation   give_up    not_applied neutral
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]

#: Every class of the module, in order of definition.
KINDS = [
    kind
    for kind in vars(exceptions).values()
    if isinstance(kind, type) and issubclass(kind, KilnError)
]
COMPUTE_KINDS = [kind for kind in KINDS if issubclass(kind, AmphoraComputeError)]

#: Forms of credentials in texts of backends and of configurations.
SHOWN = {
    'password=': f'Cannot log in with password={SECRET}, says east.',
    'JSON': f'Sent {{"adminPass": "x", "password": "{SECRET}"}}.',
    'token:': f'X-Auth-Token: {SECRET}',
    'API key': f'refused: api_key = {SECRET}',
    'bearer': f'Authorization: Bearer {SECRET}',
    'basic': f'Authorization: Basic {SECRET}==',
    'URL': f'Cannot reach redis://kiln:{SECRET}@east:6379/0',
    'URL without a user': f'Cannot reach redis://:{SECRET}@east:6379/0',
    'URL with an at sign': f'Cannot reach redis://kiln:pa@{SECRET}@east:6379/0',
    'private key': f'-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----',
    'private key cut off': f'-----BEGIN PRIVATE KEY-----\n{SECRET}',
}


class VendorError(BuildConflict):
    """An error class of a vendor's package, with its own fact."""

    code = 'vendor_rack_taken'
    retryable = True
    FACTS = (*BuildConflict.FACTS, 'rack')
    rack = None


class HierarchyTest(unittest.TestCase):
    def test_every_class_has_the_parents_and_defaults_of_the_table(self):
        for name, parent, code, advice, outcome, verdict in ROWS:
            with self.subTest(name):
                kind = getattr(exceptions, name)
                error = kind('Cannot.')
                self.assertEqual(kind.__bases__[0].__name__, parent)
                self.assertEqual(
                    (error.code, error.advice, error.outcome, error.circuit),
                    (code, Advice(advice), Outcome(outcome), Verdict(verdict)),
                )
                self.assertIs(error.retryable, error.advice.again)
                self.assertIsNone(error.retry_after)

    def test_the_table_has_every_error_of_a_driver(self):
        self.assertEqual([row[0] for row in ROWS], [kind.__name__ for kind in COMPUTE_KINDS])

    def test_no_two_classes_share_a_code(self):
        codes = [vars(kind)['code'] for kind in KINDS]
        self.assertEqual(len(codes), len(set(codes)))

    def test_every_class_has_its_own_remedy(self):
        remedies = {vars(kind)['remedy'] for kind in KINDS}
        self.assertGreaterEqual(len(remedies), len(KINDS) - 1)
        self.assertTrue(all(remedy.endswith('.') for remedy in remedies))

    def test_all_names_of_the_founding_note_exist_under_its_catch_all(self):
        for name in (
            'AmphoraBuildError', 'DeleteFailed', 'InstanceNotFoundError', 'NotSuspendedError',
        ):  # fmt: skip
            self.assertTrue(issubclass(getattr(exceptions, name), AmphoraComputeError), name)

    def test_an_unsupported_operation_can_be_caught_as_not_implemented(self):
        with self.assertRaises(NotImplementedError):
            raise UnsupportedOperation('Cannot reboot: the driver lacks this ability.')

    def test_a_configuration_error_is_not_a_backend_error(self):
        self.assertFalse(issubclass(ConfigurationError, AmphoraComputeError))

    def test_an_uncertain_build_is_repeated_only_with_its_key(self):
        for kind in COMPUTE_KINDS:
            if kind.outcome is not NOT_APPLIED:
                self.assertIsNot(kind.advice, Advice.BUILD_ANEW, kind)
            for outcome in (UNKNOWN, APPLIED):
                self.assertIsNot(kind('Cannot.', outcome=outcome).advice, Advice.BUILD_ANEW, kind)

    def test_the_remedy_agrees_with_the_advice(self):
        words = {
            Advice.REPEAT: 'again|once more|[Rr]epeat', Advice.BUILD_ANEW: '[Bb]uild again',
            Advice.WAIT: 'Wait|retry_after',
        }  # fmt: skip
        for kind in COMPUTE_KINDS:
            if kind.advice in words:
                self.assertRegex(kind.remedy, words[kind.advice], kind)


class FactsTest(unittest.TestCase):
    def test_an_instance_can_override_its_class(self):
        error = BuildConflict('Busy.', retryable=True, retry_after=3.0, outcome=APPLIED,
                              circuit=FAILURE)  # fmt: skip
        self.assertEqual(
            (error.retryable, error.retry_after, error.outcome, error.circuit),
            (True, 3.0, APPLIED, FAILURE),
        )
        self.assertIs(error.advice, Advice.WAIT)
        again = BuildConflict('Busy.')
        self.assertIs(again.advice, Advice.REPAIR)
        self.assertEqual(
            (again.retryable, again.retry_after, again.outcome, again.circuit),
            (False, None, NOT_APPLIED, NEUTRAL),
        )

    def test_an_instance_can_state_that_a_repeat_is_useless(self):
        self.assertIs(ServiceTimeout('No answer.', retryable=False).retryable, False)

    def test_advice_and_retryable_agree_whichever_is_given(self):
        for kind in COMPUTE_KINDS:
            for advice in Advice:
                error = kind('Cannot.', advice=advice)
                self.assertEqual((error.advice, error.retryable), (advice, advice.again))
                # If the two contradict each other the advice applies.
                self.assertEqual(kind('No.', advice=advice, retryable=True).advice, advice)
            for retryable in (True, False):
                error = kind('Cannot.', retryable=retryable)
                self.assertIs(error.retryable, retryable)
                self.assertIs(error.advice.again, retryable)
        self.assertIs(VendorError('Taken.').advice, Advice.WAIT)

    def test_name_missing_does_not_replace_a_fact(self):
        error = ServiceTimeout('No answer.', backend='east')
        error.name_missing(backend='west', operation='build', build_key=None)
        self.assertEqual(
            ('east', 'build', None), (error.backend, error.operation, error.build_key)
        )

    def test_facts_are_attributes_and_none_where_unknown(self):
        error = AmphoraComputeError('Cannot.', amphora_id='id-1', http_status=503)
        self.assertEqual((error.amphora_id, error.http_status), ('id-1', 503))
        for name in set(AmphoraComputeError.FACTS) - {'amphora_id', 'http_status'}:
            self.assertIsNone(getattr(error, name), name)

    def test_an_unknown_fact_is_refused_by_name(self):
        with self.assertRaisesRegex(TypeError, 'RateLimited carries no colour, weight'):
            RateLimited('Slow down.', weight=1, colour='red')


class SecrecyTest(unittest.TestCase):
    def test_no_class_shows_a_credential_in_its_text(self):
        for kind in KINDS:
            for way, text in SHOWN.items():
                with self.subTest(kind=kind.__name__, way=way):
                    error = kind(text)
                    for shown in (str(error), repr(error), error.args[0]):
                        self.assertNotIn(SECRET, shown)

    def test_a_credential_in_a_fault_is_not_shown_either(self):
        for way, text in SHOWN.items():
            with self.subTest(way):
                error = AmphoraBuildError('Cannot build.', fault=text)
                self.assertNotIn(SECRET, error.fault)
                self.assertNotIn(SECRET, str(error.to_dict()))

    def test_text_beside_a_credential_stays_readable(self):
        self.assertEqual(
            redact(SHOWN['URL']), 'Cannot reach redis://kiln:***@east:6379/0',
        )  # fmt: skip
        self.assertEqual(redact(SHOWN['password=']), 'Cannot log in with password=***, says east.')

    def test_a_text_without_a_credential_is_left_as_it_is(self):
        for text in (
            'Cannot build: no valid host was found.',
            'Cannot reach https://east:8774/v2.1/servers?name=web-1.',
            'Cannot build: keys[0] is empty; its token is missing.',
            'Cannot use the credentials: Auth plugin requires parameters which were not given.',
        ):
            self.assertEqual(redact(text), text)

    @given(st.text() | st.sampled_from(sorted(SHOWN.values())).flatmap(
        lambda shown: st.tuples(st.text(), st.text()).map(lambda around: shown.join(around))
    ))  # fmt: skip
    def test_masking_twice_is_masking_once(self, text):
        # Errors are created again from their text: by pickle, by from_dict().
        self.assertEqual(redact(redact(text)), redact(text))


def errors():
    """Return errors of every class with any facts."""
    words = st.none() | st.text('abcxyz-09 ', min_size=1, max_size=12)
    facts = {name: words for name in AmphoraComputeError.FACTS if name != 'http_status'}
    return st.builds(
        lambda kind, message, more: kind(message, **more),
        st.sampled_from(COMPUTE_KINDS),
        st.text(max_size=40),
        st.fixed_dictionaries({
            'advice': st.none() | st.sampled_from(Advice),
            'retryable': st.none() | st.booleans(),
            'retry_after': st.none() | st.floats(0, 1e6),
            'outcome': st.none() | st.sampled_from(Outcome),
            'circuit': st.none() | st.sampled_from(Verdict),
            'http_status': st.none() | st.integers(400, 599),
            **facts,
        }),
    )  # fmt: skip


class TravelTest(unittest.TestCase):
    @given(errors())
    def test_an_error_survives_a_pickle_unchanged(self, error):
        again = pickle.loads(pickle.dumps(error))
        self.assertIs(type(again), type(error))
        self.assertEqual(again.to_dict(), error.to_dict())

    @given(errors())
    def test_an_error_survives_plain_data_with_its_class_and_facts(self, error):
        again = AmphoraComputeError.from_dict(error.to_dict())
        self.assertIs(type(again), type(error))
        self.assertEqual(again.to_dict(), error.to_dict())

    def test_an_error_of_the_configuration_can_be_pickled_too(self):
        again = pickle.loads(pickle.dumps(exceptions.DriverConflict('Two packages have it.')))
        self.assertIsInstance(again, exceptions.DriverConflict)
        self.assertEqual(str(again), 'Two packages have it.')

    def test_a_note_survives_a_pickle(self):
        error = ServiceTimeout('No answer.')
        error.add_note('the third in a row')
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual(again.__notes__, ['the third in a row'])

    def test_plain_data_omits_unknown_facts(self):
        self.assertEqual(
            BuildOutcomeUnknown('No answer.', build_key='lb-7').to_dict(),
            {
                'code': 'build_outcome_unknown',
                'message': 'No answer.',
                'advice': 'repeat',
                'retryable': True,
                'retry_after': None,
                'outcome': 'unknown',
                'circuit': 'failure',
                'build_key': 'lb-7',
            },
        )

    def test_a_vendors_error_keeps_its_additional_facts(self):
        error = VendorError('Rack 7 is taken.', rack='7', backend='east')
        again = AmphoraComputeError.from_dict(error.to_dict())
        self.assertIsInstance(again, VendorError)
        self.assertEqual((again.rack, again.backend), ('7', 'east'))

    def test_an_unknown_code_becomes_the_class_of_from_dict(self):
        data = {**ServiceTimeout('No answer.').to_dict(), 'code': 'of_a_package_not_installed'}
        again = AmphoraComputeError.from_dict(data)
        self.assertIs(type(again), AmphoraComputeError)
        self.assertEqual((str(again), again.retryable), ('No answer.', True))

    def test_from_dict_never_returns_a_parent_class(self):
        data = ServiceTimeout('No answer.').to_dict()
        self.assertIs(type(AmphoraBuildError.from_dict(data)), AmphoraBuildError)

    def test_an_empty_record_states_that_the_cause_is_unknown(self):
        error = AmphoraComputeError.from_dict({})
        self.assertIn('the record of the error has no message', str(error))
        self.assertEqual((error.outcome, error.circuit), (UNKNOWN, FAILURE))


class VerdictTest(unittest.TestCase):
    def test_only_a_clear_refusal_proves_that_a_backend_works(self):
        self.assertEqual(
            {kind.__name__ for kind in COMPUTE_KINDS if kind.circuit is SUCCESS},
            {'InstanceNotFoundError', 'ResourceNotFoundError', 'AmbiguousInstanceError'},
        )
