"""Notifications read from the message bus with the real client library."""

import contextlib
import json
import logging
import socket
import threading
import unittest

import hypothesis
from hypothesis import strategies

from kiln.compute_drivers.nova.notifications.bus import DOUBTFUL, Bus, server_of
from kiln.exceptions import ConfigurationError
from tests.unit.compute_drivers.nova.bus import TOPIC, URL, Exchange, envelope, notification, until
from tests.unit.compute_drivers.nova.corpus import NOTIFICATIONS
from tests.unit.compute_drivers.nova.loopback import listening

#: Some of these look like a part of a message.
WORDS = strategies.text() | strategies.sampled_from(
    [
        '"event_type": "scheduler.x"', '\\"event_type\\": \\"scheduler.x\\"',
        '\\\\"event_type\\\\": \\\\"scheduler.x\\\\"',
    ]
)  # fmt: skip
LOGGER = 'kiln.compute_drivers.nova.notifications.bus'


class OneMessage(unittest.TestCase):
    def told(self, event, **changes):
        return server_of(envelope(notification(event, **changes)))

    def test_the_state_has_the_field_names_of_the_api(self):
        told = self.told('instance.create.end')
        self.assertEqual('active', told['OS-EXT-STS:vm_state'])
        self.assertIsNone(told['OS-EXT-STS:task_state'])
        self.assertEqual(['kiln-key:ok', 'kiln-site:x'], told['tags'])
        self.assertEqual({'kiln:type': 'vm'}, told['metadata'])

    def test_a_failed_attempt_is_not_an_error(self):
        told = self.told('instance.create.error')
        self.assertEqual('building', told['OS-EXT-STS:vm_state'])
        self.assertTrue(told[DOUBTFUL])
        self.assertNotIn(DOUBTFUL, self.told('instance.create.end'))

    def test_a_server_without_a_valid_host_is_reported_by_the_conductor(self):
        told = server_of(envelope(notification('compute_task.build_instances.error', 'a')))
        self.assertEqual(('a', 'error'), (told['id'], told['OS-EXT-STS:vm_state']))
        self.assertTrue(told[DOUBTFUL])

    def test_an_event_without_tags_gives_none(self):
        self.assertEqual([], self.told('instance.delete.end')['tags'])
        self.assertEqual('deleted', self.told('instance.delete.end')['OS-EXT-STS:vm_state'])

    def test_a_server_is_gone_only_when_nova_has_released_all_resources(self):
        self.assertIsNone(self.told('instance.update', state='deleted'))
        self.assertIsNotNone(self.told('instance.update', state='deleting'))

    def test_messages_about_other_objects_are_skipped(self):
        self.assertIsNone(self.told('scheduler.select_destinations.end'))

    def test_shutdown_messages_are_skipped(self):
        for event in ('instance.shutdown.start', 'instance.shutdown.end'):
            message = notification('instance.update') | {'event_type': event}
            self.assertIsNone(server_of(envelope(message)))

    @hypothesis.given(WORDS, WORDS)
    def test_texts_of_users_cannot_imitate_an_event_type(self, name, value):
        told = self.told('instance.update', metadata={name: value}, display_name=value)
        self.assertEqual({name: value}, told['metadata'])
        other = notification('instance.update', metadata={name: value})
        other['event_type'] = 'instance.shutdown.end'
        # The fields before it are Nova's, but users can influence some of them.
        first = {'publisher_id': value} | other
        self.assertIsNone(server_of(envelope(first)))

    def test_every_recorded_message_can_be_read(self):
        told = [server_of(envelope(message)) for message in NOTIFICATIONS]
        self.assertEqual([True] + 9 * [False], [one is None for one in told])


class BusCase(unittest.TestCase):
    def setUp(self):
        self.exchange = Exchange()
        self.addCleanup(self.exchange.close)
        self.heard = []

    def bus(self, url=URL, **changes):
        given = {
            'exchange': self.exchange.name, 'topic': TOPIC, 'on_server': self.heard.append,
            'on_up': lambda: self.heard.append('up'), 'on_down': lambda: self.heard.append('down'),
            'gather_s': 0.005, 'again_s': 0.005,
        } | changes  # fmt: skip
        bus = Bus(url, **given)
        self.addCleanup(bus.close)
        return bus

    def listen(self, **changes):
        bus = self.bus(**changes)
        bus.start()
        until(lambda: self.heard == ['up'])
        return bus


