"""Without a rule a client cannot tell the proxy from the server."""

import http
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import hypothesis
import requests
from hypothesis import strategies as st

from kiln.testing.proxy import Delay, FaultProxy, Hang
from tests.examples import examples
from tests.unit.testing.proxy.server import ProxyCase, Raw

MEGABYTE = 1 << 20
TOKEN = st.text('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_', min_size=1)
METHODS = st.sampled_from(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])
TARGETS = st.text('abcXYZ019/%?&=;:@~.+-', max_size=50).map(lambda text: f'/{text.lstrip("/")}')
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_categories=['Cc']))
HEADERS = st.dictionaries(TOKEN.map(lambda name: f'X-{name}'), VALUES.map(str.strip), max_size=5)


class Transparency(ProxyCase):
    @hypothesis.given(METHODS, TARGETS, HEADERS, st.binary(max_size=2000), st.booleans())
    @hypothesis.settings(max_examples=examples(30), deadline=None)
    def test_every_request_and_answer_passes_byte_by_byte(
        self, method, target, headers, body, in_chunks
    ):
        lines = [f'{method} {target} HTTP/1.1', 'Host: cloud', 'Connection: close']
        lines += [f'{name}: {value}' for name, value in headers.items()]
        if in_chunks:
            lines.append('Transfer-Encoding: chunked')
            sent = b''.join(b'%x;a=b\r\n%b\r\n' % (len(c), c) for c in halves(body)) + b'0\r\n\r\n'
        else:
            lines.append(f'Content-Length: {len(body)}')
            sent = body
        answers, requests_seen = [], []
        for url in (self.server.url, self.proxy.url):
            self.server.seen.clear()
            with Raw(url) as client:
                client.send(*lines, body=sent)
                answers.append(without_date(client.read_all()))
            requests_seen.append(self.server.seen.copy())
        self.assertEqual(*answers)
        self.assertEqual(*requests_seen)
        self.assertEqual([(method, target, body)], [(s[0], s[1], s[3]) for s in requests_seen[1]])

    def test_one_connection_serves_request_after_request(self):
        for turn in range(20):
            self.assertEqual(f'{turn}', self.ask('PUT', data=f'{turn}').text)
        self.assertEqual(1, self.connections())
        self.assertEqual(20, self.proxy.count('PUT', '/servers'))

    def test_a_connection_to_the_server_that_was_idle_is_replaced(self):
        used = set()

        def who(handler):
            used.add(handler.client_address)
            handler.answer(204)

        self.server.answers['/who'] = who
        for idle_s, connections in ((1000.0, 1), (0.0, 3)):
            used.clear()
            with FaultProxy(self.server.url, idle_s=idle_s) as proxy:
                for _ in range(3):
                    self.assertEqual(204, self.client.get(f'{proxy.url}/who').status_code)
            self.assertEqual(connections, len(used))

    def test_no_body_follows_a_head_and_a_no_content(self):
        self.server.answers['/gone'] = lambda handler: handler.answer(204)
        for _ in range(3):
            self.assertEqual('18', self.ask('HEAD').headers['Content-Length'])
            self.assertEqual(204, self.ask('DELETE', '/gone').status_code)
            self.assertEqual(200, self.ask().status_code)
        self.assertEqual(1, self.connections())

    def test_an_answer_in_chunks_passes_and_the_connection_goes_on(self):
        def chunked(handler):
            handler.send_response(200)
            handler.send_header('Transfer-Encoding', 'chunked')
            handler.end_headers()
            handler.wfile.write(b'3\r\none\r\n3\r\ntwo\r\n0\r\nX-Trailer: yes\r\n\r\n')

        self.server.answers['/chunked'] = chunked
        self.assertEqual('onetwo', self.ask(path='/chunked').text)
        self.assertEqual(200, self.ask().status_code)
        self.assertEqual(1, self.connections())

    def test_an_answer_without_a_length_ends_with_its_connection(self):
        def endless(handler):
            handler.wfile.write(b'HTTP/1.0 200 OK\r\n\r\nall there is')
            handler.close_connection = True

        self.server.answers['/old'] = endless
        self.assertEqual('all there is', self.ask(path='/old').text)
        self.assertEqual('all there is', self.ask(path='/old').text)

    def test_ten_megabytes_pass_both_ways(self):
        body = bytes(range(256)) * (10 * MEGABYTE // 256)
        self.assertEqual(body, self.ask('POST', data=body).content)
        self.assertEqual(10 * MEGABYTE, self.proxy.requests[0].request_bytes)

    def test_ten_megabytes_in_chunks_pass_both_ways(self):
        pieces = [bytes([n]) * 65_536 for n in range(160)]
        self.assertEqual(b''.join(pieces), self.ask('POST', data=iter(pieces)).content)

    def test_two_hundred_clients_at_once_each_get_their_own_answer(self):
        together = threading.Barrier(200, timeout=120)

        def ask(number):
            with Raw(self.proxy.url) as client:
                together.wait()
                client.send('PUT / HTTP/1.1', 'Content-Length: 4', body=b'%04d' % number)
                return client.read_until(b'%04d' % number)

        with ThreadPoolExecutor(200) as pool:
            for answer in pool.map(ask, range(200)):
                self.assertTrue(answer.startswith(b'HTTP/1.1 200'))
        self.assertEqual(200, self.proxy.count('PUT'))

    def test_requests_sent_ahead_are_answered_in_order_until_one_closes(self):
        client = self.raw()
        text = b''.join(
            b'PUT /%d HTTP/1.1\r\nContent-Length: 1\r\n%b\r\n%d' % (n, close, n)
            for n, close in ((1, b''), (2, b'Connection: close\r\n'), (3, b''))
        )
        client.socket.sendall(text)
        answers = client.read_all()
        bodies = [part[-1:] for part in answers.split(b'HTTP/1.1 200')[1:]]
        self.assertEqual([b'1', b'2'], [body.strip() for body in bodies])
        self.assertEqual(['/1', '/2'], [path for _, path, *_ in self.server.seen])

    def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(self):
        client = self.raw()
        client.send('PUT / HTTP/1.1', 'Content-Length: 5', 'Expect: 100-continue')
        self.assertEqual(b'HTTP/1.1 100 Continue\r\n\r\n', client.read_until(b'\r\n\r\n'))
        client.socket.sendall(b'hello')
        answer = client.read_until(b'hello')
        self.assertTrue(answer.startswith(b'HTTP/1.1 200'), answer)
        self.assertEqual([b'hello'], [body for *_, body in self.server.seen])

    def test_a_server_that_closes_idle_connections_is_asked_on_a_new_one(self):
        closed = threading.Semaphore(0)

        def last(handler):
            handler.answer(200, b'bye')
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            closed.release()

        self.server.answers['/last'] = last
        for _ in range(5):
            self.assertEqual('bye', self.ask(path='/last').text)
            self.assertTrue(closed.acquire(timeout=120))
        self.assertEqual(['GET'] * 5, self.server.methods())
        self.assertEqual(1, self.connections())


class ThoseWhoLeave(ProxyCase):
    def test_half_a_request_never_reaches_the_server(self):
        client = self.raw()
        client.send('PUT / HTTP/1.1', 'Content-Length: 10', body=b'half')
        client.socket.close()
        self.assertEqual(200, self.ask().status_code)
        self.assertEqual(['GET'], self.server.methods())
        self.assertEqual(1, self.proxy.count())

    def test_a_client_that_leaves_before_its_answer_harms_nobody(self):
        self.proxy.fault(Delay(after=0.1), 'PUT')
        client = self.raw()
        client.send('PUT / HTTP/1.1', 'Content-Length: 1', body=b'1')
        self.assertTrue(self.proxy.wait_for(1, 'PUT'))
        # The way a process dies: with a reset.
        linger = struct.pack('ii', 1, 0)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.socket.close()
        self.assertTrue(self.proxy.settle())
        self.assertEqual(['PUT'], self.server.methods())
        self.assertIsNone(self.proxy.requests[0].status)
        self.assertEqual(http.HTTPStatus.OK, self.ask().status_code)

    def test_a_client_that_leaves_within_a_long_answer_harms_nobody(self):
        self.server.answers['/long'] = lambda handler: handler.answer(200, b'x' * 10 * MEGABYTE)
        with self.raw() as client:
            client.send('GET /long HTTP/1.1')
            client.read(1000)
        self.assertTrue(self.proxy.settle())
        self.assertEqual(200, self.ask().status_code)

    def test_who_speaks_no_http_is_told_so(self):
        for nonsense in (b'\x16\x03\x01\r\n\r\n', b'PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n'):
            with self.subTest(nonsense), self.assertLogs('kiln.testing.proxy', 'WARNING'):
                client = self.raw()
                client.socket.sendall(nonsense)
                self.assertTrue(client.read_all().startswith(b'HTTP/1.1 400'))
        self.assertEqual(0, self.proxy.count())

    def test_a_server_that_leaves_without_an_answer_takes_the_client_along(self):
        def leave(handler):
            handler.close_connection = True

        self.server.answers['/leave'] = leave
        self.check_no_answer('/leave')

    def test_a_server_that_speaks_no_http_counts_as_none(self):
        self.server.answers['/ftp'] = lambda handler: handler.wfile.write(b'220 ready\r\n\r\n')
        self.check_no_answer('/ftp')

    def check_no_answer(self, path):
        reset = self.assertRaises(requests.ConnectionError)
        with self.assertLogs('kiln.testing.proxy', 'WARNING') as logs, reset:
            self.ask(path=path)
        self.assertIn(f'No answer to GET {path}', logs.output[0])
        self.assertIsNone(self.proxy.requests[0].server_status)

    def test_a_server_that_is_away_costs_the_client_its_connection(self):
        self.server.socket.close()
        self.proxy.fault(Hang(), 'POST')  # a rule for others changes nothing
        self.check_no_answer('/servers')


def halves(body):
    return [half for half in (body[: len(body) // 2], body[len(body) // 2 :]) if half]


def without_date(answer):
    return [line for line in answer.split(b'\r\n') if not line.startswith(b'Date:')]
