"""Connection failures over real sockets: was the request sent, and the message."""

import datetime
import pathlib
import re
import socket
import ssl
import struct
import tempfile
import unittest

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from keystoneauth1 import exceptions as ksa
from keystoneauth1.identity import V3Password
from keystoneauth1.identity.generic import Password
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.authoring.openstack_failures import no_entry, unanswered
from kiln.exceptions import (
    AuthenticationFailed,
    BuildOutcomeUnknown,
    Outcome,
    PermissionDenied,
    RateLimited,
    ServiceTimeout,
    ServiceUnavailable,
    Verdict,
)
from tests.unit.compute_drivers.nova.corpus import ANSWERS
from tests.unit.compute_drivers.nova.loopback import Loopback, listening

BUILD = Asked(verb='build', subject='web-1', build_key='k-1', making=True)
DELETE = Asked(verb='delete', subject='s-1', amphora_id='s-1')


def read_request(connection):
    """Read a request and its body to the end, as far as it arrives."""
    received = b''
    while more := connection.recv(65_536):
        received += more
        head, end, body = received.partition(b'\r\n\r\n')
        size = re.search(rb'content-length: (\d+)', head, re.IGNORECASE)
        if end and len(body) >= int(size[1] if size else 0):
            return


def hang_up(connection):
    """Let a connection end with a reset instead of a FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))


def reset(connection):
    """Close the connection as soon as data arrives, without reading it."""
    connection.recv(1, socket.MSG_PEEK)
    hang_up(connection)


class Failing(unittest.TestCase):
    def failure(self, url, *, timeout=5, verify=True, method='POST'):
        session = Session(auth=NoAuth(), verify=verify, collect_timing=False)
        self.addCleanup(session.session.close)
        with self.assertRaises(ksa.ClientException) as caught:
            session.request(url, method, json={'server': {}}, timeout=timeout, log=False)
        return caught.exception

    def not_sent(self, exc, why):
        """Check the error of a request that was never sent."""
        for asked in (BUILD, DELETE):
            error = unanswered(asked, 'compute', exc)
            self.assertIs(ServiceUnavailable, type(error), str(error))
            self.assertEqual((Outcome.NOT_APPLIED, True), (error.outcome, error.retryable))
            self.assertIs(Verdict.FAILURE, error.circuit)
            self.says(error, asked, 'Nova cannot be reached', why)

    def sent(self, exc, why, *, slow=False):
        """Check the error of a request that the service might have applied."""
        build = unanswered(BUILD, 'compute', exc)
        self.assertIs(BuildOutcomeUnknown, type(build), str(build))
        self.assertEqual((Outcome.UNKNOWN, True), (build.outcome, build.retryable))
        delete = unanswered(DELETE, 'compute', exc)
        self.assertIs(ServiceTimeout if slow else ServiceUnavailable, type(delete))
        self.assertEqual((Outcome.UNKNOWN, True), (delete.outcome, delete.retryable))
        for error in (build, delete):
            self.assertIs(Verdict.FAILURE, error.circuit)
        self.says(build, BUILD, 'Nova gave no answer', why)
        self.says(delete, DELETE, 'Nova gave no answer' + ' in time' * slow, why)

    def says(self, error, asked, what, why):
        self.assertRegex(str(error), f'^Cannot {asked.verb} {asked.subject}: {what}: {why}\\.$')
        self.assertNotIn('\n', str(error))


class NotSent(Failing):
    def test_a_refused_connection(self):
        with socket.create_server(('127.0.0.1', 0)) as closed:
            port = closed.getsockname()[1]
        self.not_sent(self.failure(f'http://127.0.0.1:{port}/'), 'connection refused')

    def test_an_unknown_host_name(self):
        # Reserved as never existing; the resolver can also report that it is offline.
        exc = self.failure('http://nova.invalid:8774/')
        self.not_sent(exc, '[a-z ]*(name|resolution|address)[a-z ]*')

    def test_an_invalid_address(self):
        for url, why in (
            ('htp://nova:8774/', ".*No connection adapters were found for 'htp://nova:8774/'"),
            ('http://:8774/', '.*Invalid URL.*'),
        ):
            with self.subTest(url):
                self.not_sent(self.failure(url), why)

    def test_a_connection_that_takes_too_long(self):
        # No connection is accepted, and the queue has room for one.
        with socket.create_server(('127.0.0.1', 0), backlog=0) as full:
            address = full.getsockname()
            waiting = []
            for _ in range(3):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(address)
                waiting.append(one)
            exc = self.failure(f'http://127.0.0.1:{address[1]}/', timeout=(0.2, 5))
            for one in waiting:
                one.close()
        self.not_sent(exc, 'it took too long')


class Sent(Failing):
    def failure_of(self, serve, **more):
        with listening(serve) as port:
            return self.failure(f'http://127.0.0.1:{port}/', **more)

    def test_an_answer_that_takes_too_long(self):
        def serve(connection):
            read_request(connection)
            # Until the client closes the connection.
            connection.recv(1)

        self.sent(self.failure_of(serve, timeout=(5, 0.2)), 'it took too long', slow=True)

    def test_a_reset_before_the_request_was_read(self):
        # The client cannot know if any of it was read; nor does it always see the
        # reset, as it might still be sending.
        why = '(connection reset by peer|Remote end closed connection.*|broken pipe)'
        self.sent(self.failure_of(reset), why)

    def test_a_reset_after_the_request_was_read(self):
        def serve(connection):
            read_request(connection)
            hang_up(connection)

        self.sent(self.failure_of(serve), 'connection reset by peer')

    def test_a_connection_closed_instead_of_an_answer(self):
        exc = self.failure_of(read_request)
        self.sent(exc, 'Remote end closed connection without response')

    def test_a_kept_alive_connection_that_was_reset_meanwhile(self):
        def serve(connection):
            read_request(connection)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
            read_request(connection)
            hang_up(connection)

        session = Session(auth=NoAuth())
        self.addCleanup(session.session.close)
        with listening(serve) as port:
            url = f'http://127.0.0.1:{port}/'
            session.get(url, log=False)
            with self.assertRaises(ksa.ClientException) as caught:
                session.post(url, log=False, json={})
        self.sent(caught.exception, 'connection reset by peer')

    def test_a_body_that_is_cut_off(self):
        def serve(connection):
            read_request(connection)
            connection.sendall(b'HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n{"server"')

        self.sent(self.failure_of(serve), r'IncompleteRead\(9 bytes read, 90 more expected\)')

    def test_an_answer_that_is_not_http(self):
        def serve(connection):
            read_request(connection)
            connection.sendall(b'SSH-2.0-OpenSSH_9.2p1\r\n')

        self.sent(self.failure_of(serve), 'SSH-2.0-OpenSSH_9.2p1')


class Certificates:
    """A server's key and self-signed certificate."""

    def __init__(self, folder, name='localhost'):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.certfile = folder / f'{name}.crt'
        self.certfile.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        keyfile = folder / f'{name}.key'
        keyfile.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certfile, keyfile)


