"""A scripted engine on a real socket."""

import socket
import tempfile
import threading
import unittest
from pathlib import Path

_VERSION = b'{"ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}'


class Server:
    """Gives the next of its answers to each request; None closes the connection."""

    def __init__(self, path, answers):
        self.answers = list(answers)
        self.requests = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while self.answers:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                self.requests.append(client.recv(65536).partition(b'\r\n')[0].decode())
                answer = self.answers.pop(0)
                if answer == 'hang':
                    client.recv(1)
                elif answer is not None:
                    client.sendall(answer)

    def close(self):
        # A closed socket does not wake a thread in accept; a connection does.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(120)


def answer(body, status=200, kind='application/json'):
    head = (
        f'HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n'
        'Connection: close\r\n\r\n'
    )
    return head.encode() + body


#: The answer to the first request of every client.
VERSION = answer(_VERSION)


class ScriptedCase(unittest.TestCase):
    """A test with one scripted engine; the last one is ``server``."""

    def serve(self, *answers):
        """Start an engine with these answers; return its URL."""
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), 'engine.sock')
        if answers:
            self.server = Server(path, answers)
            self.addCleanup(self.server.close)
        return f'unix://{path}'
