"""Which request meets which fault, and what the proxy remembers."""

import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import requests

from kiln.testing.proxy import Answer, FaultProxy, Hang, Rule
from kiln.testing.proxy.exchanges import resource_path
from tests.unit.testing.proxy.server import ProxyCase

PROJECT = '6f70656e737461636b20342065766572'


class Paths(unittest.TestCase):
    def test_neither_mount_nor_version_nor_project_nor_query_count(self):
        for target, path in {
            '/servers': '/servers',
            '/v2.1/servers/detail?limit=5': '/servers/detail',
            f'/compute/v2.1/{PROJECT}/servers/abc': '/servers/abc',
            '/v1/12345678-1234-1234-1234-123456789abc/stacks': '/stacks',
            '/identity/v3/auth/tokens': '/auth/tokens',
            '/v2.1': '/',
            '/v2.1/': '/',
            '/volumes/v20x/y': '/volumes/v20x/y',
            '/': '/',
        }.items():
            with self.subTest(target):
                self.assertEqual(path, resource_path(target))


class Rules(ProxyCase):
    def statuses(self, *asked):
        return [self.ask(*method_and_path.split()).status_code for method_and_path in asked]

    def test_a_rule_is_for_a_method_and_a_whole_path(self):
        self.proxy.fault(Answer(503), 'GET', '/servers/[^/]+')
        met = self.statuses(
            'GET /servers', 'GET /servers/a', 'GET /servers/a/ips', 'PUT /servers/a',
            f'GET /compute/v2.1/{PROJECT}/servers/b?c=d',
        )  # fmt: skip
        self.assertEqual([200, 503, 200, 200, 503], met)

    def test_a_rule_may_look_at_all_that_a_request_says(self):
        self.proxy.fault(Answer(500), when=lambda request: b'boom' in request.body)
        self.proxy.fault(Answer(501), when=lambda request: request.query == 'a=b')
        self.proxy.fault(Answer(502), when=lambda request: 'x-bad' in request.headers)
        self.assertEqual(500, self.ask('PUT', data='boom').status_code)
        self.assertEqual(501, self.ask(path='/?a=b').status_code)
        self.assertEqual(502, self.ask(headers={'X-Bad': 'yes'}).status_code)
        self.assertEqual(200, self.ask('PUT', data='peace').status_code)

    def test_some_pass_then_some_are_hit_and_then_none(self):
        rule = self.proxy.fault(Answer(503), skip=1, times=2)
        self.assertEqual([200, 503, 503, 200, 200], self.statuses(*['GET /'] * 5))
        self.assertEqual((3, 2), (rule.seen, rule.hits))

    def test_several_faults_are_met_in_turn(self):
        self.proxy.fault([Answer(500), Answer(502), Answer(504)], times=2)
        self.assertEqual([500, 502, 200], self.statuses(*['GET /'] * 3))
        self.proxy.fault([Answer(500), Answer(502)], times=5)
        self.assertEqual([500, 502, 200], self.statuses(*['GET /'] * 3))

    def test_the_first_rule_that_has_a_fault_decides(self):
        self.proxy.fault(Answer(500), times=1)
        self.proxy.fault(Answer(502))
        self.assertEqual([500, 502, 502], self.statuses(*['GET /'] * 3))

    def test_a_rule_ends_with_its_block_or_when_removed(self):
        with self.proxy.fault(Answer(500)) as rule:
            self.assertEqual((rule,), self.proxy.faults)
            self.assertEqual([500], self.statuses('GET /'))
        self.assertEqual([200], self.statuses('GET /'))
        rule.remove()
        self.assertEqual((), self.proxy.faults)

    def test_a_rule_that_is_nowhere_can_be_removed(self):
        Rule(Hang()).remove()

    def test_luck_is_the_same_in_every_run_with_one_seed(self):
        def hits(seed, others=0):
            with FaultProxy(self.server.url, seed=seed) as proxy, requests.Session() as client:
                client.trust_env = False
                proxy.fault(Answer(500), 'GET', chance=0.5)
                proxy.fault(Answer(500), 'PUT', chance=0.5)
                for _ in range(others):
                    client.put(proxy.url)
                return [client.get(proxy.url).status_code for _ in range(40)]

        first = hits(1)
        self.assertEqual({200, 500}, set(first))
        self.assertEqual(first, hits(1, others=3))
        self.assertNotEqual(first, hits(2))

    def test_rules_made_by_many_threads_all_hit_as_often_as_they_may(self):
        def one(number):
            path = f'/mine/{number}'
            with self.proxy.fault(Answer(503), path=path, times=3), requests.Session() as client:
                client.trust_env = False
                url = self.proxy.url + path
                return [client.get(url, timeout=120).status_code for _ in range(4)]

        with ThreadPoolExecutor(16) as pool:
            for statuses in pool.map(one, range(64)):
                self.assertEqual([503, 503, 503, 200], statuses)
        self.assertEqual((), self.proxy.faults)
        self.assertEqual(64 * 4, self.proxy.count('GET', '/mine/.*'))


