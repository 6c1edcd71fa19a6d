import unittest

from kiln.exceptions import AmphoraComputeError, InstanceNotFoundError, UnsupportedOperation
from kiln.models import Resource
from kiln.telemetry.events import Listener, Listeners
from kiln.testing.clock import VirtualClock
from kiln.wrappers.observer import ObserverDriver
from tests.unit.memory_driver import MemoryDriver


class Notebook(Listener):
    """Records its notifications, in order."""

    def __init__(self):
        self.heard = []
        self.records = []

    def call_started(self, record):
        self.heard.append(('started', record.operation, record.error))

    def call_finished(self, record):
        self.heard.append(('finished', record.operation, type(record.error).__name__))
        self.records.append(record)


class ObserverTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.clock = VirtualClock(epoch=1000.0)
        self.vendor = MemoryDriver(self.clock)
        self.notebook = Notebook()
        self.driver = ObserverDriver(self.vendor, self.notebook)

    def last_record(self):
        return self.notebook.records[-1]

    def test_a_call_is_reported_at_its_start_and_at_its_end(self):
        self.vendor.on_hook = lambda hook, *_: self.notebook.heard.append(hook)
        self.driver.delete('id-9')
        self.assertEqual(
            self.notebook.heard,
            [('started', 'delete', None), '_delete', ('finished', 'delete', 'NoneType')],
        )

    def test_the_record_names_backend_operation_traffic_and_subject(self):
        self.driver.delete('id-9')
        record = self.last_record()
        self.assertEqual(
            (record.backend, record.operation, record.traffic, record.subject),
            ('east', 'delete', 'change', 'id-9'),
        )

    def test_a_build_is_known_by_its_key(self):
        amphora_id = self.driver.build(build_key='lb-7', user_data='hush')
        self.assertEqual(amphora_id, 'id-1')
        self.assertEqual(self.last_record().subject, 'lb-7')
        self.assertEqual(self.last_record().traffic, 'build')

    def test_a_call_about_several_or_no_objects_has_no_subject(self):
        self.driver.statuses([self.driver.build()])
        self.assertEqual(self.last_record().subject, '')
        self.driver.check()
        self.assertEqual((self.last_record().operation, self.last_record().subject), ('check', ''))

    def test_a_subject_is_never_an_object(self):
        with self.assertRaises(UnsupportedOperation):
            self.driver.delete_resource(Resource(kind='port', id='p1', owner='kiln'))
        self.assertEqual(self.last_record().subject, '')

    def test_the_duration_is_what_the_backend_took(self):
        self.vendor.on_hook = lambda *_: self.clock.advance(2.5)
        self.driver.delete('id-9')
        record = self.last_record()
        self.assertEqual((record.started_at, record.duration_s), (1000.0, 2.5))

    def test_a_step_of_the_wall_clock_does_not_change_the_duration(self):
        self.vendor.on_hook = lambda *_: (self.clock.advance(1), self.clock.step(-3600))
        self.driver.delete('id-9')
        self.assertEqual(self.last_record().duration_s, 1)

    def test_an_error_is_recorded_and_raised_unchanged(self):
        with self.assertRaises(InstanceNotFoundError) as caught:
            self.driver.status('id-9')
        self.assertIs(self.last_record().error, caught.exception)

    def test_a_defect_of_the_driver_is_recorded_as_kilns_error(self):
        def crash(*_):
            raise KeyError('flavor')

        self.vendor.on_hook = crash
        with self.assertRaises(AmphoraComputeError):
            self.driver.status('id-9')
        self.assertIs(type(self.last_record().error), AmphoraComputeError)

    def test_an_interrupted_call_is_still_reported_as_ended(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        self.vendor.on_hook = interrupt
        with self.assertRaises(KeyboardInterrupt):
            self.driver.delete('id-9')
        self.assertIsInstance(self.last_record().error, KeyboardInterrupt)

    def test_deleting_a_missing_amphora_is_not_an_error(self):
        def gone(*_):
            raise InstanceNotFoundError('Cannot delete: gone.')

        self.vendor.on_hook = gone
        self.driver.delete('id-9')
        self.assertIsNone(self.last_record().error)

    def test_a_request_refused_by_validation_is_not_a_call(self):
        with self.assertRaises(AmphoraComputeError):
            self.driver.build(amphora_type='toaster')
        self.assertEqual(self.notebook.heard, [])

    def test_each_call_has_its_own_notes(self):
        self.driver.delete('id-1')
        self.last_record().notes['span'] = object()
        self.driver.delete('id-1')
        self.assertEqual(self.last_record().notes, {})

    def test_a_listener_that_fails_does_not_become_the_result(self):
        class Broken(Listener):
            def call_started(self, record):
                raise RuntimeError('no disk')

            def call_finished(self, record):
                raise RuntimeError('no disk')

        driver = ObserverDriver(MemoryDriver(), Listeners([Broken(), self.notebook]))
        with self.assertLogs('kiln.telemetry.events', 'ERROR'):
            self.assertEqual(driver.build(), 'id-1')
        self.assertEqual(len(self.notebook.heard), 2)