class Listening(BusCase):
    def test_messages_are_reported_in_order(self):
        self.listen()
        for number in range(50):
            self.exchange.tell('instance.update', f's-{number}')
        until(lambda: len(self.heard) == 51)
        self.assertEqual([f's-{n}' for n in range(50)], [told['id'] for told in self.heard[1:]])

    def test_messages_with_priority_error_are_received_too(self):
        self.listen()
        self.exchange.say(envelope(notification('instance.create.error')), 'error')
        until(lambda: len(self.heard) == 2)

    def test_messages_about_other_objects_are_not_reported(self):
        self.listen()
        self.exchange.tell('scheduler.select_destinations.end')
        self.exchange.tell('instance.update', 'a')
        until(lambda: len(self.heard) == 2)
        self.assertEqual('a', self.heard[1]['id'])

    def test_several_listeners_receive_every_message(self):
        self.listen()
        second = []
        self.bus(on_server=second.append, on_up=lambda: second.append('up')).start()
        until(lambda: second == ['up'])
        self.exchange.tell('instance.update')
        until(lambda: len(self.heard) == len(second) == 2)
        self.assertEqual(self.heard, second)

    def test_start_is_safe_to_repeat(self):
        bus = self.listen()
        bus.start()
        self.exchange.tell('instance.update')
        until(lambda: len(self.heard) == 2)

    def test_close_ends_the_session_and_is_safe_to_repeat(self):
        bus = self.listen()
        bus.close()
        self.assertEqual(['up', 'down'], self.heard)
        bus.close()
        bus.start()
        self.assertEqual(['up', 'down'], self.heard)

    def test_it_is_up_until_it_is_closed(self):
        bus = self.bus()
        bus.start()
        self.assertTrue(bus.is_up(120))
        bus.close()
        self.assertFalse(bus.is_up(120))

    def test_a_bus_closed_before_start_never_starts(self):
        bus = self.bus()
        bus.close()
        bus.start()
        bus.close()
        self.assertEqual([], self.heard)

    def test_a_broken_connection_is_reported_and_reopened(self):
        def on_server(server):
            self.heard.append(server['id'])
            if server['id'] == 'breaks':
                raise ConnectionResetError('Connection reset by peer')

        self.listen(on_server=on_server)
        with self.assertLogs(LOGGER, 'INFO') as logs:
            self.exchange.tell('instance.update', 'breaks')
            until(lambda: len(self.heard) == 4)
        self.assertEqual(['up', 'breaks', 'down', 'up'], self.heard)
        self.assertIn('so Nova is polled: Connection reset by peer', logs.output[0])
        self.assertIn('Listening to notifications of Nova', logs.output[1])
        self.exchange.tell('instance.update', 'after')
        until(lambda: self.heard[-1] == 'after')


class Poison(BusCase):
    def test_unreadable_messages_are_logged_once_and_the_others_are_received(self):
        self.listen()
        nova = notification('instance.update')
        told = nova['payload']['nova_object.data']
        poison = [
            'not json', '[]', '{}', 'null', '{"oslo.message": "["}', '{"oslo.message": "[]"}',
            envelope({}), envelope({'event_type': None}),
            envelope({'event_type': 'instance.update', 'payload': {}}),
            envelope({'event_type': 'instance.update', 'payload': None}),
            envelope(nova | {'payload': {'nova_object.data': {'uuid': 's'}}}),
            envelope(nova | {'payload': {'nova_object.data': told | {'metadata': 7}}}),
            envelope(nova | {'payload': {'nova_object.data': told | {'tags': 7}}}),
            b'\xff\xfe\x00', '[' * 100_000,
        ]  # fmt: skip
        with self.assertLogs(LOGGER, 'WARNING') as logs:
            for body in poison:
                self.exchange.say(body)
            self.exchange.tell('instance.update', 'healthy')
            until(lambda: len(self.heard) == 2)
        self.assertEqual('healthy', self.heard[1]['id'])
        self.assertEqual(1, len(logs.output))

    def test_values_of_other_types_are_read_as_text(self):
        said = envelope(notification('instance.update', state=['x'], tags=[1], task_state=7))
        told = server_of(said)
        self.assertEqual("['x']", told['OS-EXT-STS:vm_state'])
        self.assertEqual(['1'], told['tags'])


