"""HTTP server that plays the machines of the kit, on loopback only."""

from __future__ import annotations

import functools
import http.server
import threading
from typing import Any

from kiln.testing.clusters.road.machines import Machine


class PageServer:
    """Serves the pages of machines; each connection is to one port of one machine."""

    def __init__(self) -> None:
        self._server = _Server(('127.0.0.1', 0), _Handler)
        self.address: tuple[str, int] = self._server.server_address[:2]  # type: ignore[assignment]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name='kiln-kit-pages', daemon=True
        )
        self._thread.start()

    def plays(self, client_port: int, machine: Machine, port: int) -> None:
        """Take the machine of a connection, and its port, before a request is sent."""
        self._server.known[client_port] = machine, port

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ServerThread(threading.Thread):
    """Thread that serves one connection; what a driver waits for does not hold it up."""


class _Server(http.server.ThreadingHTTPServer):
    block_on_close = False

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.known: dict[int, tuple[Machine, int]] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        serve = functools.partial(self.process_request_thread, request, client_address)
        ServerThread(target=serve, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing: a driver can end a connection early."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = 5.0
    protocol_version = 'HTTP/1.1'

    def __getattr__(self, name: str) -> object:
        if name.startswith('do_'):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        machine, port = self.server.known.get(self.client_address[1], (Machine(), 0))
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        path = self.path.partition('?')[0]
        status, text = machine.http.get((port, path)) or machine.http.get(
            (port, self.path), (404, '')
        )
        body = text.encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""
