"""Proxy to a database server that stops forwarding in the middle of a request."""

import contextlib
import selectors
import socket
import threading


class Wire:
    """Forwards data between clients and a server, until a limit of client data.

    A stopped process looks the same to its server: it sends nothing, but the connection
    is still open.
    """

    def __init__(self, port):
        self._port = port
        self._left = None
        self._listener = socket.create_server(('127.0.0.1', 0))
        self.port = self._listener.getsockname()[1]
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def fall_silent_after(self, pieces):
        """Forward this many more chunks of clients, and none afterwards."""
        self._left = pieces

    @property
    def silent(self):
        return self._left is not None and self._left < 0

    def close(self):
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(('127.0.0.1', self._port))
                self._threads.append(threading.Thread(target=self._pass_on, args=(client, server)))
                self._threads[-1].start()

    def _pass_on(self, client, server):
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            while not self._ended.is_set():
                for key, _ in ready.select(0.1):
                    said = key.fileobj.recv(1 << 16)
                    if not said:
                        return
                    if key.fileobj is client and self._is_too_much():
                        continue
                    (server if key.fileobj is client else client).sendall(said)

    def _is_too_much(self):
        if self._left is not None:
            self._left -= 1
        return self.silent
