"""Secrets planted in builds must not appear in anything that kiln outputs."""

import base64
import io
import json
import logging
import pickle
import tempfile
import traceback
import unittest
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from kiln.compute_drivers import validation
from kiln.compute_drivers.authoring.redaction import QuotingError
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Action, Fault
from kiln.exceptions import (
    AmphoraBuildError,
    ConfigurationError,
    InvalidBuildRequest,
    InvalidRequest,
    KilnError,
    QuotaExceeded,
    ServiceTimeout,
    UnsupportedOperation,
)
from kiln.models import Limits
from kiln.telemetry.events import Listener, Listeners
from kiln.telemetry.prometheus import PrometheusListener
from kiln.telemetry.tracing import TracingListener
from kiln.wrappers.observer import ObserverDriver
from tests.unit.memory_driver import MemoryDriver

SECRET = 'Tr0ub4dor-and-3-horses'
USER_DATA = f'#cloud-config\npassword_of_root: {SECRET}\nruncmd: [reboot]\n'
KEY = f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{SECRET} ops@east'
FILES = {'/etc/tls.pem': f'BEGIN\n{SECRET}\nEND\n', '/etc/pin': f'"{SECRET}"'}
WHOLE = {'user_data': USER_DATA, 'config_drive_files': FILES, 'keys': [KEY]}


def encoded(content):
    return base64.b64encode(content).decode()


#: Forms in which an error can quote the request that failed.
QUOTATIONS = {
    'as it is': lambda request: request.user_data.decode(),
    'as bytes': lambda request: repr(request.user_data),
    'as JSON': lambda request: json.dumps({'user_data': request.user_data.decode()}),
    'as the body sent': lambda request: json.dumps({'user_data': encoded(request.user_data)}),
    'cut off': lambda request: f'{request.user_data.decode()[:50]!r}...',
    'a line of it': lambda request: request.user_data.decode().splitlines()[1],
    'a file': lambda request: request.files[0].content.decode(),
    'a file as the body sent': lambda request: encoded(request.files[0].content),
    'a key': lambda request: request.keys[0],
    'the whole request': lambda request: f'{request!r} {request.summary()} {vars(request)}',
    'many times': lambda request: request.user_data.decode() * 500,
}


def with_note(error, note):
    error.add_note(note)
    return error


#: The errors of a driver that can carry a quotation.
CARRIERS = {
    'a defect': lambda text: KeyError(text),
    'a refusal': lambda text: QuotaExceeded(f'Cannot build: {text}'),
    'a fault': lambda text: AmphoraBuildError('Cannot build.', fault=text),
    'a configuration error': lambda text: ConfigurationError(text),
    'a missing ability': lambda text: NotImplementedError(text),
    'a timeout': lambda text: ServiceTimeout(f'No answer to {text}'),
    'a note': lambda text: with_note(ValueError('bad'), text),
    'a group': lambda text: ExceptionGroup('two failed', [ValueError(text), ValueError()]),
}  # fmt: skip


def quoting(carrier, quotation, nested):
    """Return a hook that fails in that form, directly or behind two other errors."""

    def hook(_, request):
        error = CARRIERS[carrier](QUOTATIONS[quotation](request))
        if not nested:
            raise error
        try:
            try:
                raise error
            except Exception as exc:
                raise ValueError('The client library gave up.') from exc
        except ValueError:
            # Without "from": the other error becomes its context.
            raise InvalidBuildRequest('Cannot build.')  # noqa: B904

    return hook


class Notebook(Listener):
    def __init__(self):
        self.records = []

    def call_started(self, record):
        self.records.append(repr(record))

    def call_finished(self, record):
        self.records.append(repr(record))


class Ears:
    """All visible output of kiln, as one text."""

    def __init__(self, case):
        self._log = io.StringIO()
        handler = logging.StreamHandler(self._log)
        handler.setFormatter(logging.Formatter('%(levelname)s %(name)s %(message)s %(args)s'))
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        case.addCleanup(root.setLevel, level)
        case.addCleanup(root.removeHandler, handler)
        self._spans = InMemorySpanExporter()
        provider = TracerProvider()
        case.addCleanup(provider.shutdown)
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self._registry = CollectorRegistry()
        self._notebook = Notebook()
        self.listeners = (
            PrometheusListener(self._registry),
            TracingListener(provider),
            self._notebook,
        )
        self._said = []

    def hear(self, thing):
        """Add a value or an error, in all forms in which it can be displayed."""
        self._said += [str(thing), repr(thing), f'{thing}']
        if isinstance(thing, BaseException):
            self._said += traceback.format_exception(thing)
            logging.getLogger('controller').error('It failed: %s', thing, exc_info=thing)
        if isinstance(thing, KilnError):
            self._said.append(pickle.dumps(thing, protocol=0).decode('latin-1'))
        if hasattr(thing, 'to_dict'):
            self._said.append(json.dumps(thing.to_dict()))

    def everything(self):
        spans = [span.to_json() for span in self._spans.get_finished_spans()]
        metrics = generate_latest(self._registry).decode()
        return '\n'.join(
            [self._log.getvalue(), metrics, *spans, *self._notebook.records, *self._said]
        )

    def assert_kept(self, case):
        everything = self.everything()
        for form in (SECRET, encoded(USER_DATA.encode())[20:40], encoded(SECRET.encode())[:20]):
            if form in everything:
                at = everything.index(form)
                case.fail(f'told: {everything[max(0, at - 200) : at + 60]}')


class SecretsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.ears = Ears(self)
        self.vendor = MemoryDriver()
        self.driver = ObserverDriver(self.vendor, Listeners(self.ears.listeners))

    def assertKept(self):  # noqa: N802
        self.ears.assert_kept(self)

    def failed_build(self, **arguments):
        with self.assertRaises(KilnError) as caught:
            self.driver.build(build_key='lb-7', **(arguments or WHOLE))
        return caught.exception

    def test_the_capture_of_logs_works(self):
        for thing in (SECRET, ValueError(SECRET)):
            self.ears.hear(thing)
            with self.assertRaisesRegex(AssertionError, 'told'):
                self.assertKept()

    def test_a_successful_build_reveals_nothing(self):
        self.vendor.on_hook = lambda _, request: self.ears.hear(request)
        amphora_id = self.driver.build(**WHOLE)
        self.ears.hear(self.driver.get_amphora(amphora_id=amphora_id))
        self.assertIn('kiln.build', self.ears.everything())
        self.assertKept()

    def test_the_summary_of_a_request_names_sizes_and_digests(self):
        request = validation.build_request(Limits(), {'build_key': 'lb-7', **WHOLE}, owner='kiln')
        for word in ('lb-7', '/etc/tls.pem', 'sha256=', f'user_data={len(USER_DATA)}B'):
            self.assertIn(word, request.summary())
        self.ears.hear(request.summary())
        self.ears.hear(request)
        self.assertKept()

    def test_metadata_is_not_secret_and_is_shown(self):
        request = validation.build_request(Limits(), {'metadata': {'role': 'lb'}}, owner='kiln')
        self.assertIn("'role': 'lb'", repr(request))

    def test_arguments_that_are_refused_are_not_quoted(self):
        for arguments in (
            {'user_data': USER_DATA * 2000},
            {'config_drive_files': {'/etc/tls.pem': SECRET * 2000}},
            {'config_drive_files': {'etc/tls.pem': SECRET}},
            {'config_drive_files': {'/etc/tls.pem': (SECRET, '0600', 'root')}},
            {'config_drive_files': [SECRET]},
            {'user_data': {'password': SECRET}},
            {'keys': [KEY + '\n']},
            {'keys': [KEY, KEY]},
            {'keys': [KEY + '\0']},
            {'keys': KEY},
            {'keys': [KEY * 1000]},
        ):
            with self.subTest(arguments=list(arguments)):
                error = self.failed_build(**arguments)
                self.assertIsInstance(error, InvalidRequest)
                self.ears.hear(error)
                self.assertKept()

    def test_no_error_of_a_driver_reveals_its_quotations(self):
        for carrier in CARRIERS:
            for quotation in QUOTATIONS:
                for nested in (False, True):
                    with self.subTest(carrier=carrier, quotation=quotation, nested=nested):
                        self.vendor.on_hook = quoting(carrier, quotation, nested)
                        self.ears.hear(self.failed_build())
        self.assertKept()

    def test_text_beside_a_quotation_is_kept(self):
        def refuse(_, request):
            raise QuotaExceeded(
                f'Cannot build: 10 of 10 used; sent: {request.user_data.decode()} to east.'
            )

        self.vendor.on_hook = refuse
        self.assertEqual(
            str(self.failed_build()), 'Cannot build: 10 of 10 used; sent: *** to east.'
        )

    def test_an_error_that_quotes_nothing_keeps_its_cause_untouched(self):
        cause = TimeoutError('no answer in 30 s')

        def crash(*_):
            raise cause

        self.vendor.on_hook = crash
        error = self.failed_build()
        self.assertIs(error.__cause__, cause)
        self.assertIn('TimeoutError: no answer in 30 s', str(error))

    def test_a_quoting_cause_is_replaced_by_an_error_with_its_type_and_traceback(self):
        self.vendor.on_hook = quoting('a defect', 'as it is', nested=False)
        error = self.failed_build()
        self.assertIsInstance(error.__cause__, QuotingError)
        self.assertIn('KeyError: ', str(error.__cause__))
        places = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]
        self.assertIn('_build', places)

    def test_a_missing_ability_keeps_its_class(self):
        self.vendor.on_hook = quoting('a missing ability', 'as it is', nested=False)
        self.assertIsInstance(self.failed_build(), UnsupportedOperation)

    def test_the_name_of_a_key_is_shown(self):
        def refuse(_, request):
            raise InvalidBuildRequest(f'Cannot build: key {request.keys[0]!r} not found.')

        self.vendor.on_hook = refuse
        error = self.failed_build(keys=['production-operators'], user_data=USER_DATA)
        self.assertIn("'production-operators'", str(error))

    def test_the_name_of_a_build_is_shown_even_if_its_contents_include_it(self):
        def refuse(_, request):
            quoted = request.user_data.decode()
            raise InvalidBuildRequest(f'Cannot build {request.name!r}: {quoted!r} is wrong.')

        self.vendor.on_hook = refuse
        text = f'hostname: web-front-1a2b3c\npassword: {SECRET}\n'
        error = self.failed_build(name='web-front-1a2b3c', user_data=text)
        self.assertIn("Cannot build 'web-front-1a2b3c'", str(error))
        self.assertNotIn(SECRET, str(error))

    def test_a_short_content_is_masked_as_a_whole_and_a_tiny_one_is_not(self):
        def refuse(_, request):
            raise InvalidBuildRequest(f'Cannot build with {request.user_data.decode()!r}.')

        self.vendor.on_hook = refuse
        self.assertEqual(str(self.failed_build(user_data='pin=4711')), "Cannot build with '***'.")
        self.assertEqual(str(self.failed_build(user_data='a')), "Cannot build with 'a'.")

    def test_no_error_class_shows_a_credential_in_its_text(self):
        for text in (
            f'Cannot use redis://kiln:{SECRET}@east:6379/0',
            f'The driver refuses: token={SECRET}',
            f'Sent: "Authorization": Bearer {SECRET}',
        ):
            self.ears.hear(ConfigurationError(text))
            self.ears.hear(ServiceTimeout(text, fault=text))
        self.assertKept()

    def test_circular_causes_do_not_loop(self):
        first, second = ValueError('first'), ValueError(SECRET)
        first.__cause__, second.__cause__ = second, first

        def crash(*_):
            raise first

        self.vendor.on_hook = crash
        self.ears.hear(self.failed_build())
        self.assertKept()