class Tls(Failing):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.mine = Certificates(cls.folder)

    def failure_of(self, certificates, then=read_request, **more):
        def serve(connection):
            try:
                with certificates.context.wrap_socket(connection, server_side=True) as safe:
                    then(safe)
            except OSError:
                return

        with listening(serve) as port:
            return self.failure(f'https://localhost:{port}/', **more)

    def test_a_self_signed_certificate(self):
        self.not_sent(self.failure_of(self.mine), r'TLS failed \(CERTIFICATE_VERIFY_FAILED\)')

    def test_a_certificate_of_another_host(self):
        other = Certificates(self.folder, 'nova.example')
        exc = self.failure_of(other, verify=str(other.certfile))
        self.not_sent(exc, r'TLS failed \(CERTIFICATE_VERIFY_FAILED\)')

    def test_a_server_without_tls(self):
        def serve(connection):
            connection.recv(65_536)
            connection.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n')

        with listening(serve) as port:
            exc = self.failure(f'https://localhost:{port}/')
        self.not_sent(exc, r'TLS failed \([A-Z_]+\)')

    def test_a_reset_during_the_handshake(self):
        with listening(reset) as port:
            exc = self.failure(f'https://localhost:{port}/')
        self.not_sent(exc, '(connection reset by peer|TLS failed .*)')

    def test_a_handshake_that_takes_too_long(self):
        with listening(lambda connection: read_request(connection)) as port:
            exc = self.failure(f'https://localhost:{port}/', timeout=(0.2, 0.2))
        self.not_sent(exc, 'it took too long')

    def test_an_invalid_ca_file(self):
        nonsense = self.folder / 'nonsense.pem'
        nonsense.write_text('not a certificate')
        exc = self.failure_of(self.mine, verify=str(nonsense))
        self.not_sent(exc, r'TLS failed \(.*\)')

    def test_a_connection_closed_after_the_request_was_read(self):
        exc = self.failure_of(self.mine, verify=str(self.mine.certfile))
        self.sent(exc, '(TLS failed .*|Remote end closed connection.*)')

    def test_an_answer_over_tls_that_takes_too_long(self):
        def then(safe):
            read_request(safe)
            safe.recv(1)

        exc = self.failure_of(self.mine, then, verify=str(self.mine.certfile), timeout=(5, 0.2))
        self.sent(exc, 'it took too long', slow=True)


