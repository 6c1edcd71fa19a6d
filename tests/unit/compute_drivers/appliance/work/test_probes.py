"""Probes pass or report why not, within their time-out, whatever the server does."""

import contextlib
import datetime
import pathlib
import socket
import ssl
import tempfile
import threading
import time
import unittest

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kiln.compute_drivers.appliance.work import probes
from tests.conformance.yard import free_port
from tests.unit.compute_drivers.appliance.samples import machine


class Server(contextlib.AbstractContextManager):
    """Answers each connection with the same pieces, pausing between them."""

    def __init__(self, *pieces, pause_s=0.0, tls=None):
        self._socket = socket.create_server(('127.0.0.1', 0))
        self.port = self._socket.getsockname()[1]
        self._pieces, self._pause_s, self._tls = pieces, pause_s, tls
        self.asked = b''
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while True:
            try:
                stream, _ = self._socket.accept()
            except OSError:
                return
            with contextlib.ExitStack() as stack:
                stack.enter_context(contextlib.suppress(OSError))
                stack.enter_context(stream)
                if self._tls:
                    stream = stack.enter_context(self._tls.wrap_socket(stream, server_side=True))
                self.asked = stream.recv(4096)
                for piece in self._pieces:
                    stream.sendall(piece)
                    if self._over.wait(self._pause_s):
                        return


def certificate(path):
    """Write a key and its self-signed certificate into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'localhost')])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, plain)
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Probes(unittest.TestCase):
    def ask(self, probe, *, address='127.0.0.1', timeout_s=5.0):
        one = machine(f'probe = {probe}\n', address)
        return probes.ask(one, one.probe, timeout_s)

    def http(self, *pieces, more='', **given):
        with Server(*pieces, pause_s=given.pop('pause_s', 0.0)) as server:
            url = f'http://{{address}}:{server.port}/up?deep=1'
            ended = self.ask(f'{{http = "{url}"{more}}}', **given)
            self.asked = server.asked
        return ended

    def test_an_open_port_passes(self):
        with Server() as server:
            self.assertTrue(self.ask(f'{{tcp = {server.port}}}').ok)

    def test_a_closed_port_fails_with_the_reason(self):
        ended = self.ask(f'{{tcp = {free_port()}}}')
        self.assertEqual((False, 'Connection refused'), (ended.ok, ended.words))

    def test_an_unknown_host_name_fails(self):
        ended = self.ask('{tcp = 22}', address='nowhere.invalid')
        self.assertFalse(ended.ok)
        self.assertTrue(ended.words)
        self.assertFalse(self.ask('{tcp = 22}', address='a' * 70).ok)

    def test_what_follows_the_first_line_is_not_waited_for(self):
        self.assertTrue(self.http(b'HTTP/1.1 200 OK\r\n', pause_s=600.0, timeout_s=60.0).ok)
        ended = self.http(b'x' * 10_000, pause_s=600.0, timeout_s=60.0)
        self.assertEqual('the answer is not HTTP', ended.words)

    def test_any_2xx_status_passes_and_the_request_is_valid(self):
        ended = self.http(b'HTTP/1.1 204 No Content\r\n\r\n')
        self.assertEqual((True, 'status 204'), (ended.ok, ended.words))
        self.assertRegex(
            self.asked,
            rb'^GET /up\?deep=1 HTTP/1.1\r\nHost: 127.0.0.1:\d+\r\nConnection: close\r\n',
        )

    def test_a_url_without_a_path_asks_for_the_root(self):
        with Server(b'HTTP/1.1 200 OK\r\n\r\n') as server:
            self.ask(f'{{http = "http://{{address}}:{server.port}"}}')
        self.assertTrue(server.asked.startswith(b'GET / HTTP/1.1\r\n'))

    def test_only_the_expected_status_passes_if_one_is_set(self):
        for status, passes in ((401, True), (200, False)):
            said = f'HTTP/1.0 {status} Whatever\r\n\r\n'.encode()
            self.assertIs(passes, self.http(said, more=', status = 401').ok)

    def test_other_statuses_fail(self):
        for status in (199, 300, 302, 404, 503):
            ended = self.http(f'HTTP/1.1 {status} No\r\n\r\n'.encode())
            self.assertEqual((False, f'status {status}'), (ended.ok, ended.words))

    def test_an_answer_that_is_not_http_fails(self):
        for said in (b'SSH-2.0-OpenSSH\r\n', b'HTTP/1.1 20', b'', b'x' * 20_000):
            self.assertEqual('the answer is not HTTP', self.http(said).words)

    def test_an_answer_in_pieces_passes(self):
        self.assertTrue(self.http(b'HT', b'TP/1.1 200', b' OK\r\n', pause_s=0.01).ok)

    def test_an_endless_slow_answer_ends_at_the_timeout(self):
        started = time.monotonic()
        ended = self.http(*[b'H'] * 1000, pause_s=0.05, timeout_s=0.3)
        self.assertLess(time.monotonic() - started, 25.0)
        self.assertEqual('no answer within 0.3 s', ended.words)

    def test_a_missing_answer_ends_at_the_timeout(self):
        ended = self.http(b'', pause_s=30.0, timeout_s=0.1)
        self.assertEqual('no answer within 0.1 s', ended.words)

    def test_a_server_without_tls_fails_a_tls_probe(self):
        with Server(b'hello') as server:
            url = f'https://{{address}}:{server.port}/'
            for more in ('', ', insecure = true'):
                ended = self.ask(f'{{http = "{url}"{more}}}')
                self.assertFalse(ended.ok)
                self.assertTrue(ended.words)

    def test_a_self_signed_certificate_passes_only_if_allowed(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(pathlib.Path(folder, 'server.pem')))
        with Server(b'HTTP/1.1 200 OK\r\n\r\n', tls=context) as server:
            url = f'https://{{address}}:{server.port}/'
            ended = self.ask(f'{{http = "{url}"}}')
            self.assertFalse(ended.ok)
            self.assertIn('certificate', ended.words)
            self.assertTrue(self.ask(f'{{http = "{url}", insecure = true}}').ok)

    def test_an_ipv6_address_is_put_in_brackets(self):
        ended = self.ask(f'{{http = "http://{{address}}:{free_port()}/"}}', address='::1')
        self.assertFalse(ended.ok)

    def test_a_timeout_of_zero_is_no_answer(self):
        self.assertIn('no answer', self.ask('{tcp = 22}', timeout_s=0.0).words)
