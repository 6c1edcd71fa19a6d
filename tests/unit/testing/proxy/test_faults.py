"""What a client meets when the proxy misbehaves, one test for each way."""

import time

import requests

from kiln.testing.proxy import (
    Answer,
    Close,
    Delay,
    Fault,
    Hang,
    LoseAnswer,
    Refuse,
    Reset,
    Serve,
    Trickle,
    Truncate,
    html_page,
    nova_error,
    token_expired,
)
from tests.unit.testing.proxy.server import ProxyCase


class Answers(ProxyCase):
    def test_each_status_of_trouble_comes_without_a_body_and_unknown_to_the_server(self):
        for status in (413, 429, 500, 502, 503, 504):
            with self.subTest(status), self.proxy.fault(Answer(status), times=1):
                answer = self.ask()
                self.assertEqual((status, b''), (answer.status_code, answer.content))
                self.assertNotIn('Retry-After', answer.headers)
        self.assertEqual([], self.server.seen)

    def test_an_answer_has_the_body_and_the_headers_it_was_given(self):
        self.proxy.fault(Answer(429, 'slow down', {'X-Rate': '7'}, 12, 'text/plain'))
        answer = self.ask()
        self.assertEqual((429, 'slow down'), (answer.status_code, answer.text))
        self.assertEqual('12', answer.headers['Retry-After'])
        self.assertEqual('7', answer.headers['X-Rate'])
        self.assertEqual('text/plain', answer.headers['Content-Type'])

    def test_an_answer_to_head_or_without_content_leaves_the_connection_in_step(self):
        self.proxy.fault([Answer(503, 'a body'), Answer(204, 'none'), Answer(999)])
        self.assertEqual((503, b''), self.seen(self.ask('HEAD')))
        self.assertEqual((204, b''), self.seen(self.ask('DELETE')))
        self.assertEqual((999, b''), self.seen(self.ask()))
        self.assertEqual(200, self.ask().status_code)
        self.assertEqual(1, self.connections())

    def seen(self, answer):
        return answer.status_code, answer.content

    def test_a_nova_error_is_worded_as_novas_own(self):
        self.proxy.fault([nova_error(413, 'Quota', retry_after=3), nova_error(500)])
        limit = self.ask()
        self.assertEqual('3', limit.headers['Retry-After'])
        said = {'code': 413, 'message': 'Quota', 'retryAfter': '3'}
        self.assertEqual({'overLimit': said}, limit.json())
        said = {'code': 500, 'message': 'Internal Server Error'}
        self.assertEqual({'computeFault': said}, self.ask().json())

    def test_a_load_balancer_answers_with_a_page(self):
        self.proxy.fault(html_page(504))
        answer = self.ask()
        self.assertEqual(504, answer.status_code)
        self.assertEqual('text/html', answer.headers['Content-Type'])
        self.assertIn('<h1>504 Gateway Timeout</h1>', answer.text)

    def test_the_text_of_a_page_is_escaped(self):
        self.proxy.fault(html_page(502, 'a < b'))
        self.assertIn('<title>a &lt; b</title>', self.ask().text)

    def test_a_token_has_expired_as_keystone_says_it(self):
        self.proxy.fault(token_expired(), times=1)
        answer = self.ask()
        self.assertEqual(401, answer.status_code)
        self.assertEqual('Unauthorized', answer.json()['error']['title'])
        self.assertIn('Keystone', answer.headers['WWW-Authenticate'])
        self.assertEqual(200, self.ask().status_code)


