"""Webhooks over real HTTP on loopback, with and without TLS."""

import contextlib
import datetime
import http.server
import ipaddress
import json
import ssl
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kiln.hooks.callers.watchdog import Watchdog
from kiln.hooks.callers.webhooks import MAX_DOCUMENT, call_webhook, sign
from kiln.hooks.hook import Webhook
from kiln.hooks.replies import MAX_ANSWER, Answer, Reply
from kiln.testing.clock import VirtualClock
from tests.functional.hooks.programs import ProgramCase

DOCUMENT = {'point': 'pre_create', 'invocation': 'key', 'cluster': {'name': 'Größe'}}


class Hooked(http.server.BaseHTTPRequestHandler):
    """Sends the answer set by the test, and records requests."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.server.requests.append((self.path, dict(self.headers), body))
        status, headers, content, pause = self.server.answer
        pause.wait()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)

    def log_message(self, *args):
        pass


class WebhookCase(ProgramCase):
    def setUp(self):
        super().setUp()
        self.server = self.enterContext(http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hooked))
        self.server.requests = []
        self.pause = threading.Event()
        self.pause.set()
        self.answer(200, {'status': 'Success'})
        # Cleanup order: release waiting requests, stop the server, then close it.
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.pause.set)

    def answer(self, status, content=b'', **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = {name.replace('_', '-'): value for name, value in headers.items()}
        self.server.answer = (status, headers, content, self.pause)

    def call(self, *, scheme='http', path='/kiln?site=a', document=None, timeout_s=300.0, **more):
        url = f'{scheme}://127.0.0.1:{self.server.server_port}{path}'
        return call_webhook(
            Watchdog(), Webhook(url, **more), document or DOCUMENT, timeout_s,
            clock=VirtualClock(epoch=1_700_000_000.5),
        )  # fmt: skip


class Posted(WebhookCase):
    def test_000_8_one_json_document_is_posted_with_a_key(self):
        self.assertEqual(Answer.ok(), self.call())
        ((path, headers, body),) = self.server.requests
        self.assertEqual('/kiln?site=a', path)
        self.assertEqual(DOCUMENT, json.loads(body))
        self.assertEqual(
            ('key', 'application/json', '1700000000'),
            (headers['Idempotency-Key'], headers['Content-Type'], headers['Kiln-Timestamp']),
        )
        self.assertNotIn('Kiln-Signature', headers)

    def test_a_signature_covers_time_and_body(self):
        file = self.folder / 'secret'
        secret = b'hunter2 and as much'
        file.write_bytes(secret + b'\n')
        file.chmod(0o600)
        self.call(secret_file=str(file))
        ((_, headers, body),) = self.server.requests
        wanted = sign(secret, '1700000000', body)
        self.assertEqual(f'sha256={wanted}', headers['Kiln-Signature'])
        self.assertNotEqual(wanted, sign(secret, '1700000001', body))
        self.assertNotEqual(wanted, sign(secret, '1700000000', body + b' '))
        self.assertNotIn(b'hunter2', body + str(headers).encode())

    def test_nothing_is_sent_if_the_secret_cannot_be_read(self):
        answer = self.call(secret_file=str(self.folder / 'none'))
        self.assertIs(Reply.FAILED, answer.reply)
        self.assertEqual([], self.server.requests)

    def test_nothing_is_sent_with_a_secret_that_is_short_or_open_to_others(self):
        """Finding L3: its mode was judged when it was loaded alone, and it could be empty."""
        file = self.folder / 'secret'
        for content, mode, why in (
            ('', 0o600, 'fewer than 16 bytes'),
            ('x' * 15 + '\n', 0o600, 'fewer than 16 bytes'),
            ('x' * 16, 0o644, 'other users can read it'),
            ('x' * 16, 0o602, 'other users can change'),
        ):
            file.write_text(content)
            file.chmod(mode)
            answer = self.call(secret_file=str(file))
            self.assertIs(Reply.FAILED, answer.reply)
            self.assertIn(why, str(answer))
        self.assertEqual([], self.server.requests)

    def test_a_document_that_is_too_large_is_not_sent(self):
        answer = self.call(document=DOCUMENT | {'more': 'x' * MAX_DOCUMENT})
        self.assertIn('more than', answer.message)
        self.assertEqual([], self.server.requests)

    def test_a_url_without_a_path_means_the_root(self):
        self.call(path='')
        self.assertEqual('/', self.server.requests[0][0])


class Answered(WebhookCase):
    def test_the_response_is_the_result(self):
        later = {'status': 'Success', 'message': 'wait', 'retryAfterSeconds': 7}
        for status, content, headers, wanted in (
            (200, {'status': 'Success', 'message': 'made it'}, {}, Answer.ok('made it')),
            (200, later, {}, Answer.later('wait', 7.0)),
            (200, {'status': 'Failure', 'message': 'no'}, {}, Answer.failed('no')),
            (204, b'', {}, Answer.ok()),
            (503, b'', {'Retry_After': '9'}, Answer.later('it is not ready (HTTP 503)', 9.0)),
            (429, b'', {}, Answer.later('it is not ready (HTTP 429)')),
            (503, later, {'Retry_After': '9'}, Answer.later('wait', 7.0)),
            (500, b'oops', {}, Answer.failed('it refused (HTTP 500)')),
            (403, {'status': 'Failure', 'message': 'no'}, {},
             Answer.failed('it refused (HTTP 403): no')),
            (200, b'', {}, Answer.failed('its answer cannot be used: it is not JSON')),
        ):  # fmt: skip
            with self.subTest(status=status, content=content):
                self.answer(status, content, **headers)
                self.assertEqual(wanted, self.call())

    def test_a_redirect_is_not_followed(self):
        for status in (301, 302, 307, 308):
            self.answer(status, Location=f'http://127.0.0.1:{self.server.server_port}/other')
            self.assertIn('redirect', self.call().message)
        self.assertEqual({'/kiln?site=a'}, {path for path, _, _ in self.server.requests})

    def test_a_response_that_is_too_large_is_a_failure(self):
        self.answer(200, b' ' * (MAX_ANSWER + 1))
        self.assertIn('more than', self.call().message)

    def test_a_slow_server_is_a_failure_at_the_timeout(self):
        self.pause.clear()
        # The server responds only at the end of the test.
        answer = self.call(timeout_s=0.2)
        self.assertRegex(answer.message, 'did not answer')

    def test_an_unreachable_server_is_a_failure(self):
        answer = call_webhook(Watchdog(), Webhook('http://127.0.0.1:1/'), DOCUMENT, 300.0)
        self.assertRegex(answer.message, 'did not answer: .*refused')


class Encrypted(WebhookCase):
    def setUp(self):
        super().setUp()
        self.certificate = self.folder / 'cert.pem'
        self.certificate.write_bytes(self_signed())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.server.handle_error = lambda *_: None

    def test_a_server_with_a_trusted_certificate_is_called(self):
        answer = self.call(scheme='https', ca_file=str(self.certificate))
        self.assertEqual(Answer.ok(), answer)

    def test_nothing_is_sent_to_an_untrusted_server(self):
        answer = self.call(scheme='https')
        self.assertRegex(answer.message, 'certificate verify failed')
        self.assertEqual([], self.server.requests)


def self_signed():
    """Return a certificate for 127.0.0.1 with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, 'a test')])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address('127.0.0.1'))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ) + certificate.public_bytes(serialization.Encoding.PEM)
