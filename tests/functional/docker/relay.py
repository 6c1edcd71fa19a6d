"""TCP relay to an engine's socket, plain or over TLS."""

import contextlib
import socket
import socketserver
import threading


class Relay(socketserver.ThreadingTCPServer):
    """Forwards bytes both ways; the context decides if clients need a certificate."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path, context=None):
        super().__init__(('127.0.0.1', 0), _Visit)
        self.path, self.context = str(path), context
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def handle_error(self, request, client_address):
        """Print nothing: refused clients are part of the tests."""

    def close(self):
        self.shutdown()
        self.server_close()


class _Visit(socketserver.BaseRequestHandler):
    def handle(self):
        client = self.request
        if self.server.context is not None:
            client = self.server.context.wrap_socket(client, server_side=True)
        with client, socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.server.path)
            back = threading.Thread(target=_carry, args=(engine, client), daemon=True)
            back.start()
            _carry(client, engine)
            back.join()


def _carry(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