class Silence(ProxyCase):
    def test_a_hanging_request_never_reaches_the_server(self):
        self.proxy.fault(Hang(), times=1)
        with self.assertRaises(requests.ReadTimeout):
            self.ask(timeout=0.1)
        self.assertTrue(self.proxy.wait_for(1) and self.proxy.settle())
        self.assertEqual([], self.server.seen)
        self.assertIsNone(self.proxy.requests[0].status)

    def test_what_hangs_is_let_go_on_request(self):
        self.proxy.fault(Hang(), times=3)
        first, second, later = self.raw(), self.raw(), self.raw()
        for client in (first, second):
            client.send('GET / HTTP/1.1')
        self.assertTrue(self.proxy.wait_for(2))
        self.proxy.release()
        self.assertEqual([b'', b''], [first.read(), second.read()])
        later.send('GET / HTTP/1.1')
        self.assertTrue(self.proxy.wait_for(3))
        self.assertFalse(self.proxy.settle(seconds=0.05))
        self.assertEqual(200, self.ask().status_code)

    def test_a_lost_answer_leaves_the_work_done(self):
        self.proxy.fault(LoseAnswer(), 'POST')
        self.leave('POST', 200)
        self.assertEqual(['POST'], self.server.methods())
        self.assertEqual((None, 200), self.statuses())

    def test_instead_of_a_lost_answer_comes_what_one_likes(self):
        self.proxy.fault(LoseAnswer(Answer(504)), times=1)
        self.assertEqual(504, self.ask('POST').status_code)
        self.assertEqual(['POST'], self.server.methods())
        self.assertEqual((504, 200), self.statuses())

    def test_a_lost_answer_that_closed_its_connection_spoils_none_after_it(self):
        ports = []

        def last(handler):
            ports.append(handler.client_address)
            # It says that it closes, and takes its time to do so.
            handler.wfile.write(
                b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
            )

        self.server.answers['/last'] = last
        self.proxy.fault(LoseAnswer(Answer(504)))
        for _ in range(3):
            self.assertEqual(504, self.ask('POST', '/last').status_code)
        self.assertEqual(1, self.connections())
        self.assertEqual(3, len(set(ports)))

    def statuses(self):
        exchange = self.proxy.requests[-1]
        return exchange.status, exchange.server_status


