"""Answers name the proxies of services, so that clients stay behind them."""

import asyncio
import json
import unittest

from kiln.testing.proxy import Answer, fault_proxies
from kiln.testing.proxy.http1 import read_answer
from kiln.testing.proxy.urls import renamed
from tests.unit.testing.proxy.server import ProxyCase, running

URLS = {
    'http://cloud:8774': 'http://127.0.0.1:1',
    'http://cloud/network/': 'http://127.0.0.1:2/network',
    'http://cloud/network/inner': 'http://127.0.0.1:3/inner',
}


def message(body, *headers, kind='application/json'):
    """Return an answer; its body ends as the headers say, or else with the connection."""
    lines = ['HTTP/1.1 200 OK', f'Content-Type: {kind}', *headers, '', '']

    async def read():
        stream = asyncio.StreamReader()
        stream.feed_data('\r\n'.join(lines).encode() + body)
        stream.feed_eof()
        return await read_answer(stream, to_head=False)

    return asyncio.run(read())


def in_chunks(*parts):
    body = b''.join(b'%x\r\n%b\r\n' % (len(part), part) for part in (*parts, b''))
    return message(body, 'Transfer-Encoding: chunked')


def renamed_json(value):
    return json.loads(renamed(message(json.dumps(value).encode()), URLS).body)


class Renaming(unittest.TestCase):
    def test_in_a_token_the_endpoints_of_chosen_services_become_their_proxies(self):
        def catalogue(compute, network):
            image = {'interface': 'public', 'url': 'http://cloud:9292'}
            return {
                'token': {
                    'user': {'name': 'Zoë'},
                    'catalog': [
                        {'type': 'compute', 'endpoints': [{'url': f'{compute}/v2.1/project'}]},
                        {'type': 'network', 'endpoints': [{'url': network}]},
                        {'type': 'image', 'endpoints': [image]},
                    ],
                }
            }

        self.assertEqual(
            catalogue('http://127.0.0.1:1', 'http://127.0.0.1:2/network'),
            renamed_json(catalogue('http://cloud:8774', 'http://cloud/network')),
        )

    def test_only_whole_names_are_replaced(self):
        for url, instead in {
            'http://cloud:8774/v2.1?limit=1': 'http://127.0.0.1:1/v2.1?limit=1',
            'http://cloud/network/v2.0': 'http://127.0.0.1:2/network/v2.0',
            'http://cloud/network/inner/v1': 'http://127.0.0.1:3/inner/v1',
            'http://cloud/network-old': 'http://cloud/network-old',
            'http://cloud:87740/': 'http://cloud:87740/',
            'http://cloud/': 'http://cloud/',
        }.items():
            with self.subTest(url):
                self.assertEqual([instead], renamed_json([url]))

    def test_headers_are_looked_through_whatever_the_body(self):
        location = 'Location: http://cloud:8774/v2.1/servers/1'
        answer = renamed(message(b'', location, 'Content-Length: 0'), URLS)
        self.assertEqual('http://127.0.0.1:1/v2.1/servers/1', answer.headers['location'])
        page = renamed(message(b'see http://cloud:8774', location, kind='text/html'), URLS)
        self.assertEqual('http://127.0.0.1:1/v2.1/servers/1', page.headers['location'])
        self.assertEqual(b'see http://cloud:8774', page.body)
        self.assertEqual((True, False), (answer.lasting, page.lasting))

    def test_a_changed_body_has_its_new_length_and_comes_whole(self):
        text = b'["http://cloud:8774/"]'
        in_length = message(text, f'Content-Length: {len(text)}')
        for answer in (in_length, in_chunks(text[:9], text[9:]), message(text)):
            new = renamed(answer, URLS)
            self.assertEqual(b'["http://127.0.0.1:1/"]', new.raw[new.body_at :])
            self.assertEqual('23', new.headers['content-length'])
            self.assertNotIn('transfer-encoding', new.headers)
            self.assertTrue(new.lasting)

    def test_what_names_nobody_stays_the_very_same(self):
        text = b'{"a": "http://elsewhere"}'
        for answer in (message(text), in_chunks(text[:5], text[5:])):
            self.assertIs(answer, renamed(answer, URLS))

    def test_without_other_names_nothing_changes(self):
        answer = message(b'["http://cloud:8774/"]')
        self.assertIs(answer, renamed(answer, {}))


class SeveralServices(ProxyCase):
    def test_who_asks_one_service_meets_the_faults_of_the_others(self):
        identity, compute = self.server, self.enterContext(running())
        identity.answers['/v3'] = lambda handler: handler.answer(
            200,
            json.dumps({'compute': compute.url + '/v2.1', 'me': identity.url}).encode(),
            Location=f'{identity.url}/v3/',
        )
        with fault_proxies({'identity': identity.url, 'compute': compute.url}) as proxies:
            proxies['compute'].fault(Answer(503), path='/servers')
            answer = self.client.get(proxies['identity'].url + '/v3', timeout=120)
            said = answer.json()
            self.assertEqual(proxies['identity'].url, said['me'])
            self.assertEqual(proxies['identity'].url + '/v3/', answer.headers['Location'])
            met = self.client.get(said['compute'] + '/servers', timeout=120)
            self.assertEqual(503, met.status_code)
        self.assertEqual([], compute.seen)

    def test_a_head_names_the_proxy_and_keeps_its_length(self):
        self.server.answers['/'] = lambda handler: handler.answer(
            200, b'x' * 7, Location=self.server.url
        )
        self.proxy.rename({self.server.url: self.proxy.url})
        for _ in range(2):
            answer = self.ask('HEAD', '/')
            self.assertEqual(self.proxy.url, answer.headers['Location'])
            self.assertEqual('7', answer.headers['Content-Length'])
        self.assertEqual(1, self.connections())
