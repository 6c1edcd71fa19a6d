"""A small real server to stand before, and a client that sees every byte."""

import contextlib
import http.server
import socket
import threading
import time
import unittest

import requests

from kiln.testing.proxy import FaultProxy


class Handler(http.server.BaseHTTPRequestHandler):
    """Says what it was asked; some paths are answered in their own way."""

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def handle_any(self):
        length = int(self.headers.get('Content-Length') or 0)
        if 'chunked' in self.headers.get('Transfer-Encoding', ''):
            body = b''.join(self.chunks())
        else:
            body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, self.headers.items(), body))
        answer = self.server.answers.get(self.path)
        if answer is None:
            self.answer(200, body or b'{"hello": "world"}')
        else:
            answer(self)

    def __getattr__(self, name):
        if name.startswith('do_'):
            return self.handle_any
        raise AttributeError(name)

    def chunks(self):
        while size := int(self.rfile.readline().partition(b';')[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def answer(self, status, body=b'', kind='application/json', **headers):
        self.send_response(status)
        self.send_header('Content-Type', kind)
        if status != 204:
            self.send_header('Content-Length', str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        if self.command != 'HEAD' and status != 204:
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """Remembers what it saw; ``answers`` maps a path to what answers it."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Handler)
        self.seen = []
        self.answers = {}
        self.url = f'http://127.0.0.1:{self.server_port}'

    def handle_error(self, request, client_address):
        """Say nothing: clients leave half-way here."""

    def methods(self):
        return [method for method, *_ in self.seen]


@contextlib.contextmanager
def running():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Raw:
    """A client that writes and reads bare bytes."""

    def __init__(self, url):
        host, _, port = url.partition('//')[2].partition('/')[0].partition(':')
        self.socket = socket.create_connection((host, int(port)), timeout=120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *lines, body=b''):
        self.socket.sendall('\r\n'.join([*lines, '', '']).encode('latin-1') + body)

    def read(self, size=65536):
        return self.socket.recv(size)

    def read_all(self):
        """Return all that comes until the other end closes."""
        return b''.join(iter(self.read, b''))

    def read_until(self, end):
        data = b''
        while not data.endswith(end):
            more = self.read()
            assert more, data
            data += more
        return data


class ProxyCase(unittest.TestCase):
    """A server, a proxy before it, and a client with its own connections."""

    def setUp(self):
        super().setUp()
        self.server = self.enterContext(running())
        self.proxy = self.enterContext(FaultProxy(self.server.url))
        self.client = self.enterContext(requests.Session())
        self.client.trust_env = False

    def ask(self, method='GET', path='/servers', **settings):
        settings.setdefault('timeout', 120)
        return self.client.request(method, self.proxy.url + path, **settings)

    def connections(self):
        """Return how many connections the client has made."""
        pools = self.client.get_adapter(self.proxy.url).poolmanager.pools
        return sum(pools[key].num_connections for key in pools.keys())  # noqa: SIM118

    def raw(self):
        return self.enterContext(Raw(self.proxy.url))

    def leave(self, method, status):
        """Send a request, and leave once the server has given its answer to the proxy."""
        with Raw(self.proxy.url) as client:
            client.send(f'{method} / HTTP/1.1')
            self.assertTrue(self.proxy.wait_for(1))
            end = time.monotonic() + 120
            while self.proxy.requests[0].server_status != status:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.001)
        self.assertTrue(self.proxy.settle())
