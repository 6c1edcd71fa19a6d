"""Requests that an engine does not answer, on real sockets."""

import tempfile
import unittest

from kiln.clock import SYSTEM_CLOCK, Deadline, deadline_scope
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Engine
from kiln.exceptions import (
    BuildOutcomeUnknown,
    ConfigurationError,
    Outcome,
    ServiceTimeout,
    ServiceUnavailable,
)
from tests.unit.compute_drivers.docker.scripted import VERSION, ScriptedCase, answer
from tests.unit.compute_drivers.docker.test_settings import options

ASKED = Asked(verb='get', subject='c1')
BUILD = Asked(verb='build', subject='web', build_key='k1', making=True)


class Answers(ScriptedCase):
    def engine(self, *answers, **given):
        conf = options(**{'url': self.serve(*answers), 'timeout': 120.0, **given})
        engine = Engine(conf, SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return engine

    def test_an_absent_engine_received_nothing(self):
        with self.assertRaises(ServiceUnavailable) as caught:
            # The SDK leaves a socket open if its path does not exist.
            self.engine(url='tcp://127.0.0.1:1').ask(BUILD, lambda session: session.info())
        self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)
        self.assertIn('connection refused', str(caught.exception))

    def test_an_engine_with_an_old_api_is_refused(self):
        engine = self.engine(answer(b'{"ApiVersion": "1.40"}'))
        with self.assertRaises(ServiceUnavailable) as caught:
            engine.ask(ASKED, lambda session: session.info())
        self.assertIn('speaks API 1.40; kiln needs 1.41', str(caught.exception))
        self.assertFalse(caught.exception.retryable)

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
        for answers in ((ended, ended), (other,)):
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

    def test_no_request_outlasts_the_deadline_of_its_caller(self):
        engine = self.engine(VERSION, answer(b'{}'), 'hang', timeout=600.0)
        engine.ask(ASKED, lambda session: session.info())
        deadline = Deadline.after(0.1, SYSTEM_CLOCK)
        with deadline_scope(deadline), self.assertRaises(ServiceTimeout):
            engine.ask(ASKED, lambda session: session.info())

    def test_nothing_is_sent_after_the_deadline(self):
        deadline = Deadline.after(-1, SYSTEM_CLOCK)
        with deadline_scope(deadline), self.assertRaises(ServiceTimeout) as caught:
            self.engine().ask(ASKED, lambda session: session.info())
        self.assertIs(caught.exception.outcome, Outcome.NOT_APPLIED)

    def test_a_successful_web_page_is_not_an_answer_of_an_engine(self):
        engine = self.engine(VERSION, answer(b'<html>', kind='text/html'))
        with self.assertRaises(ServiceUnavailable):
            engine.ask(ASKED, lambda session: session.info())

    def test_a_web_page_instead_of_the_version_is_reported(self):
        engine = self.engine(answer(b'<html>', status=502, kind='text/html'))
        with self.assertRaises(ServiceUnavailable):
            engine.ask(ASKED, lambda session: session.info())

    def test_the_version_is_requested_once(self):
        said = b'{"ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]}'
        engine = self.engine(answer(said))
        for _ in range(2):
            self.assertTrue(engine.is_podman(ASKED))


class Tls(unittest.TestCase):
    def test_missing_files_are_reported_when_the_backend_is_opened(self):
        with self.assertRaises(ConfigurationError) as caught:
            Engine(options(tls_ca='/nonexistent/ca.pem'), SYSTEM_CLOCK)
        self.assertIn('/nonexistent/ca.pem', str(caught.exception))

    def test_a_certificate_needs_its_key(self):
        with tempfile.NamedTemporaryFile() as file:
            with self.assertRaises(ConfigurationError):
                Engine(options(tls_cert=file.name), SYSTEM_CLOCK)
            self.assertIsNotNone(Engine(options(tls_ca=file.name), SYSTEM_CLOCK))