class NoToken(unittest.TestCase):
    """Keystone refuses or does not answer: the request itself was never sent."""

    def error(self, auth, asked=BUILD):
        session = Session(auth=auth)
        self.addCleanup(session.session.close)
        with self.assertRaises(ksa.ClientException) as caught:
            session.get_auth_headers()
        error = no_entry(asked, caught.exception)
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)
        self.assertEqual('k-1', error.build_key)
        self.assertRegex(str(error), r'^Cannot build web-1: .*(\.|\*)$')
        self.assertNotIn('\n', str(error))
        return error

    def refused(self, answer, headers=(), plugin=V3Password):
        recorded = ANSWERS[answer]
        body = recorded.get('body', recorded.get('text'))
        headers = {**recorded['headers'], **dict(headers)}
        with Loopback({'POST /v3/auth/tokens': (recorded['status'], headers, body)}) as keystone:
            return self.error(
                plugin(
                    f'{keystone.url}/v3', username='demo', password='wrong',
                    user_domain_name='Default', project_name='demo',
                    project_domain_name='Default',
                )
            )  # fmt: skip

    def test_wrong_credentials(self):
        error = self.refused('keystone/password_wrong')
        self.assertIs(AuthenticationFailed, type(error))
        self.assertEqual(401, error.http_status)
        self.assertEqual(
            'Cannot build web-1: Keystone refuses the credentials (401): The request you have '
            'made requires authentication.',
            str(error),
        )
        self.assertEqual(
            ANSWERS['keystone/password_wrong']['headers']['x-openstack-request-id'],
            error.request_id,
        )

    def test_an_unknown_application_credential(self):
        error = self.refused('keystone/app_credential_unknown')
        self.assertIs(AuthenticationFailed, type(error))
        self.assertIn('Could not find Application Credential', str(error))

    def test_malformed_credentials(self):
        error = self.refused('keystone/malformed')
        self.assertIs(AuthenticationFailed, type(error))
        self.assertIn("'identity' is a required property", str(error))

    def test_credentials_that_are_not_allowed_a_token(self):
        error = self.refused('keystone/policy')
        self.assertIs(PermissionDenied, type(error))
        self.assertIn('Keystone answered 403: You are not authorized', str(error))

    def test_a_url_of_another_service(self):
        for answer in ('keystone/path_wrong', 'proxies/nginx_404', 'proxies/nginx_413'):
            with self.subTest(answer):
                error = self.refused(answer)
                if answer.endswith('413'):
                    self.assertIs(RateLimited, type(error))
                    continue
                self.assertIs(ServiceUnavailable, type(error))
                self.assertFalse(error.retryable)
                self.assertTrue(str(error).endswith('Check auth_url.'), str(error))

    def test_a_keystone_that_is_down_behind_its_proxy(self):
        for answer in ('proxies/haproxy_503', 'proxies/nginx_502', 'unseen/unexpected'):
            with self.subTest(answer):
                error = self.refused(answer)
                self.assertIs(ServiceUnavailable, type(error))
                self.assertTrue(error.retryable)
                self.assertIs(Verdict.FAILURE, error.circuit)

    def test_a_keystone_that_limits_the_rate(self):
        error = self.refused('proxies/haproxy_429', {'Retry-After': '9'})
        self.assertIs(RateLimited, type(error))
        self.assertEqual((True, 9.0), (error.retryable, error.retry_after))

    def test_a_keystone_that_does_not_answer(self):
        with socket.create_server(('127.0.0.1', 0)) as closed:
            port = closed.getsockname()[1]
        for plugin, path, words in (
            (V3Password, '/v3', 'Keystone cannot be reached: connection refused.'),
            (Password, '/v3', 'Keystone cannot be reached: connection refused.'),
            (Password, '', 'Keystone cannot be reached: connection refused.'),
        ):
            with self.subTest(plugin.__name__, path=path):
                auth = plugin(f'http://127.0.0.1:{port}{path}', username='demo', password='x')
                error = self.error(auth)
                self.assertIs(ServiceUnavailable, type(error))
                self.assertTrue(error.retryable)
                self.assertIn(words, str(error))

    def test_an_auth_plugin_that_fails(self):
        error = no_entry(BUILD, ksa.AuthorizationFailure('no ticket\nof Kerberos.'))
        self.assertIs(AuthenticationFailed, type(error))
        self.assertEqual(
            'Cannot build web-1: Keystone gave no token (no ticket of Kerberos).', str(error)
        )

    def test_a_catalogue_without_the_service(self):
        for exc in (ksa.EndpointNotFound('compute has no\nendpoint.'), ksa.EmptyCatalog()):
            error = no_entry(BUILD, exc)
            self.assertIs(ServiceUnavailable, type(error))
            self.assertFalse(error.retryable)
            self.assertRegex(str(error), '^Cannot build web-1: the catalogue is not usable: .*$')

    def test_a_token_that_cannot_be_renewed_during_a_request(self):
        # The service has refused the old token, so the request was not applied.
        error = unanswered(BUILD, 'compute', ksa.Unauthorized())
        self.assertIs(AuthenticationFailed, type(error))
        self.assertIs(Outcome.NOT_APPLIED, error.outcome)

    def test_a_refusal_without_a_response(self):
        error = no_entry(BUILD, ksa.Unauthorized())
        self.assertIs(AuthenticationFailed, type(error))
        self.assertIn('refuses the credentials (401): no reason given.', str(error))


if __name__ == '__main__':
    unittest.main()
