"""Connections to a broker: what it says is read, but no frame and no message of any length."""

import struct
import threading
import unittest

from amqp.serialization import dumps

from kiln.compute_drivers.nova.notifications import broker
from kiln.compute_drivers.nova.notifications.bus import Bus
from kiln.foreign.answers import MOST_BYTES, Flood
from tests.unit.foreign.hostile import HostileServer

START = struct.pack('>HHBB', 10, 10, 0, 9) + dumps('FSS', ({}, b'PLAIN', b'en_US'))


def frame(kind, content, channel=0):
    return struct.pack('>BHI', kind, channel, len(content)) + content + b'\xce'


class Connecting(unittest.TestCase):
    """A broker that a test plays."""

    def listen(self, behave):
        """Return what a bus logs about a broker, once its first attempt has failed."""
        server = self.enterContext(HostileServer(behave))
        bus = Bus(
            f'rabbit://me:x@127.0.0.1:{server.port}/', exchange='nova', topic='x',
            on_server=print, on_up=print, on_down=print, again_s=60.0,
        )  # fmt: skip
        with self.assertLogs('kiln', 'WARNING') as logs:
            bus.start()
            self.addCleanup(bus.close)
            self.assertFalse(bus.is_up(60.0))
        return logs.output[0]

    def test_frames_of_a_broker_are_read_and_answered(self):
        heard, done = [], threading.Event()

        def behave(server, stream):
            stream.sendall(frame(1, START))
            heard.append(stream.recv(65536))
            done.set()

        self.listen(behave)
        self.assertTrue(done.wait(60))
        # A method frame of class connection, start-ok, with the account.
        self.assertEqual((1, 0, 10, 11), struct.unpack('>BH4xHH', heard[0][:11]))
        self.assertIn(b'PLAIN', heard[0])

    def test_a_frame_that_is_too_long_is_not_read(self):
        def behave(server, stream):
            stream.sendall(struct.pack('>BHI', 1, 0, MOST_BYTES + 1))
            server.over.wait(60)

        self.assertIn(f'the answer has more than {MOST_BYTES} bytes', self.listen(behave))


class Messages(unittest.TestCase):
    """Frames of messages on their way to the client library."""

    def setUp(self):
        self.delivered = []
        connection = type('Connection', (), {'bytes_recv': 0})()
        self.take = broker._frames(connection, lambda *one: self.delivered.append(one[3]))

    def announce(self, size, channel=1):
        self.take((1, channel, struct.pack('>HH', 60, 60)))
        self.take((2, channel, struct.pack('>HHQH', 60, 0, size, 0)))

    def test_a_message_comes_in_parts(self):
        self.announce(4)
        for part in (b'ab', b'cd'):
            self.take((3, 1, part))
        self.assertEqual([b'abcd'], [one.body for one in self.delivered])

    def test_a_message_that_is_too_long_is_refused_by_its_header(self):
        with self.assertRaises(Flood):
            self.announce(MOST_BYTES + 1)

    def test_a_message_longer_than_its_header_says_is_refused(self):
        self.announce(4)
        self.take((3, 1, b'abc'))
        with self.assertRaises(Flood):
            self.take((3, 1, b'de'))

    def test_channels_are_bounded_each(self):
        self.announce(2, channel=1)
        self.announce(2, channel=2)
        for channel in (1, 2):
            self.take((3, channel, b'ab'))
        self.assertEqual(2, len(self.delivered))