class NoopSecretsTest(unittest.TestCase):
    """The reference driver shows no secret in its errors, results and file."""

    def setUp(self):
        super().setUp()
        self.ears = Ears(self)
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def driver(self, *faults, **options):
        cloud = NoopCloud(str(self.folder / 'cloud.db'), faults=faults, **options)
        self.addCleanup(cloud.close)
        return ObserverDriver(NoopDriver(cloud=cloud), Listeners(self.ears.listeners))

    def assertKept(self):  # noqa: N802
        self.ears.assert_kept(self)
        for path in self.folder.iterdir():
            self.assertNotIn(SECRET.encode(), path.read_bytes(), path)

    def test_a_build_leaves_no_content_in_the_cloud_or_its_results(self):
        driver = self.driver()
        amphora_id = driver.build('vm', 'small', metadata={'role': 'no-secret'}, **WHOLE)
        for answer in (
            driver.get_amphora(amphora_id=amphora_id),
            driver.status(amphora_id),
            driver.changes(),
            driver.console_log(amphora_id),
        ):
            self.ears.hear(answer)
            self.ears.hear(getattr(answer, 'raw', None))
        written = b''.join(path.read_bytes() for path in self.folder.iterdir())
        self.assertIn(b'no-secret', written)
        self.assertKept()

    def test_no_scripted_fault_reveals_what_was_sent(self):
        # A crash ends the process, so nothing reports it.
        for action in set(Action) - {Action.CRASH}:
            with self.subTest(action):
                driver = self.driver(Fault(action=action, call='build', seconds=0.0))
                try:
                    self.ears.hear(driver.build('vm', 'small', **WHOLE))
                except KilnError as error:
                    self.ears.hear(error)
                self.assertKept()

    def test_an_unknown_key_is_refused_without_being_quoted(self):
        driver = self.driver(keypairs=['operators'])
        with self.assertRaises(InvalidBuildRequest) as caught:
            driver.build('vm', 'small', keys=[KEY])
        self.ears.hear(caught.exception)
        self.assertKept()
