"""A scripted engine on a real socket."""

import contextlib
import socket
import tempfile
import threading
import unittest
from pathlib import Path

_LAST = b'Connection: close\r\n'
_VERSION = b'{"ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}'


class Server:
    """Gives the next of its answers to each request; None closes the connection."""

    def __init__(self, listening, answers, tls=None):
        self.answers = list(answers)
        #: The first line of each request, and its body.
        self.requests, self.bodies = [], []
        #: Set once a client has closed a connection that could be used again.
        self.left = threading.Event()
        self.socket, self.tls = listening, tls
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        # Requests after the last answer are refused at once.
        with self.socket, contextlib.suppress(OSError):
            while self.answers:
                client, _ = self.socket.accept()
                if self.tls is not None:
                    client = self.tls.wrap_socket(client, server_side=True)
                with client:
                    self.receive(client)
                    self.reply(client, self.answers.pop(0))

    def receive(self, client):
        length = 0
        with client.makefile('rb') as request:
            first = request.readline()
            while (line := request.readline()).strip():
                name, _, value = line.partition(b':')
                length = int(value) if name.lower() == b'content-length' else length
            self.bodies.append(request.read(length))
        self.requests.append(first.strip().decode())

    def reply(self, client, answer):
        if answer == 'hang':
            client.recv(1)
        elif answer is not None:
            client.sendall(answer)
            if _LAST not in answer:
                client.recv(1)
                self.left.set()

    def close(self):
        # A closed socket does not wake a thread in accept; a connection does.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(120)


def answer(body, status=200, kind='application/json'):
    head = f'HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n'
    return head.encode() + _LAST + b'\r\n' + body


def lasting(answer):
    """Return an answer after which the client decides if the connection is used again."""
    return answer.replace(_LAST, b'')


#: The answer to the first request of every client.
VERSION = answer(_VERSION)


class ScriptedCase(unittest.TestCase):
    """A test with one scripted engine; the last one is ``server``."""

    def serve(self, *answers):
        """Start an engine with these answers; return its URL."""
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), 'engine.sock')
        if answers:
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(path))
            listening.listen()
            self.serve_on(listening, answers)
        return f'unix://{path}'

    def serve_on(self, listening, answers, tls=None):
        self.server = Server(listening, answers, tls)
        self.addCleanup(self.server.close)
