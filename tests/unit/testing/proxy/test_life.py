"""How the proxy begins and ends, goes down and comes back."""

import contextlib
import os
import threading
import time
import unittest

import requests

from kiln.testing.proxy import Delay, FaultProxy, Hang, LoseAnswer, Refuse
from tests.unit.testing.proxy.server import ProxyCase, Raw


def threads():
    return [thread for thread in threading.enumerate() if thread.name == 'fault-proxy']


def sockets():
    """Return the sockets that this process has open."""
    found = set()
    for name in os.listdir('/proc/self/fd'):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f'/proc/self/fd/{name}'))
    return {link for link in found if link.startswith('socket:')}


class Life(ProxyCase):
    def test_closing_leaves_no_thread_and_no_socket(self):
        threads_before, sockets_before = threads(), sockets()
        with FaultProxy(self.server.url) as proxy:
            proxy.fault(Hang(), path='/hang')
            proxy.fault(LoseAnswer(), path='/lose')
            proxy.fault(Delay(before=30), path='/delay')
            clients = [Raw(proxy.url) for _ in range(5)]
            for client, path in zip(clients, ('hang', 'lose', 'delay', 'fine'), strict=False):
                client.send(f'GET /{path} HTTP/1.1')
            self.assertTrue(proxy.wait_for(4))
        for client in clients:
            client.socket.close()
        self.assertEqual(threads_before, threads())
        # The server lives in this process too, and notices a moment later.
        deadline = time.monotonic() + 120
        while sockets() - sockets_before and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertLessEqual(sockets(), sockets_before)

    def test_closing_ends_all_that_hangs_at_once(self):
        self.proxy.fault(Hang())
        client = self.raw()
        client.send('GET / HTTP/1.1')
        self.assertTrue(self.proxy.wait_for(1))
        self.proxy.close()
        with self.assertRaises(ConnectionResetError):
            client.read()
        self.proxy.close()

    def test_closing_does_not_wait_for_a_server_that_hangs(self):
        hanging = threading.Event()
        self.addCleanup(hanging.set)
        self.server.answers['/hang'] = lambda handler: hanging.wait(120)
        client = self.raw()
        client.send('GET /hang HTTP/1.1')
        self.assertTrue(self.proxy.wait_for(1))
        started = time.monotonic()
        self.proxy.close()
        self.assertLess(time.monotonic() - started, 100)
        self.assertIsNotNone(self.proxy.requests[0].ended)

    def test_a_closed_proxy_starts_again_at_its_port(self):
        url = self.proxy.url
        self.proxy.close()
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.proxy.start()
        self.assertEqual(url, self.proxy.url)
        self.assertEqual(200, self.ask().status_code)

    def test_a_port_that_is_taken_is_an_error_and_leaves_nothing(self):
        before = threads()
        with self.assertRaises(OSError), FaultProxy(self.server.url, port=self.server.server_port):
            pass
        self.assertEqual(before, threads())

    def test_many_proxies_stand_before_one_server(self):
        for _ in range(20):
            with FaultProxy(self.server.url) as proxy:
                self.assertEqual(200, self.client.get(proxy.url).status_code)
        self.assertEqual(20, len(self.server.seen))


class Addresses(unittest.TestCase):
    def test_the_path_of_the_server_is_the_path_of_the_proxy(self):
        for path, same in (('/compute/v2.1', '/compute/v2.1'), ('/', ''), ('', '')):
            with FaultProxy(f'http://127.0.0.1:1{path}', port=0) as proxy:
                port = proxy.url.removeprefix('http://127.0.0.1:').removesuffix(same)
                self.assertTrue(port.isdecimal(), proxy.url)

    def test_what_is_no_plain_http_is_refused(self):
        for url in ('https://cloud', 'cloud:80', 'http://', ''):
            with self.subTest(url), self.assertRaisesRegex(ValueError, 'it is not an http:// URL'):
                FaultProxy(url)


class UpAndDown(ProxyCase):
    def test_while_down_connections_are_refused_and_the_old_ones_reset(self):
        inside = self.raw()
        inside.send('GET / HTTP/1.1')
        inside.read_until(b'}')
        self.proxy.down()
        with self.assertRaises(ConnectionResetError):
            inside.read()
        with self.assertRaises(ConnectionRefusedError):
            self.raw()
        self.proxy.up()
        self.assertEqual(200, self.ask().status_code)

    def test_a_proxy_that_is_down_can_take_connections_and_drop_them(self):
        self.proxy.down(accept=True)
        for _ in range(3):
            self.assertEqual(b'', self.raw().read())
        self.proxy.down()
        with self.assertRaises(ConnectionRefusedError):
            self.raw()
        self.proxy.down(accept=True)
        self.assertEqual(b'', self.raw().read())
        self.proxy.up()
        self.assertEqual(200, self.ask().status_code)

    def test_to_say_up_or_down_twice_does_no_harm(self):
        self.proxy.up()
        self.proxy.down()
        self.proxy.down()
        self.proxy.up()
        self.assertEqual(200, self.ask().status_code)

    def test_what_is_called_up_again_stays_up(self):
        self.proxy.fault(Refuse(30), times=1)
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.proxy.up()
        self.assertEqual(200, self.ask().status_code)

    def test_what_is_called_down_while_it_refuses_stays_down(self):
        self.proxy.fault(Refuse(0.01), times=1)
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.proxy.down()
        # Whatever the machine does: if it has not come back now, it will not.
        time.sleep(0.05)
        with self.assertRaises(ConnectionRefusedError):
            self.raw()

    def test_a_late_refusal_does_not_bring_back_what_is_down(self):
        self.proxy.fault(Delay(after=0.1, then=Refuse(0.0)), times=1)
        client = self.raw()
        client.send('GET / HTTP/1.1')
        self.assertTrue(self.proxy.wait_for(1))
        self.proxy.down()
        self.assertTrue(self.proxy.settle())
        with self.assertRaises(ConnectionRefusedError):
            self.raw()

    def test_a_proxy_closed_while_it_refuses_ends_too(self):
        self.proxy.fault(Refuse(30))
        with self.assertRaises(requests.ConnectionError):
            self.ask()
        self.proxy.close()
        self.assertEqual([], threads())