class Memory(ProxyCase):
    def test_an_exchange_is_remembered_with_both_answers_and_ids(self):
        given = {'X_Openstack_Request_Id': 'req-1'}
        self.server.answers['/v2.1/it'] = lambda handler: handler.answer(202, **given)
        fault = Answer(502)
        self.proxy.fault(fault, 'GET')
        self.ask('POST', '/v2.1/it', data='abc', headers={'X-Openstack-Request-Id': 'req-0'})
        self.ask('GET', '/v2.1/it')
        self.assertTrue(self.proxy.settle())
        first, second = self.proxy.requests
        self.assertEqual(('POST', '/v2.1/it', '/it'), (first.method, first.target, first.path))
        self.assertEqual((202, 202, None), (first.status, first.server_status, first.fault))
        self.assertEqual(('req-1', 'req-0'), (first.request_id, first.global_request_id))
        self.assertEqual(3, first.request_bytes)
        self.assertEqual((502, None, fault), (second.status, second.server_status, second.fault))
        self.assertGreaterEqual(first.seconds, 0)

    def test_an_exchange_is_told_in_a_line(self):
        self.proxy.fault(Hang(), 'PUT')
        with self.assertRaises(requests.ReadTimeout):
            self.ask('PUT', timeout=0.05)
        self.assertTrue(self.proxy.wait_for(1))
        self.ask('GET', '/x')
        self.assertTrue(self.proxy.settle())
        hung, served = (str(exchange) for exchange in self.proxy.requests)
        hung_line = (
            r'^PUT /servers: no answer from the server, no answer to the client, .* s, Hang$'
        )
        self.assertRegex(hung, hung_line)
        self.assertRegex(served, r'^GET /x: 200 from the server, 200 to the client, .* no fault$')

    def test_requests_are_counted_by_method_and_path_until_forgotten(self):
        for method, path in [('GET', '/a'), ('GET', '/v2.1/b'), ('PUT', '/a')]:
            self.ask(method, path)
        counted = [self.proxy.count(), self.proxy.count('GET'), self.proxy.count(path='/a|/b')]
        self.assertEqual([3, 2, 3], counted)
        self.proxy.forget()
        self.assertEqual((0, []), (self.proxy.count(), self.proxy.requests))

    def test_a_test_can_wait_until_a_request_has_arrived(self):
        self.proxy.fault(Hang())
        client = self.raw()
        threading.Timer(0.05, client.send, ['PUT /a HTTP/1.1']).start()
        self.assertTrue(self.proxy.wait_for(1, 'PUT', '/a'))
        self.assertFalse(self.proxy.wait_for(2, 'PUT', '/a', seconds=0.05))
        self.assertFalse(self.proxy.settle(seconds=0.05))
        started = time.monotonic()
        self.assertGreater(self.proxy.requests[0].seconds, 0)
        self.assertLess(self.proxy.requests[0].started, started)

    def test_an_observer_is_told_of_each_exchange_at_its_end(self):
        told = []
        with FaultProxy(self.server.url, on_end=told.append) as proxy:
            self.assertEqual(200, self.client.get(proxy.url).status_code)
            self.assertTrue(proxy.settle())
            proxy.close()
            self.assertEqual(proxy.requests, told)
            self.assertIsNotNone(told[0].ended)