class Connections(ProxyCase):
    def test_a_reset_is_one_and_the_server_is_not_asked(self):
        self.proxy.fault(Reset())
        client = self.raw()
        client.send('GET / HTTP/1.1')
        with self.assertRaises(ConnectionResetError):
            client.read()
        self.assertEqual([], self.server.seen)

    def test_who_has_left_is_not_reset(self):
        self.proxy.fault(Delay(after=120, then=Reset()))
        self.leave('GET', 200)
        self.assertEqual(200, self.proxy.requests[0].server_status)

    def test_a_close_comes_in_good_order_and_the_server_is_not_asked(self):
        self.proxy.fault(Close())
        client = self.raw()
        client.send('GET / HTTP/1.1')
        self.assertEqual(b'', client.read())
        self.assertEqual([], self.server.seen)

    def test_what_was_sent_ahead_on_a_closed_connection_is_lost(self):
        self.proxy.fault(Close(), path='/first')
        client = self.raw()
        client.socket.sendall(b'PUT /first HTTP/1.1\r\n\r\nPUT /second HTTP/1.1\r\n\r\n')
        self.assertEqual(b'', client.read())
        self.assertEqual([], self.server.seen)
        self.assertEqual(1, self.proxy.count())

    def test_a_truncated_body_is_shorter_than_it_says(self):
        self.server.answers['/long'] = lambda handler: handler.answer(200, b'x' * 1000)
        self.proxy.fault([Truncate(0.25), Truncate(1.0)])
        for kept in (250, 999):
            client = self.raw()
            client.send('GET /long HTTP/1.1')
            head, _, body = client.read_all().partition(b'\r\n\r\n')
            self.assertIn(b'Content-Length: 1000', head)
            self.assertEqual(b'x' * kept, body)

    def test_an_answer_without_a_body_is_cut_in_its_first_line(self):
        self.server.answers['/none'] = lambda handler: handler.answer(202)
        self.proxy.fault(Truncate())
        client = self.raw()
        client.send('DELETE /none HTTP/1.1')
        self.assertEqual(b'HTTP/1.', client.read_all())

    def test_for_some_time_all_are_refused_and_those_inside_are_reset(self):
        inside = self.raw()
        inside.send('GET / HTTP/1.1')
        inside.read_until(b'}')
        self.proxy.fault(Refuse(30), times=1)
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        with self.assertRaises(ConnectionResetError):
            inside.read()
        with self.assertRaises(ConnectionRefusedError):
            self.raw()

    def test_what_refuses_for_some_time_comes_back_by_itself(self):
        self.proxy.fault(Refuse(0.1), times=1)
        started = time.monotonic()
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.wait_until_up()
        self.assertGreaterEqual(time.monotonic() - started, 0.1)

    def test_a_balancer_without_a_backend_takes_connections_and_drops_them(self):
        self.proxy.fault(Refuse(30, accept=True), times=1)
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.assertEqual(b'', self.raw().read())
        self.assertEqual([], self.server.methods())

    def test_a_balancer_whose_backend_comes_back_passes_on_what_follows(self):
        self.proxy.fault(Refuse(0.1, accept=True), times=1)
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.wait_until_up()
        self.assertEqual(['GET'], self.server.methods())

    def wait_until_up(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.assertEqual(200, self.ask().status_code)
            except requests.ConnectionError:
                self.assertLess(time.monotonic(), deadline)


class Slowness(ProxyCase):
    def test_time_passes_before_the_server_is_asked(self):
        self.proxy.fault(Delay(before=0.2))
        self.assertEqual(200, self.ask().status_code)
        self.assertGreaterEqual(self.proxy.requests[0].seconds, 0.2)

    def test_who_leaves_before_the_server_is_asked_was_never_there(self):
        self.proxy.fault(Delay(before=30))
        with self.assertRaises(requests.ReadTimeout):
            self.ask('POST', timeout=0.1)
        self.assertTrue(self.proxy.wait_for(1) and self.proxy.settle())
        self.assertEqual([], self.server.seen)

    def test_an_answer_comes_late_from_a_server_that_was_quick(self):
        self.proxy.fault(Delay(after=120))
        self.leave('POST', 200)
        self.assertEqual(['POST'], self.server.methods())

    def test_after_a_delay_comes_what_one_likes(self):
        self.proxy.fault(Delay(0.05, 0.05, then=Answer(502)))
        self.assertEqual(502, self.ask().status_code)
        self.assertEqual(['GET'], self.server.methods())
        self.assertGreaterEqual(self.proxy.requests[0].seconds, 0.1)

    def test_a_body_trickles_but_is_whole(self):
        self.proxy.fault(Trickle(size=10, every=0.02))
        self.assertEqual(b'y' * 95, self.ask('PUT', data=b'y' * 95).content)
        self.assertGreaterEqual(self.proxy.requests[0].seconds, 10 * 0.02)

    def test_a_trickle_closes_after_an_answer_that_does(self):
        self.server.answers['/last'] = lambda handler: handler.answer(
            200, b'bye', Connection='close'
        )
        self.proxy.fault(Trickle(size=2, every=0.01))
        client = self.raw()
        client.send('GET /last HTTP/1.1')
        self.assertTrue(client.read_all().endswith(b'\r\n\r\nbye'))

    def test_a_trickle_ends_with_its_reader(self):
        self.proxy.fault(Trickle(size=1, every=0.05))
        with self.ask('PUT', data=b'z' * 10_000, stream=True) as answer:
            self.assertEqual(b'z', answer.raw.read(1))
        self.assertTrue(self.proxy.wait_for(1) and self.proxy.settle())


class OwnFaults(ProxyCase):
    def test_a_fault_of_ones_own_is_a_class_with_one_method(self):
        class Shout(Fault):
            async def play(self, visit):
                answer = await visit.forward()
                visit.send(answer.raw.upper(), answer.status)

        self.proxy.fault(Shout())
        self.assertEqual(b'LOUD', self.ask('PUT', data=b'loud').content)

    def test_a_fault_that_fails_resets_the_connection_and_is_logged(self):
        self.proxy.fault([Fault(), Serve()])
        broken = self.assertRaises(requests.ConnectionError)
        with self.assertLogs('kiln.testing.proxy', 'ERROR') as logs, broken:
            self.ask()
        self.assertIn('A fault or rule failed on GET /servers', logs.output[0])
        self.assertEqual(200, self.ask().status_code)
