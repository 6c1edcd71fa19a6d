"""HTTP service on the loopback with scripted answers."""

import contextlib
import http.server
import json
import threading
import urllib.parse

from kiln.clock import SYSTEM_CLOCK


class Loopback:
    """Answers requests from a table, and records them.

    The table has ``(status, headers, body)`` or the JSON of a 200 under
    'GET /path', or a function of the query that returns one of them; any other
    request gets a 404 with a body like Nova's. The clock sets the Date of the answers.
    """

    def __init__(self, answers=(), clock=SYSTEM_CLOCK):
        self.answers = dict(answers)
        self.asked = []
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            # Whole answers: the second half of an answer would wait for the kernel's delayed ACK.
            disable_nagle_algorithm = True
            wbufsize = -1

            def answer(self):
                url = urllib.parse.urlsplit(self.path)
                size = int(self.headers.get('Content-Length', 0))
                sent = self.rfile.read(size)
                service.asked.append((f'{self.command} {url.path}', dict(self.headers), sent))
                status, headers, body = service.answer(
                    f'{self.command} {url.path}', _query(url.query)
                )
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def date_time_string(self, timestamp=None):
                return super().date_time_string(clock.time() if timestamp is None else timestamp)

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={'poll_interval': 0.01}, daemon=True
        )
        self.queries = []
        self.url = f'http://127.0.0.1:{self._server.server_port}'

    def answer(self, what, query):
        self.queries.append((what, query))
        found = self.answers.get(what)
        if callable(found):
            found = found(query)
        if found is None:
            missing = {'itemNotFound': {'code': 404, 'message': f'{what} could not be found.'}}
            found = 404, {}, missing
        if not isinstance(found, tuple):
            found = 200, {}, found
        status, headers, body = found
        if isinstance(body, str):
            return status, headers, body.encode()
        return status, {'Content-Type': 'application/json'} | headers, json.dumps(body).encode()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _query(text):
    """Return a query as a dict; what is given several times has a list."""
    found = urllib.parse.parse_qs(text)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


@contextlib.contextmanager
def listening(serve, backlog=5):
    """Yield a port on which a function serves raw connections one after another."""
    import socket

    listener = socket.create_server(('127.0.0.1', 0), backlog=backlog)
    listener.settimeout(120)
    closing = threading.Event()

    def loop():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if closing.is_set():
                    return
                connection.settimeout(120)
                serve(connection)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    try:
        yield port
    finally:
        closing.set()
        # Wake it from its accept.
        with contextlib.suppress(OSError):
            socket.create_connection(('127.0.0.1', port), timeout=1).close()
        thread.join()
        listener.close()
