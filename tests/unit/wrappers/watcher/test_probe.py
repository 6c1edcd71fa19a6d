"""Probes, against real sockets on loopback."""

import contextlib
import http.server
import os
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from kiln.exceptions import InvalidRequest
from kiln.models import Address, Amphora, State
from kiln.wrappers.watcher.probe import HttpProbe, NotReady, TcpProbe, parse_probe


def amphora(*addresses):
    return Amphora(
        id='a',
        name='a',
        state=State.ACTIVE,
        addresses=tuple(Address(address=address) for address in addresses),
    )


HERE = amphora('127.0.0.1')


@contextlib.contextmanager
def listening(address='127.0.0.1'):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        yield server.getsockname()[1]


def closed_port():
    with listening() as port:
        return port


class Site(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, and records each request."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers['Host']))
        status = self.path.strip('/')
        self.send_response(int(status) if status.isdigit() else 200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address='127.0.0.1'):
        self.address_family = socket.AF_INET6 if ':' in address else socket.AF_INET
        self.asked = []
        super().__init__((address, 0), Site)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()


class TcpProbeTest(unittest.TestCase):
    def test_an_accepting_port_is_ready(self):
        with listening() as port:
            self.assertTrue(TcpProbe(port)(HERE))

    def test_a_refusing_port_is_not_ready_and_the_reason_is_kept(self):
        port = closed_port()
        with self.assertRaisesRegex(NotReady, rf'127\.0\.0\.1:{port}: .*refused'):
            TcpProbe(port)(HERE)

    def test_one_serving_address_is_enough(self):
        with listening('127.0.0.2') as port:
            self.assertTrue(TcpProbe(port)(amphora('127.0.0.1', '127.0.0.2')))

    def test_if_no_address_serves_all_reasons_are_given(self):
        port = closed_port()
        with self.assertRaisesRegex(NotReady, r'127\.0\.0\.1:.*; 127\.0\.0\.3:'):
            TcpProbe(port)(amphora('127.0.0.1', '127.0.0.3'))

    def test_an_amphora_without_an_address_is_not_ready(self):
        with self.assertRaisesRegex(NotReady, 'has no address'):
            TcpProbe(22)(amphora())

    def test_ipv6_addresses_are_probed_and_written_in_brackets(self):
        with listening('::1') as port:
            self.assertTrue(TcpProbe(port)(amphora('::1')))
        with self.assertRaisesRegex(NotReady, rf'\[::1\]:{port}:'):
            TcpProbe(port)(amphora('::1'))

    def test_an_unanswered_probe_ends_with_the_timeout(self):
        with socket.socket() as full:
            full.bind(('127.0.0.1', 0))
            full.listen(0)
            port = full.getsockname()[1]
            # The backlog of a socket that never accepts is soon full; then nothing answers.
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:
                self.addCleanup(one.close)
                one.setblocking(False)
                one.connect_ex(('127.0.0.1', port))
            with self.assertRaisesRegex(NotReady, 'timed out'):
                TcpProbe(port, timeout_s=0.1)(HERE)

    def test_invalid_arguments_are_refused(self):
        for arguments in (
            (0,), (65536,), ('22',), (None,), (True,), (22.5,),
            (22, 0), (22, '3'), (22, None), (22, float('nan')), (22, float('inf')),
        ):  # fmt: skip
            with self.subTest(arguments), self.assertRaises(InvalidRequest):
                TcpProbe(*arguments)


class HttpProbeTest(unittest.TestCase):
    def test_an_accepted_status_is_ready_and_a_redirect_is_accepted(self):
        with Server() as server:
            port = server.server_port
            for path in ('/', '/200', '/302'):
                self.assertTrue(HttpProbe(port, path)(HERE), path)
            self.assertEqual([('/', f'127.0.0.1:{port}')], server.asked[:1])
            self.assertEqual(3, len(server.asked))

    def test_another_status_is_not_ready_and_the_reason_is_kept(self):
        with Server() as server:
            port = server.server_port
            with self.assertRaisesRegex(
                NotReady, rf'http://127\.0\.0\.1:{port}/503: answered 503'
            ):
                HttpProbe(port, '/503')(HERE)

    def test_the_accepted_statuses_can_be_set(self):
        with Server() as server:
            self.assertTrue(HttpProbe(server.server_port, '/503', statuses={503})(HERE))
            with self.assertRaises(NotReady):
                HttpProbe(server.server_port, '/200', statuses={503})(HERE)

    def test_a_refused_connection_and_an_invalid_answer_are_not_ready(self):
        port = closed_port()
        with self.assertRaisesRegex(NotReady, 'refused'):
            HttpProbe(port)(HERE)
        with socket.create_server(('127.0.0.1', 0)) as server:
            threading.Thread(target=self.talk_nonsense, args=(server,), daemon=True).start()
            with self.assertRaisesRegex(NotReady, 'SSH-2.0'):
                HttpProbe(server.getsockname()[1])(HERE)

    def talk_nonsense(self, server):
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b'SSH-2.0-OpenSSH_9.6\r\n\r\n')

    def test_an_unanswered_probe_ends_with_the_timeout(self):
        with (
            listening() as port,
            self.assertRaisesRegex(NotReady, rf':{port}/: .*timed out'),
        ):
            HttpProbe(port, timeout_s=0.1)(HERE)

    def test_ipv6_addresses_are_probed_and_written_in_brackets(self):
        with Server('::1') as server:
            port = server.server_port
            self.assertTrue(HttpProbe(port)(amphora('::1')))
            self.assertEqual([('/', f'[::1]:{port}')], server.asked)

    def test_proxies_of_the_environment_are_not_used(self):
        os.environ['http_proxy'] = f'http://127.0.0.1:{closed_port()}'
        self.addCleanup(os.environ.pop, 'http_proxy')
        with Server() as server:
            self.assertTrue(HttpProbe(server.server_port)(HERE))

    def test_https_accepts_an_unknown_certificate(self):
        with tempfile.NamedTemporaryFile() as pem, Server() as server:
            certificate = subprocess.run(
                ['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=new',
                 '-keyout', pem.name],
                check=True, capture_output=True,
            ).stdout  # fmt: skip
            pem.seek(0, os.SEEK_END)
            pem.write(certificate)
            pem.flush()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem.name)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            self.assertTrue(HttpProbe(server.server_port, scheme='https')(HERE))

    def test_invalid_arguments_are_refused(self):
        for more in (
            {'path': 'health'},
            {'path': '/a b'},
            {'path': '/a\r\nX: y'},
            {'path': '/ü'},
            {'path': 5},
            {'statuses': 200},
            {'scheme': 'ftp'},
            {'timeout_s': 0},
        ):
            with self.subTest(more), self.assertRaises(InvalidRequest):
                HttpProbe(80, **more)


class ParseTest(unittest.TestCase):
    def test_each_form_is_parsed_to_its_probe(self):
        for text, probe in {
            'tcp:22': TcpProbe(22),
            'http:8080': HttpProbe(8080),
            'http:8080/health?full=1': HttpProbe(8080, '/health?full=1'),
            'https:8443/a/b': HttpProbe(8443, '/a/b', scheme='https'),
        }.items():
            self.assertEqual(probe, parse_probe(text))

    def test_anything_else_is_refused_with_the_valid_forms(self):
        for text in ('', 'tcp', 'tcp:', 'tcp:ssh', 'tcp:22/', 'udp:53', '22', 'http:/x', 'tcp:²'):
            with self.subTest(text), self.assertRaisesRegex(InvalidRequest, 'tcp:22, http:8080'):
                parse_probe(text)

    def test_an_invalid_port_is_refused_by_its_number(self):
        with self.assertRaisesRegex(InvalidRequest, '70000'):
            parse_probe('tcp:70000')