class Places(BusCase):
    def test_an_unreachable_broker_is_logged_once_without_the_password(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = taken.getsockname()[1]
        bus = self.bus(f'rabbit://kiln:Tr0ub4dor@127.0.0.1:{port}/')
        with self.assertLogs(level=logging.DEBUG) as logs:
            bus.start()
            self.assertFalse(bus.is_up(120))
            until(lambda: any('so Nova is polled' in line for line in logs.output))
        self.assertNotIn('Tr0ub4dor', '\n'.join(logs.output))
        self.assertIn(f'127.0.0.1:{port}', '\n'.join(logs.output))
        self.assertEqual([], self.heard)

    def test_several_brokers_are_tried_in_turn(self):
        met = []

        def serve(connection):
            with contextlib.suppress(OSError):
                met.append(connection.recv(8))

        with socket.create_server(('127.0.0.1', 0)) as taken:
            dead = taken.getsockname()[1]
        with listening(serve) as port:
            bus = self.bus(f'rabbit://a:b@127.0.0.1:{dead},a:b@127.0.0.1:{port}/vhost')
            with self.assertLogs(LOGGER, 'WARNING') as logs:
                bus.start()
                until(lambda: met and logs.output)
            bus.close()
        self.assertEqual(b'AMQP\x00\x00\x09\x01', met[0])
        self.assertEqual(1, len(logs.output), 'one outage is one line')

    def test_close_does_not_wait_for_a_silent_broker(self):
        over = threading.Event()
        with listening(lambda connection: over.wait(120)) as port:
            bus = self.bus(f'rabbit://a:b@127.0.0.1:{port}/')
            bus.start()
            self.assertFalse(bus.is_up(0.01))
            with self.assertLogs(LOGGER, 'WARNING'):
                over.set()
                self.assertFalse(bus.is_up(120))
            bus.close()

    def test_ssl_in_the_url_uses_tls(self):
        met = []
        with listening(lambda connection: met.append(connection.recv(1))) as port:
            bus = self.bus(f'rabbit://a:b@127.0.0.1:{port}/?ssl=true')
            with self.assertLogs(LOGGER, 'WARNING') as logs:
                bus.start()
                until(lambda: met and logs.output)
            bus.close()
        self.assertEqual(b'\x16', met[0], 'the first byte of a TLS handshake')

    def test_a_missing_exchange_is_not_created(self):
        with self.assertLogs(LOGGER, 'WARNING') as logs:
            self.bus(exchange='nowhere').start()
            until(lambda: logs.output)
        self.assertIn('nowhere', logs.output[0])
        self.assertEqual([], self.heard)

    def test_an_invalid_url_is_refused_without_repeating_it(self):
        for url in (
            'Tr0ub4dor', 'http://kiln:Tr0ub4dor@east/', 'rabbit://kiln:Tr0ub4dor@east:port/',
            'rabbit://kiln:Tr0ub4dor@east:1,b:Tr0ub4dor@west:70000/', 'rabbit://Tr0ub4dor@[::1/',
        ):  # fmt: skip
            with self.subTest(url), self.assertRaises(ConfigurationError) as caught:
                self.bus(url)
            self.assertIn('notification_url must be like rabbit://', str(caught.exception))
            self.assertNotIn('Tr0ub4dor', str(caught.exception))
            self.assertIsNone(caught.exception.__cause__)


class Recording(unittest.TestCase):
    def test_the_recording_contains_no_token(self):
        for message in NOTIFICATIONS:
            self.assertIsNone(message['_context_auth_token'])
        self.assertNotIn('password', json.dumps(NOTIFICATIONS))
