"""HTTP server that plays the machines of the kit, on loopback only."""

from __future__ import annotations

import functools
import http.server
import threading
from typing import Any

from kiln.testing.clusters.machine_bench import Request
from kiln.testing.clusters.road.machines import Machine

#: Real seconds within which a client continues what it has begun.
_SOON_S = 5.0


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
        with self._server.changed:
            self._server.known[client_port] = machine, port
            self._server.changed.notify_all()

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
        self.changed = threading.Condition()

    def played_for(self, client_port: int) -> tuple[Machine, int]:
        """Return the machine of a connection, and its port."""
        # A connection is accepted before its client can say to whom it is.
        with self.changed:
            self.changed.wait_for(lambda: client_port in self.known, _SOON_S)
        return self.known.get(client_port, (Machine(), 0))

    def process_request(self, request: Any, client_address: Any) -> None:
        serve = functools.partial(self.process_request_thread, request, client_address)
        ServerThread(target=serve, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing: a driver can end a connection early."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = _SOON_S
    protocol_version = 'HTTP/1.1'
    # A body would wait for the acknowledgement of its head.
    disable_nagle_algorithm = True

    def __getattr__(self, name: str) -> object:
        if name.startswith('do_'):
            return self._answer
        raise AttributeError(name)

    def setup(self) -> None:
        self._machine, self._port = self.server.played_for(self.client_address[1])
        if self._machine.tls is not None and (tls := self._machine.tls(self._port)) is not None:
            self.request = tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if self._machine.answer is None:
            self._respond(*self._page())
            return
        request = Request(
            port=self._port, method=self.command, path=self.path, headers=dict(self.headers),
            body=body,
        )  # fmt: skip
        response = self._machine.answer(request)
        if response is None:
            self.close_connection = True
            return
        self._respond(response.status, response.body)

    def _page(self) -> tuple[int, str]:
        pages, path = self._machine.http, self.path.partition('?')[0]
        return pages.get((self._port, path)) or pages.get((self._port, self.path), (404, ''))

    def _respond(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""
