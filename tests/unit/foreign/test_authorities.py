"""Clients over TLS: the configured authority alone counts, and the name of the host.

Findings L1 and L2: ZooKeeper's host was not checked, and a variable of the environment replaced
the authority that was configured for etcd.
"""

import contextlib
import os
import pathlib
import socket
import ssl
import tempfile
import threading
import unittest
from unittest import mock

from redis.backoff import NoBackoff
from redis.retry import Retry

from kiln.clock import SYSTEM_CLOCK, Deadline, deadline_scope
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api import client as docker_client
from kiln.compute_drivers.nova.notifications.bus import Bus
from kiln.engine.work_sources.board_clients import make_board
from kiln.engine.work_sources.opening import TlsFiles, open_board, parse
from kiln.hooks.callers.watchdog import Watchdog
from kiln.hooks.callers.webhooks import call_webhook
from kiln.hooks.hook import Webhook
from kiln.openstack import session as nova_session
from kiln.wrappers.circuit.redis import redis_storage
from tests.certificates import Authority
from tests.unit.compute_drivers.docker.test_settings import options
from tests.unit.compute_drivers.nova.written import written

#: The longest that a client takes on a busy machine; they end with the connection.
LIMIT_S = 120.0
AUTHORITIES = ('REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'SSL_CERT_FILE')
PROXIES = ('http_proxy', 'https_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY')


def board(kind, server, ca):
    where = parse(f'{kind}://127.0.0.1:{server.port}/kiln', TlsFiles(ca=ca))
    return open_board(where, owner='x', claim_s=1)


def etcd(server, ca):
    with contextlib.closing(board('etcds', server, ca)) as one:
        one.connect(print)


def zookeeper(server, ca):
    # Not connect(), which tries again for ten seconds.
    client = make_board(board('zookeepers', server, ca)._conf)._client
    client.start_async()
    server.judged.wait(LIMIT_S)
    client.stop()
    client.close()


def redis(server, ca):
    connect(make_board(board('rediss', server, ca)._conf)._client)


def circuit(server, ca):
    where = f'rediss://127.0.0.1:{server.port}?ssl_ca_certs={ca}'
    connect(redis_storage(where)('east')._client)


def connect(client):
    # Once, as other calls try again for seconds, and in the time of a busy machine.
    connection = client.connection_pool.make_connection()
    connection.retry = Retry(NoBackoff(), 0)
    connection.socket_timeout = connection.socket_connect_timeout = LIMIT_S
    connection.connect()


def nova(server, ca):
    where = f'https://127.0.0.1:{server.port}'
    session, _ = nova_session.open_session(written('auth_type = none', f'cafile = {ca}'))
    with session.session:
        session.get(where, connect_retries=0)


def docker(server, ca):
    conf = options(url=f'tcp://127.0.0.1:{server.port}', tls_ca=ca)
    engine = docker_client.Engine(conf, SYSTEM_CLOCK)
    with contextlib.closing(engine), deadline_scope(Deadline.after(LIMIT_S)):
        engine.ask(Asked.of('check', 'engine'), docker_client.Session.info)


def webhook(server, ca):
    hook = Webhook(f'https://127.0.0.1:{server.port}/', ca_file=ca)
    call_webhook(Watchdog(), hook, {'invocation': 'i-1'}, LIMIT_S)


def bus(server, ca):
    url = f'rabbit://kiln:x@127.0.0.1:{server.port}/?ssl=1&ssl_ca_file={ca}'
    one = Bus(url, exchange='nova', topic='x', on_server=print, on_up=print, on_down=print)
    one.start()
    server.judged.wait(LIMIT_S)
    one.close()


CLIENTS = {
    one.__name__: one
    for one in (zookeeper, etcd, redis, nova, docker, webhook, bus, circuit)
}  # fmt: skip
#: Sites reach their clouds through proxies; the authority is that of the cloud nevertheless.
THROUGH_PROXIES = {'nova'}
#: The client library adds the authority to those of the system, which SSL_CERT_FILE names.
BESIDE_THE_SYSTEMS = {'redis', 'circuit'}


class Listener:
    """A server with a certificate; ``heard`` is what clients sent that believed it."""

    def __init__(self, certificate, key):
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._socket = socket.create_server(('127.0.0.1', 0))
        self.port = self._socket.getsockname()[1]
        self.heard = b''
        #: Set once a client has come and gone.
        self.judged = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        # Ends when the socket is closed.
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._socket.accept()
                plain.settimeout(LIMIT_S)
                with (
                    plain,
                    contextlib.suppress(OSError),
                    self._tls.wrap_socket(plain, server_side=True) as safe,
                ):
                    self.heard += safe.recv(1000)
                self.judged.set()

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


class Authorities(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.ours, cls.others = (Authority(folder / name) for name in ('ours', 'others'))

    def believes(self, client, certificate):
        """Return True if a client that trusts our authority sends anything to a server."""
        environ = dict.fromkeys(AUTHORITIES, str(self.others.ca))
        if client in BESIDE_THE_SYSTEMS:
            del environ['SSL_CERT_FILE']
        if client not in THROUGH_PROXIES:
            environ |= dict.fromkeys(PROXIES, 'http://127.0.0.1:1')
        with (
            contextlib.closing(Listener(*certificate)) as server,
            # The environment is the real one, and put back afterwards.
            mock.patch.dict(os.environ, environ),
            # Each has errors of its own, as the server answers nothing.
            contextlib.suppress(Exception),
        ):
            CLIENTS[client](server, str(self.ours.ca))
        return bool(server.heard)

    def check(self, client):
        self.assertTrue(self.believes(client, self.ours.issue('right')), 'the right server')
        self.assertFalse(self.believes(client, self.others.issue('right')), 'of the environment')
        wrong = self.ours.issue('printer', 'printer.example')
        self.assertFalse(self.believes(client, wrong), 'another host')


def _test_of(client):
    def test(self):
        self.check(client)

    return test


for _client in CLIENTS:
    setattr(
        Authorities,
        f'test_{_client}_believes_the_configured_authority_and_the_named_host_alone',
        _test_of(_client),
    )
