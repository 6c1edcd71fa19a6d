"""A server on the loopback that answers as a hostile node, backend or hook could."""

import contextlib
import gzip
import json
import socket
import threading

OK = b'HTTP/1.1 200 OK\r\n'
JSON = b'Content-Type: application/json\r\n'
#: Seconds between two bytes of an answer that never ends.
DRIP_S = 0.02
#: Seconds after which a server ends all that it does; a client ends long before, by itself,
#: on a busy machine too.
LONGEST_S = 60.0
ESCAPES = '\x1b]0;PWNED\x07\x1b[2J\x1b[32mall is well\u202e\u2066'


def _sized(status, content, more=b''):
    length = f'Content-Length: {len(content)}\r\n\r\n'.encode()
    return b'HTTP/1.1 ' + status + b'\r\n' + JSON + more + length + content


def silence(server, stream):
    server.over.wait()


def _drip(server, stream):
    # Finding H2: each byte began the time limit of the client again.
    while not server.over.wait(DRIP_S):
        stream.sendall(b'x')


def dripping_head(server, stream):
    stream.sendall(OK + b'X-Slow: ')
    _drip(server, stream)


def dripping_body(server, stream):
    stream.sendall(OK + JSON + b'Content-Length: 1000000\r\n\r\n"')
    _drip(server, stream)


def dripping_chunks(server, stream):
    stream.sendall(OK + JSON + b'Transfer-Encoding: chunked\r\n\r\n')
    while not server.over.wait(DRIP_S):
        stream.sendall(b'1\r\nx\r\n')


def going_on(server, stream):
    while not server.over.wait(DRIP_S):
        stream.sendall(b'HTTP/1.1 100 Continue\r\n\r\n')


def _flood(server, stream, block):
    # Finding M1: all of it was kept in memory.
    while not server.over.is_set():
        stream.sendall(block)
        server.sent += len(block)


def flood_of_headers(server, stream):
    stream.sendall(OK)
    _flood(server, stream, b'X-More: ' + b'x' * 60_000 + b'\r\n')


def flood(server, stream):
    stream.sendall(OK + JSON + b'Connection: close\r\n\r\n"')
    _flood(server, stream, b'x' * 1_000_000)


def bomb(server, stream):
    content = gzip.compress(b'[' + b'0,' * 60_000_000 + b'0]', 1)
    stream.sendall(_sized(b'200 OK', content, b'Content-Encoding: gzip\r\n'))


def deep(server, stream):
    # Finding M1: a RecursionError went past all that handles errors.
    stream.sendall(_sized(b'200 OK', b'[' * 200_000))


def deep_after_a_mark(server, stream):
    stream.sendall(_sized(b'200 OK', b'\xef\xbb\xbf' + b'[' * 200_000))


def deep_and_wide(server, stream):
    stream.sendall(_sized(b'200 OK', ('[' * 200_000).encode('utf-16-be')))


def deep_refusal(server, stream):
    stream.sendall(_sized(b'400 Bad', b'{"message":' * 50_000))


def escapes(server, stream):
    said = {'message': ESCAPES, 'code': '400', 'title': ESCAPES}
    stream.sendall(_sized(b'400 Bad', json.dumps(said).encode()))


def raw_escapes(server, stream):
    stream.sendall(_sized(b'500 ' + ESCAPES.encode(), ESCAPES.encode()))


def long_refusal(server, stream):
    # Finding H1: the search for passwords in it took a minute.
    said = {'message': 'password' * 16_000, 'code': '400', 'title': 'x'}
    stream.sendall(_sized(b'400 Bad', json.dumps(said).encode()))


def redirects(server, stream):
    here = f'Location: http://127.0.0.1:{server.port}/again\r\n'.encode()
    stream.sendall(b'HTTP/1.1 302 Found\r\n' + here + b'Content-Length: 0\r\n\r\n')


def too_short(server, stream):
    stream.sendall(OK + JSON + b'Content-Length: 100\r\nConnection: close\r\n\r\n{}')


def negative_length(server, stream):
    stream.sendall(OK + JSON + b'Content-Length: -5\r\nConnection: close\r\n\r\n{}')


def no_length(server, stream):
    stream.sendall(OK + JSON + b'Content-Length: many\r\nConnection: close\r\n\r\n{')


def wrong_chunks(server, stream):
    stream.sendall(OK + JSON + b'Transfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n{}')


def no_http(server, stream):
    stream.sendall(b'SSH-2.0-OpenSSH_9.2\r\n' + bytes(range(256)))


def dripping_reply(server, stream):
    stream.sendall(b'+')
    _drip(server, stream)


def flood_of_a_reply(server, stream):
    stream.sendall(b'$2000000000\r\n')
    _flood(server, stream, b'x' * 1_000_000)


def flood_of_a_frame(server, stream):
    """Send a frame of AMQP of two thousand million bytes."""
    stream.sendall(b'\x01\0\0\x7f\xff\xff\xff')
    _flood(server, stream, b'x' * 1_000_000)


def flood_of_a_record(server, stream):
    """Send a record of ZooKeeper of two thousand million bytes."""
    stream.sendall(b'\x7f\xff\xff\xff')
    _flood(server, stream, b'\0' * 1_000_000)


def deep_reply(server, stream):
    stream.sendall(b'*1\r\n' * 10_000)


#: All that a server does, by name; those that never end, and those that do.
ENDLESS = {
    one.__name__: one
    for one in (
        silence, dripping_head, dripping_body, dripping_chunks, going_on, flood_of_headers, flood,
        dripping_reply,
    )
}  # fmt: skip
BEHAVIOURS = ENDLESS | {
    one.__name__: one
    for one in (
        bomb, deep, deep_after_a_mark, deep_and_wide, deep_refusal, escapes, raw_escapes,
        long_refusal, redirects, too_short, negative_length, no_length, wrong_chunks, no_http,
        flood_of_a_reply, flood_of_a_frame, flood_of_a_record, deep_reply,
    )
}  # fmt: skip


class HostileServer(contextlib.AbstractContextManager):
    """Answers each connection in one way, until it is closed."""

    longest_s = LONGEST_S

    def __init__(self, behave, tls=None):
        self.behave, self.tls = behave, tls
        self.over, self.sent = threading.Event(), 0
        self._socket = socket.create_server(('127.0.0.1', 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self):
        # A client without a deadline of its own must fail its test, not stop it.
        self._timer = threading.Timer(self.longest_s, self.over.set)
        self._timer.start()
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self._timer.cancel()
        self._timer.join()
        self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _serve(self):
        while True:
            try:
                stream, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._answer, args=(stream,))
            self._threads.append(thread)
            thread.start()

    def _answer(self, stream):
        stream.settimeout(LONGEST_S)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(stream)
            if self.tls is not None:
                stream = stack.enter_context(self.tls.wrap_socket(stream, server_side=True))
            stream.recv(65536)
            self.behave(self, stream)
