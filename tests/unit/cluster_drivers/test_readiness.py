"""Readiness rules of nodes, on real sockets."""

import http.server
import re
import socket
import threading
import time
import unittest

from kiln.clock import Deadline, deadline_scope
from kiln.cluster_drivers.readiness import LOOK_S, WhenActive, WhenConsole, WhenHttp, WhenTcp
from kiln.cluster_drivers.values import READY, Readiness, ReadyState
from kiln.clusters.exceptions import ClusterDriverError
from tests.unit.cluster_drivers.samples import context, node

HERE = node(address='127.0.0.1')


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(self.path[1:]))
        self.end_headers()

    def log_message(self, *arguments):
        pass


class Rules(unittest.TestCase):
    def listen(self):
        listener = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(listener.close)
        return listener.getsockname()[1]

    def closed_port(self):
        with socket.create_server(('127.0.0.1', 0)) as listener:
            return listener.getsockname()[1]

    def serve(self):
        server = http.server.HTTPServer(('127.0.0.1', 0), Page)
        thread = threading.Thread(target=server.serve_forever, kwargs={'poll_interval': 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server.server_port

    def assert_not_yet(self, found, reason):
        self.assertIs(ReadyState.NOT_YET, found.state)
        self.assertRegex(found.reason, reason)

    def test_a_node_is_ready_not_ready_or_failed(self):
        never = Readiness.failed('no disk')
        self.assertEqual((ReadyState.FAILED, 'no disk'), (never.state, never.reason))
        self.assertEqual(3, len({READY, Readiness.not_yet('no disk'), never}))

    def test_a_node_whose_machine_runs_is_ready(self):
        self.assertEqual(READY, WhenActive()(context(), HERE))

    def test_a_matching_console_log_makes_a_node_ready(self):
        rule = WhenConsole(re.compile('^kiln: done$', re.MULTILINE))
        about = context(console=lambda one: f'boot {one.id}\nkiln: done\n')
        self.assertEqual(READY, rule(about, HERE))
        self.assert_not_yet(rule(context(console=lambda _: 'kiln: do'), HERE), 'kiln: done')

    def test_a_missing_console_log_is_an_error_that_names_the_node(self):
        with self.assertRaisesRegex(ClusterDriverError, 'blue-work-1'):
            WhenConsole(re.compile('x'))(context(), HERE)

    def test_an_open_port_makes_a_node_ready(self):
        self.assertEqual(READY, WhenTcp(self.listen())(context(), HERE))
        port = self.closed_port()
        self.assert_not_yet(WhenTcp(port)(context(), HERE), f'port {port} accepts no connection')

    def test_a_successful_http_response_makes_a_node_ready(self):
        port = self.serve()
        for status in (200, 204, 301):
            self.assertEqual(READY, WhenHttp(port, f'/{status}')(context(), HERE))
        for status in (404, 503):
            found = WhenHttp(port, f'/{status}')(context(), HERE)
            self.assert_not_yet(found, f'responds to /{status} with {status}')
        self.assert_not_yet(WhenHttp(self.closed_port())(context(), HERE), 'does not answer')

    def test_a_port_that_does_not_speak_http_is_not_ready(self):
        listener = socket.create_server(('127.0.0.1', 0))

        def answer():
            with listener, listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b'SSH-2.0-x\r\n\r\n')

        thread = threading.Thread(target=answer)
        thread.start()
        self.addCleanup(thread.join)
        found = WhenHttp(listener.getsockname()[1])(context(), HERE)
        self.assert_not_yet(found, 'does not answer')

    def test_a_node_without_an_address_is_not_reached(self):
        for rule in (WhenTcp(1), WhenHttp(1)):
            self.assert_not_yet(rule(context(), node()), 'no address')

    def test_a_poll_ends_at_the_deadline_of_the_call(self):
        # The listener accepts connections and never answers.
        rule = WhenHttp(self.listen())
        began = time.monotonic()
        for left in (0.1, *[-1.0] * 10):
            with deadline_scope(Deadline.after(left)):
                self.assert_not_yet(rule(context(), HERE), 'does not answer')
        self.assertLess(time.monotonic() - began, 11 * LOOK_S)
