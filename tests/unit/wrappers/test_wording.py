"""The errors of every call state, as a sentence, what failed."""

import unittest

from kiln.compute_drivers.authoring.wording import attempt
from kiln.compute_drivers.calls import Call
from kiln.exceptions import AmphoraComputeError
from kiln.models import BuildRequest, Resource, State
from kiln.testing.minimal import MinimalDriver
from kiln.wrappers.executor.attempts import Backoff, CallPlan
from kiln.wrappers.executor.resume import describe
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.operations.errand import Errand

REQUEST = BuildRequest(build_key='key-1', name='web-1', owner='kiln')
PORT = Resource(kind='port', id='p1', owner='kiln', name='port of web-1')

#: The arguments of each call, and the beginning of its errors.
SENTENCES = {
    Call.BUILD: ((REQUEST,), 'Cannot build web-1'),
    Call.DELETE: (('m1',), 'Cannot delete m1'),
    Call.GET: (('m1',), 'Cannot get m1'),
    Call.FIND: (('web-1',), 'Cannot find web-1'),
    Call.FIND_BUILD: (('key-1',), 'Cannot look for build key-1'),
    Call.LIST: (('kiln',), 'Cannot list the amphorae of kiln'),
    Call.STATUS: (('m1',), 'Cannot read the status of m1'),
    Call.STATUSES: ((('m1', 'm2'),), 'Cannot read statuses'),
    Call.CHANGES: (('cursor-7',), 'Cannot read changes'),
    Call.REACHED: ((State.ACTIVE, 'cursor-7'), 'Cannot read which amphorae are active'),
    Call.CHECK: ((), 'Cannot check the backend'),
    Call.SUSPEND: (('m1',), 'Cannot suspend m1'),
    Call.RESUME: (('m1',), 'Cannot resume m1'),
    Call.REBOOT: (('m1', True), 'Cannot reboot m1'),
    Call.REBUILD: (('m1', 'image-2'), 'Cannot rebuild m1'),
    Call.ATTACH_PORT: (('m1', 'p1'), 'Cannot attach port p1 to m1'),
    Call.DETACH_PORT: (('m1', 'p1'), 'Cannot detach port p1 from m1'),
    Call.ATTACH_NETWORK: (('m1', 'n1', None), 'Cannot attach network n1 to m1'),
    Call.DETACH_NETWORK: (('m1', 'n1'), 'Cannot detach network n1 from m1'),
    Call.CREATE_SERVER_GROUP: (('apart', 'anti-affinity'), 'Cannot create server group apart'),
    Call.DELETE_SERVER_GROUP: (('g1',), 'Cannot delete server group g1'),
    Call.VALIDATE_FLAVOR: (('small',), 'Cannot validate flavor small'),
    Call.VALIDATE_IMAGE: (('image-1',), 'Cannot validate image image-1'),
    Call.VALIDATE_ZONE: (('az1',), 'Cannot validate zone az1'),
    Call.VALIDATE_NETWORK: (('net1',), 'Cannot validate network net1'),
    Call.VALIDATE_SECURITY_GROUP: (('web',), 'Cannot validate security group web'),
    Call.CHECK_PORTS: ((('web',), ('22/tcp',), None), 'Cannot check ports'),
    Call.DESCRIBE_IMAGE: (('image-1',), 'Cannot describe image image-1'),
    Call.LIST_ZONES: ((), 'Cannot list zones'),
    Call.LIST_RESOURCES: (('kiln',), 'Cannot list the resources of kiln'),
    Call.DELETE_RESOURCE: ((PORT,), 'Cannot delete port p1'),
    Call.CONSOLE_LOG: (('m1', 20), 'Cannot read the console log of m1'),
    Call.CLAIM: (('m1', 'web-1'), 'Cannot claim m1'),
}


def plan_of(call, args):
    settings = ExecutorSettings()
    operation = Errand(call.label, backend='east')
    describe(operation, args)
    return CallPlan(
        operation, call, args, Backoff(first_s=1.0, max_s=settings.max_delay_s, rng=None)
    )


class WordingTest(unittest.TestCase):
    def test_the_errors_of_each_call_state_what_failed(self):
        self.assertEqual(set(Call), set(SENTENCES))
        for call, (args, sentence) in SENTENCES.items():
            with self.subTest(call.label):
                self.assertEqual(plan_of(call, args).about, sentence)

    def test_the_error_of_a_cancel_has_the_same_phrase(self):
        for call, (args, sentence) in SENTENCES.items():
            with self.subTest(call.label):
                operation = plan_of(call, args).operation
                operation.cancel('kiln was closed')
                self.assertEqual(
                    str(operation.exception()), f'{sentence}: kiln was closed. It was never sent.'
                )

    def test_a_recovered_operation_has_the_same_phrase(self):
        for call, (args, sentence) in SENTENCES.items():
            with self.subTest(call.label):
                saved = plan_of(call, args).operation.to_dict()
                self.assertEqual(f'Cannot {Errand.from_dict(saved).attempt}', sentence)

    def test_unknown_words_are_left_out(self):
        for kind, said in (
            ('attach_port', 'attach port'), ('list', 'list'), ('build', 'build'),
            ('find_build', 'find build'), ('check', 'check the backend'),
        ):  # fmt: skip
            with self.subTest(kind):
                self.assertEqual(attempt(kind), said)
        self.assertEqual(attempt('attach_port', 'm1'), 'attach port m1')
        self.assertEqual(attempt('sweep_up', 'rack 7'), 'sweep up rack 7')

    def test_braces_in_a_name_are_kept(self):
        self.assertEqual(attempt('status', '{other}'), 'read the status of {other}')


class Defective(MinimalDriver):
    """Raises an error that drivers must not raise, in every call."""

    def _get(self, amphora_id):
        raise ZeroDivisionError('oh')

    def _list(self, owner):
        raise ZeroDivisionError('oh')


class DefectTest(unittest.TestCase):
    def test_the_error_of_a_driver_defect_names_only_the_call_and_its_amphora(self):
        for ask, sentence, amphora_id in (
            (lambda driver: driver.get_amphora(amphora_id='m1'), 'Cannot get m1: ', 'm1'),
            (lambda driver: driver.list_amphorae(), 'Cannot list the amphorae of kiln: ', None),
        ):
            with self.subTest(sentence), self.assertRaises(AmphoraComputeError) as caught:
                ask(Defective())
            self.assertTrue(str(caught.exception).startswith(sentence), caught.exception)
            self.assertEqual(caught.exception.amphora_id, amphora_id)
