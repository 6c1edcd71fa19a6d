"""TLS connections to engines on the loopback: trusted and refused peers."""

import contextlib
import http.server
import json
import logging
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from cryptography import x509

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.swarm_debian_v1.line import Refused, Silent, TlsLine, trust
from kiln.cluster_drivers.swarm_debian_v1.pki import Authority, identity

from .case import a_node

#: What the machine of a node calls its own.
ADDRESS = '192.0.2.7'
CERTIFY = Path('kiln/cluster_drivers/swarm_debian_v1/templates/certify.sh')
KEY = b'k' * 32


def authority(key=KEY):
    return Authority(key, 'c-1', 1_700_000_000.0)


def certified(folder, node, mine, *, by_address=False):
    """Make a node's certificate with its own script, in a test folder."""
    papers = mine.for_node(node, by_address=by_address)
    (folder / 'ca.pem').write_bytes(mine.certificate)
    (folder / 'authority.pem').write_bytes(papers.certificate + papers.key)
    # The machine of a test can be without any address.
    hostname = f'hostname() {{ echo {ADDRESS}; }}\n'
    script = hostname + CERTIFY.read_text().replace('/etc/kiln-swarm', str(folder))
    subprocess.run(['/bin/sh', '-c', script], check=True, capture_output=True)


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    status, content = 200, b'{}'

    def do_GET(self):
        self.server.asked.append((self.command, self.path))
        self.send_response(self.server.status)
        self.send_header('Content-Length', str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def do_POST(self):
        length = int(self.headers.get('Content-Length') or 0)
        self.server.body = json.loads(self.rfile.read(length) or b'null')
        self.do_GET()

    def log_message(self, *of):
        pass


class Lines(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.node = a_node(1, address='127.0.0.1')

    def serve(self, node, mine, clients=None):
        certified(self.folder, node, mine)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.folder / 'cert.pem', self.folder / 'key.pem')
        tls.load_verify_locations(cadata=(clients or mine).certificate.decode())
        tls.verify_mode = ssl.CERT_REQUIRED
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answers)
        server.handle_error = lambda *of: None
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.asked, server.status, server.content, server.body = [], 200, b'{}', None
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def line(self, server, node=None, mine=None):
        line = TlsLine(
            node or self.node, trust(mine or authority(), time.time()), port=server.server_port
        )
        self.addCleanup(line.close)
        return line

    def test_an_engine_is_identified_by_its_name_and_not_by_its_address(self):
        server = self.serve(self.node, authority())
        server.content = b'{"a": 1}'
        line = self.line(server)
        self.assertEqual({'a': 1}, line.ask('GET', '/info'))
        self.assertIsNone(self._posted(line, server))
        self.assertEqual([('GET', '/info'), ('POST', '/swarm/join')], server.asked)

    def _posted(self, line, server):
        server.content = b''
        answer = line.ask('POST', '/swarm/join', {'b': 2})
        self.assertEqual({'b': 2}, server.body)
        return answer

    def test_another_attempt_of_the_same_node_is_not_trusted(self):
        stray = a_node(1, attempt=2)
        server = self.serve(stray, authority())
        with self.assertRaisesRegex(Silent, 'is not the engine of this node'):
            self.line(server).ask('GET', '/info')
        self.assertEqual([], server.asked)

    def test_an_engine_of_another_cluster_is_not_trusted(self):
        server = self.serve(self.node, authority(b'x' * 32), clients=authority())
        with self.assertRaisesRegex(Silent, 'is not the engine of this node'):
            self.line(server).ask('GET', '/info')

    def test_an_engine_rejects_clients_of_another_cluster(self):
        server = self.serve(self.node, authority(), clients=authority(b'x' * 32))
        with self.assertRaises(Silent):
            self.line(server).ask('GET', '/info')
        self.assertEqual([], server.asked)

    def test_a_node_can_certify_only_its_own_server_and_no_client(self):
        mine = authority()
        other = a_node(2)
        own, others = f'DNS:{identity(self.node)}', f'DNS:{identity(other)}'
        for by_address in (False, True):
            papers = mine.for_node(self.node, by_address=by_address)
            for name, usage in ((others, 'serverAuth'), (own, 'clientAuth')):
                with self.subTest(name, usage=usage, by_address=by_address):
                    self.assertIn('verification failed', self.verified(papers, name, usage))
            self.assertIn('l.pem: OK', self.verified(papers, own))

    def test_m2_a_worker_can_certify_no_address_and_a_manager_can(self):
        mine = authority()
        for address in ('IP:10.9.9.9', 'IP:fd00::1'):
            name = f'DNS:{identity(self.node)},{address}'
            worker = mine.for_node(self.node, by_address=False)
            self.assertIn('verification failed', self.verified(worker, name))
            manager = mine.for_node(self.node, by_address=True)
            self.assertIn('l.pem: OK', self.verified(manager, name))

    def test_m2_a_person_who_trusts_a_manager_trusts_no_other_node(self):
        """Finding M2: a worker could certify any address to a person."""
        mine = authority()
        manager, other = (mine.for_node(a_node(one), by_address=True) for one in (2, 3))
        name = f'DNS:{identity(a_node(3))},IP:10.9.9.9'
        root = manager.certificate
        self.assertIn('verification failed', self.verified(other, name, root=root))
        name = f'DNS:{identity(a_node(2))},IP:10.9.9.9'
        self.assertIn('l.pem: OK', self.verified(manager, name, root=root))

    def test_m2_a_worker_names_no_address_in_its_certificate(self):
        for by_address in (False, True):
            certified(self.folder, self.node, authority(), by_address=by_address)
            leaf = x509.load_pem_x509_certificates((self.folder / 'cert.pem').read_bytes())[0]
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            self.assertEqual([identity(self.node)], names.get_values_for_type(x509.DNSName))
            addresses = map(str, names.get_values_for_type(x509.IPAddress))
            self.assertEqual([ADDRESS] if by_address else [], list(addresses))

    def test_a_certificate_that_is_made_again_is_of_the_same_key(self):
        keys, serials = set(), set()
        for _ in range(2):
            certified(self.folder, self.node, authority(), by_address=True)
            leaf, own = x509.load_pem_x509_certificates((self.folder / 'cert.pem').read_bytes())
            leaf.verify_directly_issued_by(own)
            keys.add((self.folder / 'key.pem').read_text())
            serials.add(leaf.serial_number)
        self.assertEqual((1, 2), (len(keys), len(serials)))

    def verified(self, papers, name, usage='serverAuth', root=None):
        """Return what openssl says of a certificate that a node signs for a name."""
        folder = self.folder
        (folder / 'a.pem').write_bytes(papers.certificate)
        (folder / 'a.key').write_bytes(papers.key)
        (folder / 'root.pem').write_bytes(root or authority().certificate)
        (folder / 'x').write_text(f'subjectAltName={name}\nextendedKeyUsage={usage}\n')
        purpose = 'sslserver' if usage == 'serverAuth' else 'sslclient'
        script = f"""set -e; cd {folder}
        openssl genpkey -algorithm ed25519 -out l.key
        openssl req -new -key l.key -subj /CN=l -out l.req
        openssl x509 -req -in l.req -CA a.pem -CAkey a.key -days 9 -extfile x -out l.pem
        openssl verify -partial_chain -purpose {purpose} -CAfile root.pem \\
            -untrusted a.pem l.pem
        """
        done = subprocess.run(['/bin/sh', '-c', script], capture_output=True, text=True)
        return done.stdout + done.stderr

    def test_a_refusal_has_the_message_of_the_engine(self):
        server = self.serve(self.node, authority())
        server.status = 503
        for content, told in (
            (b'{"message": "no leader."}', 'no leader'), (b'oh', 'oh'), (b'', 'no reason given'),
            (b'[]', r'\[\]'),
        ):  # fmt: skip
            server.content = content
            with self.assertRaisesRegex(Refused, f'of node {self.node.name} refuses: {told}'):
                self.line(server).ask('GET', '/info')

    def test_a_response_that_is_not_json_counts_as_no_answer(self):
        server = self.serve(self.node, authority())
        server.content = b'<html>'
        with self.assertRaisesRegex(Silent, 'not JSON'):
            self.line(server).ask('GET', '/info')

    def test_a_broken_connection_is_opened_again(self):
        server = self.serve(self.node, authority())
        line = self.line(server)
        line.ask('GET', '/info')
        line._connection.sock.shutdown(2)
        with contextlib.suppress(Silent):
            line.ask('GET', '/info')
        self.assertEqual({}, line.ask('GET', '/info'))

    def test_an_address_that_does_not_answer_is_given_up_at_the_deadline(self):
        server = http.server.HTTPServer(('127.0.0.1', 0), Answers)
        self.addCleanup(server.server_close)
        with deadline_scope(Deadline.after(0.1)), self.assertRaises(Silent):
            self.line(server).ask('GET', '/info')

    def test_private_keys_are_neither_logged_nor_shown(self):
        mine = authority()
        with self.assertNoLogs(level=logging.DEBUG):
            shown = repr(
                [
                    mine,
                    mine.for_kiln(1e9),
                    mine.for_node(self.node, by_address=True),
                    mine.for_person('me', 1e9, 1),
                ]
            )
        self.assertNotIn('PRIVATE', shown)
