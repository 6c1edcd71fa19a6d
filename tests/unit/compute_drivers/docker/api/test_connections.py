"""Connections to an engine: how many are kept, and when they are closed."""

import contextlib
import http.server
import pathlib
import socketserver
import tempfile
import threading
import unittest

from kiln.clock import SYSTEM_CLOCK
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker.api.client import Engine
from kiln.foreign.waiting import Wait, noted_in
from tests.unit.compute_drivers.docker.test_settings import options

ASKED = Asked(verb='get', subject='c1')
#: Calls at the same time without the option max_workers.
_WORKERS = 16
#: Far longer than a call without a request takes.
_LONG_S = 60


class _Visit(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        """Log nothing."""

    def do_GET(self):
        if self.path.endswith('/version'):
            self.server.versions += 1
            self.server.meanwhile()
        body = b'{"ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Counting:
    """Counts connections, and requests for the version; ``meanwhile`` runs during these."""

    daemon_threads = True
    block_on_close = False
    opened = versions = 0

    def meanwhile(self):
        """Do nothing."""

    def process_request(self, request, client_address):
        self.opened += 1
        super().process_request(request, client_address)


class _OnTcp(_Counting, socketserver.ThreadingTCPServer):
    pass


class _OnUnix(_Counting, socketserver.ThreadingUnixStreamServer):
    pass


def hold(session):
    """Let as many requests be under way at once as there are workers."""
    url = f'{session.base_url}/v1.41/info'
    with contextlib.ExitStack() as held:
        answers = [held.enter_context(session.get(url, stream=True)) for _ in range(_WORKERS)]
        for one in answers:
            one.json()


class Case(unittest.TestCase):
    def engine(self, server, url):
        self.server = server
        self.enterContext(server)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        engine = Engine(options(url=url), SYSTEM_CLOCK)
        self.addCleanup(engine.close)
        return engine

    def on_tcp(self):
        server = _OnTcp(('127.0.0.1', 0), _Visit)
        return self.engine(server, f'tcp://127.0.0.1:{server.server_address[1]}')

    def on_unix(self):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), 'engine.sock')
        return self.engine(_OnUnix(str(path), _Visit), f'unix://{path}')


class Kept(Case):
    def test_each_worker_keeps_its_connection(self):
        for make in (self.on_tcp, self.on_unix):
            with self.subTest(make.__name__):
                engine = make()
                engine.ask(ASKED, hold)
                opened = self.server.opened
                engine.ask(ASKED, hold)
                self.assertEqual(opened, self.server.opened)


class Opened(Case):
    """What happens while the first connection is opened."""

    def during_it(self, engine, action):
        """Begin an action on another thread while the version is requested; wait for its end."""
        other = threading.Thread(target=action, daemon=True)

        def meanwhile():
            if other.ident is None:
                other.start()
                # It cannot end before the version is known, if all is well.
                other.join(0.2)

        self.server.meanwhile = meanwhile
        engine.is_podman(ASKED)
        other.join()

    def test_another_call_waits_for_it_and_requests_no_version(self):
        engine = self.on_tcp()
        self.during_it(engine, lambda: engine.is_podman(ASKED))
        self.assertEqual(1, self.server.versions)

    def test_it_waits_for_the_engine_by_its_url(self):
        engine, wait, seen = self.on_tcp(), Wait(), []
        self.server.meanwhile = lambda: seen.append(wait.whom)
        with noted_in(wait):
            engine.is_podman(ASKED)
            # So does each request after it.
            engine.ask(ASKED, lambda session: seen.append(wait.whom))
        url = f'tcp://127.0.0.1:{self.server.server_address[1]}'
        self.assertEqual(2 * [f'the engine at {url}'], seen)

    def test_a_patient_call_that_opens_its_own_delays_no_other(self):
        engine = self.on_tcp()
        engine.is_podman(ASKED)
        asked, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)
        self.server.meanwhile = lambda: [asked.set(), go.wait()]
        patient = threading.Thread(target=engine.ask_patiently, args=(ASKED, str), daemon=True)
        patient.start()
        asked.wait()
        others = threading.Thread(target=engine.ask, args=(ASKED, str), daemon=True)
        others.start()
        others.join(_LONG_S)
        self.assertFalse(others.is_alive())
        go.set()
        patient.join()

    def test_it_is_closed_if_the_engine_is_closed_meanwhile(self):
        engine = self.on_tcp()
        self.during_it(engine, engine.close)
        engine.is_podman(ASKED)
        self.assertEqual(2, self.server.versions)
