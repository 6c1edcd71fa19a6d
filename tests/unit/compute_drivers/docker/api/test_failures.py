"""Requests that an engine does not answer, on real sockets."""

import base64
import pathlib
import socket
import ssl
import tempfile
import traceback

from kiln.clock import SYSTEM_CLOCK, Deadline, deadline_scope
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Engine
from kiln.exceptions import (
    AmphoraComputeError,
    AuthenticationFailed,
    BuildOutcomeUnknown,
    ConfigurationError,
    Outcome,
    ServiceTimeout,
    ServiceUnavailable,
)
from kiln.testing.clock import VirtualClock
from tests.certificates import Authority
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer, lasting
from tests.unit.compute_drivers.docker.test_settings import options

ASKED = Asked(verb='get', subject='c1')
BUILD = Asked(verb='build', subject='web', build_key='k1', making=True)


class Answers(ScriptedCase):
    def engine(self, *answers, **given):
        conf = options(**{'url': self.serve(*answers), 'timeout': 120.0, **given})
        engine = Engine(conf, SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return engine

    def test_a_mistake_of_the_caller_is_not_blamed_on_the_engine(self):
        with self.assertRaises(KeyError):
            self.engine(VERSION).ask(ASKED, lambda _: {}['x'])

    def test_an_absent_engine_received_nothing(self):
        with self.assertRaises(ServiceUnavailable) as caught:
            # The SDK leaves a socket open if its path does not exist.
            self.engine(url='tcp://127.0.0.1:1').ask(BUILD, lambda session: session.info())
        self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)
        self.assertIn('connection refused at tcp://127.0.0.1:1.', str(caught.exception))

    def test_an_engine_that_does_not_tell_its_version_received_nothing(self):
        for asked in (ASKED, BUILD):
            with self.assertRaises(ServiceUnavailable) as caught:
                self.engine(None).ask(asked, lambda session: session.info())
            self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)

    def test_an_engine_that_refuses_to_tell_its_version_has_given_the_reason(self):
        engine = self.engine(answer(b'{"message": "not today"}', status=401))
        with self.assertRaisesRegex(AuthenticationFailed, 'not today'):
            engine.ask(ASKED, lambda session: session.info())

    def test_the_connections_of_a_closed_engine_are_closed(self):
        engine = self.engine(VERSION, lasting(answer(b'{}')))
        engine.ask(ASKED, lambda session: session.info())
        engine.close()
        self.assertTrue(self.server.left.wait(60))

    def test_each_error_has_that_of_the_library_as_its_cause(self):
        for answers, steps in (
            ((VERSION, answer(b'{"message": "no"}', status=409)), 1),
            ((VERSION, answer(b'[1]', status=409)), 2),
            ((VERSION, answer(b'<html>')), 2),
            ((VERSION, None), 1),
            ((answer(b'{"message": "no"}', status=409),), 1),
            ((answer(b'{}'),), 1),
            ((None,), 1),
        ):
            with self.subTest(answers), self.assertRaises(AmphoraComputeError) as caught:
                self.engine(*answers).ask(ASKED, lambda session: session.info())
            error = caught.exception
            for _ in range(steps):
                error = error.__cause__
                self.assertIsNotNone(error)

    def test_an_engine_with_an_old_api_is_refused(self):
        engine = self.engine(answer(b'{"ApiVersion": "1.40"}'))
        with self.assertRaises(ServiceUnavailable) as caught:
            engine.ask(ASKED, lambda session: session.info())
        self.assertIn('speaks API 1.40; kiln needs 1.41', str(caught.exception))
        # With a version in its path, an older engine would refuse the request itself.
        self.assertEqual('GET /version HTTP/1.1', self.server.requests[0])
        self.assertFalse(caught.exception.retryable)

    def test_the_connection_to_a_refused_engine_is_closed_while_its_error_is_kept(self):
        engine = self.engine(lasting(answer(b'{"ApiVersion": "1.40"}')))
        kept = None
        try:
            engine.ask(ASKED, lambda session: session.info())
        except ServiceUnavailable as exc:
            kept = exc
        closed = self.server.left.wait(10)
        traceback.clear_frames(kept.__traceback__)
        self.assertTrue(closed)

    def test_an_error_that_is_no_engine_s_has_its_status_whatever_its_json(self):
        for said, status in (
            (b'{"error": "no"}', 403),
            (b'{"message": {"a": 1}}', 404),
            (b'[1]', 404),
            (b'"no"', 500),
            (b'null', 502),
        ):
            with self.subTest(said):
                engine = self.engine(VERSION, answer(said, status=status))
                with self.assertRaises(AmphoraComputeError) as caught:
                    engine.ask(ASKED, lambda session: session.info())
                self.assertEqual(status, caught.exception.http_status)

    def test_the_time_to_wait_is_read_from_an_error_if_it_is_a_number_of_seconds(self):
        for header, seconds in (('7', 7.0), ('1.5', 1.5), ('soon', None), ('-1', None)):
            kind = f'application/json\r\nRetry-After: {header}'
            engine = self.engine(VERSION, answer(b'{}', status=429, kind=kind))
            with self.assertRaises(AmphoraComputeError) as caught:
                engine.ask(ASKED, lambda session: session.info())
            self.assertEqual(seconds, caught.exception.retry_after)

    def test_a_build_is_unknown_after_a_server_error_without_a_message(self):
        engine = self.engine(VERSION, answer(b'{"detail": "upstream"}', status=502))
        with self.assertRaises(BuildOutcomeUnknown):
            engine.ask(BUILD, lambda session: session.create_container_from_config({}, 'k1'))

    def test_a_build_is_not_made_while_the_version_is_refused(self):
        engine = self.engine(answer(b'{"message": "no"}', status=500))
        with self.assertRaises(AmphoraComputeError) as caught:
            engine.ask(BUILD, lambda session: session.create_container_from_config({}, 'k1'))
        self.assertIs(type(caught.exception), ServiceUnavailable)

    def test_a_lost_answer_leaves_the_outcome_of_a_build_unknown(self):
        engine = self.engine(VERSION, None)
        with self.assertRaises(BuildOutcomeUnknown):
            engine.ask(BUILD, lambda session: session.create_container_from_config({}, 'k1'))

    def test_a_container_that_ends_during_podman_s_inspect_is_inspected_again(self):
        for said in (b'read /proc/16440/cgroup: no such process',
                     b'open /proc/16440/cgroup: no such file or directory'):  # fmt: skip
            with self.subTest(said):
                ended = answer(b'{"message": "%s"}' % said, status=500)
                engine = self.engine(VERSION, ended, answer(b'{"Id": "c1"}'))
                found = engine.ask(ASKED, lambda session: session.inspect_container('c1'))
                self.assertEqual({'Id': 'c1'}, found)

    def test_an_inspect_is_repeated_once_and_only_for_that_error(self):
        ended = answer(b'{"message": "read /proc/1/cgroup: no such process"}', status=500)
        other = answer(b'{"message": "the disk is made of cheese"}', status=500)
        for answers in ((ended, ended), (other,), (None,)):
            engine = self.engine(VERSION, *answers, answer(b'{"Id": "c1"}'))
            with self.assertRaises(ServiceUnavailable) as caught:
                engine.ask(ASKED, lambda session: session.inspect_container('c1'))
            self.assertTrue(caught.exception.retryable)

    def test_a_late_answer_is_a_timeout(self):
        engine = self.engine(VERSION, 'hang', timeout=120.0)

        def ask(session):
            self.assertEqual(120.0, session.timeout)
            # Only after the version request, which needs more time.
            session.timeout = 0.1
            return session.info()

        with self.assertRaises(ServiceTimeout) as caught:
            engine.ask(ASKED, ask)
        self.assertIs(caught.exception.outcome, Outcome.UNKNOWN)

    def test_a_connection_that_nobody_accepts_is_waited_for_as_long_as_the_option_says(self):
        full = self.enterContext(socket.create_server(('127.0.0.1', 0), backlog=0))
        # One connection is accepted by the system itself.
        self.enterContext(socket.create_connection(full.getsockname()))
        url = f'tcp://127.0.0.1:{full.getsockname()[1]}'
        engine = self.engine(url=url, timeout=20.0, connect_timeout=0.1)
        with self.assertRaises(ServiceUnavailable) as caught:
            engine.ask(BUILD, lambda session: session.info())
        self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)
        self.assertIn('connect timeout=0.1', str(caught.exception.__cause__))

    def test_no_request_outlasts_the_deadline_of_its_caller(self):
        engine = self.engine(VERSION, answer(b'{}'), 'hang', timeout=600.0)
        engine.ask(ASKED, lambda session: session.info())
        deadline = Deadline.after(0.1, SYSTEM_CLOCK)
        with deadline_scope(deadline), self.assertRaises(ServiceTimeout):
            engine.ask(ASKED, lambda session: session.info())

    def test_a_version_is_not_waited_for_beyond_the_deadline_of_the_caller(self):
        # By a clock that stands still, so that some time is left when the request is sent.
        deadline = Deadline.after(0.1, VirtualClock())
        with deadline_scope(deadline), self.assertRaises(ServiceUnavailable) as caught:
            self.engine('hang', timeout=600.0).ask(ASKED, lambda session: session.info())
        self.assertNotIn('no time was left', str(caught.exception))

    def test_nothing_is_sent_at_the_deadline_or_after_it(self):
        for left_s in (0, -1):
            deadline = Deadline.after(left_s, VirtualClock())
            with deadline_scope(deadline), self.assertRaises(ServiceTimeout) as caught:
                self.engine().ask(ASKED, lambda session: session.info())
            self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)

    def test_a_pull_is_not_awaited_as_one_answer(self):
        progress = answer(b'{"status": "Pulling"}\n').replace(b'Length: ', b'Length: 1')
        engine = self.engine(VERSION, progress)

        def begin(session):
            with session.post(f'{session.base_url}/v1.41/images/create') as pulled:
                return next(pulled.iter_content(1))

        self.assertEqual(b'{', engine.ask(ASKED, begin))

    def test_what_is_read_piece_by_piece_is_not_awaited_as_one_answer(self):
        engine = self.engine(VERSION, answer(b'{}').replace(b'Length: ', b'Length: 1'))

        def begin(session):
            with session.get(f'{session.base_url}/v1.41/info', stream=True) as answered:
                return next(answered.iter_content(1))

        self.assertEqual(b'{', engine.ask(ASKED, begin))

    def test_an_answer_on_a_socket_of_this_host_is_limited_too(self):
        engine = self.engine(VERSION, answer(b'[' * 101 + b']' * 101))
        with self.assertRaises(ServiceUnavailable):
            engine.ask(ASKED, lambda session: session.info())

    def test_a_successful_web_page_is_not_an_answer_of_an_engine(self):
        for asked, kind in ((ASKED, ServiceUnavailable), (BUILD, BuildOutcomeUnknown)):
            engine = self.engine(VERSION, answer(b'<html>', kind='text/html'))
            with self.assertRaisesRegex(kind, 'not a container engine answered 200') as caught:
                engine.ask(asked, lambda session: session.info())
            self.assertEqual(200, caught.exception.http_status)

    def test_a_success_with_a_header_that_is_not_json_is_not_an_answer_of_an_engine(self):
        for header in ('PGh0bWw+', 'x', base64.b64encode(b'[' * 40_000).decode()):
            with self.subTest(header[:9]):
                kind = f'application/x-tar\r\nX-Docker-Container-Path-Stat: {header}'
                engine = self.engine(VERSION, answer(b'', kind=kind))
                with self.assertRaisesRegex(
                    ServiceUnavailable, 'not a container engine'
                ) as caught:
                    engine.ask(ASKED, lambda session: session.get_archive('c1', '/etc/passwd'))
                self.assertEqual(200, caught.exception.http_status)

    def test_a_web_page_instead_of_the_version_is_reported(self):
        engine = self.engine(answer(b'<html>', status=502, kind='text/html'))
        with self.assertRaises(ServiceUnavailable):
            engine.ask(ASKED, lambda session: session.info())

    def test_json_that_is_no_version_of_an_engine_is_reported(self):
        for said in (
            b'[]', b'{}', b'{"ApiVersion": "new"}', b'<html>',
            b'{"ApiVersion": "1.41", "Components": ["Engine"]}',
        ):  # fmt: skip
            with self.subTest(said):
                engine = self.engine(answer(said))
                with self.assertRaisesRegex(ServiceUnavailable, 'is not a container engine'):
                    engine.ask(ASKED, lambda session: session.info())

    def test_a_version_that_is_nested_too_deeply_is_reported(self):
        # Without a character set, and with a byte order mark, only the parser finds the depth.
        said = b'\xef\xbb\xbf' + b'[' * 100_000
        engine = self.engine(answer(said, kind='application/octet-stream'))
        with self.assertRaisesRegex(ServiceUnavailable, 'is not a container engine'):
            engine.ask(ASKED, lambda session: session.info())

    def test_the_version_is_requested_once(self):
        said = b'{"ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}'
        engine = self.engine(answer(said))
        for _ in range(2):
            self.assertTrue(engine.is_podman(ASKED))


