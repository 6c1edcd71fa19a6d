"""Services behind Nova that do not answer: named beside Nova's own failure or silence."""

import socket
import threading
import unittest

from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from kiln.clock import Deadline, deadline_scope
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.nova.api.client import Services
from kiln.exceptions import AmphoraComputeError, ServiceTimeout
from kiln.foreign.waiting import Wait, noted_in
from kiln.openstack import session as nova_session
from kiln.testing.clock import VirtualClock
from kiln.wrappers.operations.errand import no_answer_so_far
from tests.unit.compute_drivers.nova.loopback import Loopback
from tests.unit.compute_drivers.nova.written import written

FAILED = 500, {}, {'computeFault': {'code': 500, 'message': 'Unexpected API Error.'}}
LIST = Asked.of('list', 'servers')
#: Real seconds after which a test fails, even on a busy machine.
PATIENCE_S = 60


class Behind(unittest.TestCase):
    def setUp(self):
        self.nova = self.enterContext(Loopback())
        self.neutron = self.enterContext(Loopback({'GET /': {'versions': []}}))
        self.glance = self.enterContext(Loopback({'GET /': (300, {}, {'versions': []})}))
        self.clock = VirtualClock()

    def open(self, **urls):
        given = {'compute': self.nova.url, 'network': self.neutron.url, 'image': self.glance.url}
        conf = written(
            *(f'{name}_endpoint_override = {url}' for name, url in {**given, **urls}.items()),
            'microversion = 2.96', 'timeout = 5',
        )  # fmt: skip
        session = Session(auth=NoAuth())
        session.session = nova_session._connections(conf, 1)
        services = Services(conf, session, region=None, clock=self.clock)
        self.addCleanup(services.close)
        return services

    def error(self, services):
        with self.assertRaises(AmphoraComputeError) as caught:
            services.ask(LIST, 'GET', '/servers')
        return caught.exception

    def closed(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            return f'http://127.0.0.1:{server.getsockname()[1]}'

    def silent(self):
        server = self.enterContext(socket.create_server(('127.0.0.1', 0)))
        return f'http://127.0.0.1:{server.getsockname()[1]}'

    def test_a_failure_of_nova_names_the_service_that_cannot_be_reached(self):
        self.nova.answers['GET /servers'] = FAILED
        url = self.closed()
        self.assertEqual(
            'Cannot list servers: Nova answered 500: Unexpected API Error. '
            f'Neutron at {url}/ cannot be reached: connection refused.',
            str(self.error(self.open(network=f'{url}/v2.0'))),
        )

    def test_a_failure_of_nova_names_the_service_that_fails(self):
        self.nova.answers['GET /servers'] = FAILED
        self.glance.answers['GET /'] = (503, {}, {})
        found = str(self.error(self.open()))
        self.assertTrue(found.endswith(f'Glance at {self.glance.url}/ answers 503.'), found)

    def test_a_failure_of_nova_alone_is_told_alone(self):
        self.nova.answers['GET /servers'] = FAILED
        self.assertTrue(str(self.error(self.open())).endswith('Unexpected API Error.'))

    def test_a_refusal_of_nova_is_no_reason_to_look(self):
        self.nova.answers['GET /servers'] = (403, {}, {'forbidden': {'message': 'no'}})
        self.error(self.open(network=self.closed()))
        self.assertEqual([], self.glance.asked)

    def test_a_call_without_time_for_a_look_blames_nobody(self):
        self.nova.answers['GET /servers'] = FAILED
        services = self.open(network=self.closed())
        with deadline_scope(Deadline.after(1.0, self.clock)):
            self.assertNotIn('Neutron', str(self.error(services)))
        self.assertEqual([], self.glance.asked)
        self.assertIn('Neutron', str(self.error(services)))

    def test_several_failures_within_seconds_are_one_look(self):
        self.nova.answers['GET /servers'] = FAILED
        services = self.open()
        for _ in range(3):
            self.error(services)
        self.assertEqual(1, len(self.neutron.asked))
        self.clock.advance(5)
        self.error(services)
        self.assertEqual(2, len(self.neutron.asked))

    def test_a_silence_of_nova_names_the_service_that_is_silent_too(self):
        url, waits, told = self.silent(), threading.Event(), []
        services, wait = self.open(network=url), Wait()

        def never(_):
            waits.wait(PATIENCE_S)
            return {'servers': []}

        def ask():
            with noted_in(wait):
                told.append(services.ask(LIST, 'GET', '/servers'))

        self.nova.answers['GET /servers'] = never
        thread = threading.Thread(target=ask)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(waits.set)
        while not wait.why:
            self.assertTrue(thread.is_alive())
            thread.join(0.01)
        self.assertEqual(
            f"Cannot list: Nova at {self.nova.url}, for backend 'east', has not answered for over "
            f'3 s. Neutron at {url}/ does not answer either.',
            str(no_answer_so_far('east', 'Cannot list', wait)),
        )
        waits.set()
        thread.join()
        # The answer that was late is read to its end.
        self.assertEqual([{'servers': []}], told)
        self.assertEqual('', wait.why)

    def test_a_request_that_took_too_long_names_the_service_that_is_silent_too(self):
        services = self.open(compute=self.silent(), network=self.silent())
        services._timeout_s = 1.0
        error = self.error(services)
        self.assertIsInstance(error, ServiceTimeout)
        self.assertIn('does not answer either.', str(error))
