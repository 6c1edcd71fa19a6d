"""The network of the cluster kit: machines play their part, and waiting takes no time."""

import http.client
import socket
import threading
import time
import unittest
from time import sleep

from kiln.clusters.exceptions import ClusterDriverError
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.road.machines import HANGING, REFUSING, SILENT, Machine
from kiln.testing.clusters.road.network import Network, WaitsForever
from kiln.testing.clusters.road.pages import ServerThread

HOST = '192.0.2.7'
PAGE = Machine(http={(80, '/ready'): (200, 'yes')}, console='login:')


def page(path, port=80):
    connection = http.client.HTTPConnection(HOST, port, timeout=3)
    try:
        connection.request('GET', path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


class Playing(unittest.TestCase):
    def setUp(self):
        self.network = Network()

    def passed(self):
        return self.network.clock.monotonic()

    def test_a_machine_serves_its_pages(self):
        with self.network.playing(REFUSING, _7=PAGE):
            self.assertEqual((200, 'yes'), page('/ready'))
            self.assertEqual((200, 'yes'), page('/ready?full=1'))
            self.assertEqual((404, ''), page('/other'))
            self.assertRaises(ConnectionRefusedError, page, '/ready', 81)
        self.assertEqual(f'{HOST} at port 80', self.network.asked[0])
        self.assertEqual(0.0, self.passed())

    def test_an_open_port_accepts_connections(self):
        with self.network.playing(Machine(ports=frozenset({22}))):
            socket.create_connection((HOST, 22)).close()
            self.assertRaises(ConnectionRefusedError, socket.create_connection, (HOST, 23))

    def test_a_machine_that_is_silent_or_hangs_takes_virtual_time(self):
        for machine in (SILENT, HANGING):
            with self.subTest(machine.line), self.network.playing(machine):
                before = self.passed()
                self.assertRaises(TimeoutError, page, '/ready')
                self.assertEqual(3.0, self.passed() - before)

    def test_waiting_without_a_limit_ends_the_call(self):
        with self.assertRaisesRegex(CannotBeShown, 'it waits for ever'), self.network.playing():
            time.sleep(float('inf'))
        with self.network.playing(SILENT):
            self.assertRaises(WaitsForever, socket.create_connection, (HOST, 80))
            self.assertRaises(WaitsForever, time.sleep, float('inf'))

    def test_sleep_takes_virtual_time_however_it_was_imported(self):
        with self.network.playing():
            time.sleep(100)
            sleep(20)
            globals()['sleep'](3)
        self.assertEqual(123.0, self.passed())
        self.assertIs(time.sleep, sleep)

    def test_other_threads_and_other_addresses_are_left_alone(self):
        server = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(server.close)
        begin, woken = threading.Event(), []

        def work():
            begin.wait()
            time.sleep(0)
            woken.append(self.passed())

        other = threading.Thread(target=work)
        other.start()
        with self.network.playing():
            socket.create_connection(server.getsockname()).close()
            begin.set()
            other.join()
            # A thread that the driver starts is the driver's.
            mine = threading.Thread(target=time.sleep, args=(5,))
            mine.start()
            mine.join()
        self.assertEqual([0.0], woken)
        self.assertEqual(5.0, self.passed())
        self.assertEqual([], self.network.asked)

    def test_threads_that_serve_pages_take_no_virtual_time(self):
        with self.network.playing():
            serving = ServerThread(target=time.sleep, args=(0.001,))
            serving.start()
            serving.join()
        self.assertEqual(0.0, self.passed())

    def test_a_console_is_read_or_cannot_be_read(self):
        node = samples.node('kit-1', 7)
        with self.network.playing(SILENT, _7=PAGE):
            self.assertEqual('login:', self.network.console(node))
            with self.assertRaisesRegex(ClusterDriverError, 'kit-work-8'):
                self.network.console(samples.node('kit-1', 8))