class Tls(ScriptedCase):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.authority = Authority(folder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*self.authority.issue('engine'))

    def ask(self, said=b'{"NCPU": 2}', **given):
        """Ask an engine with TLS, which is trusted by the authority of the backend."""
        listening = socket.create_server(('127.0.0.1', 0))
        self.serve_on(listening, [VERSION, answer(said)], self.context)
        url = f'tcp://127.0.0.1:{listening.getsockname()[1]}'
        conf = options(url=url, tls_ca=str(self.authority.ca), **given)
        engine = Engine(conf, SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return engine.ask(ASKED, lambda session: session.info())

    def test_an_engine_is_trusted_by_the_authority_of_the_backend(self):
        self.assertEqual({'NCPU': 2}, self.ask())

    def test_an_answer_over_tls_is_limited_too(self):
        with self.assertRaisesRegex(ServiceUnavailable, 'nested more than 100 deep'):
            self.ask(b'[' * 101 + b']' * 101)

    def test_an_engine_of_another_authority_is_not_trusted(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        other = Authority(folder)
        self.context.load_cert_chain(*other.issue('engine'))
        with self.assertRaisesRegex(ServiceUnavailable, 'TLS failed') as caught:
            self.ask()
        self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)

    def test_an_engine_that_demands_a_certificate_gets_that_of_the_backend(self):
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.load_verify_locations(self.authority.ca)
        certificate, key = map(str, self.authority.issue('kiln'))
        self.assertEqual({'NCPU': 2}, self.ask(tls_cert=certificate, tls_key=key))

    def test_missing_files_are_reported_when_the_backend_is_opened(self):
        with self.assertRaises(ConfigurationError) as caught:
            Engine(options(tls_ca='/nonexistent/ca.pem'), SYSTEM_CLOCK)
        self.assertIn('/nonexistent/ca.pem', str(caught.exception))
        with tempfile.NamedTemporaryFile() as file:
            conf = options(tls_ca=file.name, tls_cert='/nonexistent/a.pem', tls_key=file.name)
            with self.assertRaisesRegex(ConfigurationError, "file '/nonexistent/a.pem' does not"):
                Engine(conf, SYSTEM_CLOCK)

    def test_a_certificate_needs_its_key(self):
        with tempfile.NamedTemporaryFile() as file:
            with self.assertRaises(ConfigurationError):
                Engine(options(tls_cert=file.name), SYSTEM_CLOCK)
            self.assertIsNotNone(Engine(options(tls_ca=file.name), SYSTEM_CLOCK))
