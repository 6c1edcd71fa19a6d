"""One deadline and one limit of bytes for all reads of an exchange."""

import math
import socket
import threading
import time
import unittest

from kiln.foreign.answers import Flood
from kiln.foreign.exchange import TimedSocket, connect, exchange, left_s


class Exchanges(unittest.TestCase):
    def setUp(self):
        ours, self.theirs = socket.socketpair()
        self.sock = TimedSocket(ours)
        self.addCleanup(ours.close)
        self.addCleanup(self.theirs.close)

    def test_a_read_ends_with_the_exchange_however_often_a_byte_arrives(self):
        over = threading.Event()

        def drip():
            while not over.wait(0.01):
                self.theirs.send(b'x')

        thread = threading.Thread(target=drip)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        began = time.monotonic()
        with exchange(0.1), self.sock.makefile('rb') as file, self.assertRaises(TimeoutError):
            file.read(1_000_000)
        self.assertGreaterEqual(time.monotonic() - began, 0.1)

    def test_a_write_that_nobody_reads_ends_with_the_exchange(self):
        with exchange(0.05), self.assertRaises(TimeoutError):
            self.sock.sendall(b'x' * 10_000_000)

    def test_the_limit_of_bytes_is_that_of_all_reads(self):
        self.theirs.send(b'x' * 100)
        with exchange(5, 50), self.assertRaises(Flood):
            for _ in range(10):
                self.sock.recv(10)

    def test_the_limits_of_an_outer_exchange_hold_in_an_inner_one(self):
        self.theirs.send(b'x' * 100)
        with exchange(5, 15):
            with exchange(math.inf):
                self.assertLessEqual(left_s(), 5)
                self.sock.recv(10)
            with exchange(5, 1000), self.assertRaises(Flood):
                self.sock.recv(10)
        with exchange(0), exchange(5), self.assertRaises(TimeoutError):
            self.sock.recv(1)

    def test_outside_of_an_exchange_a_socket_has_its_own_time_out(self):
        self.sock.settimeout(0.01)
        with self.assertRaises(TimeoutError):
            self.sock.recv(1)
        self.assertEqual(left_s(7), 7)
        self.assertIsNone(left_s())

    def test_the_addresses_of_a_host_share_the_time(self):
        with exchange(0), self.assertRaises(TimeoutError):
            connect('127.0.0.1', 9)
