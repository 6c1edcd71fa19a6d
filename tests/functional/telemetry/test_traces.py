"""Traces that a command exports by configuration alone, as a collector receives them."""

import gzip
import http.server
import pathlib
import queue
import signal
import socketserver
import tempfile
import threading
import unittest

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kiln.cli.exit_codes import ExitCode
from kiln.exceptions import ConfigurationError
from kiln.telemetry import default_listeners
from tests.unit.cli.processes import PATIENCE_S, Processes

CONFIG = """\
[compute]
default_backend = east
tracing_endpoint = {url}
tracing_service = {service}
[compute:east]
driver = noop
path = {folder}/cloud.db
[db]
url = sqlite:///{folder}/kiln.db
[clusters]
watch = 1
"""
CLUSTER = """\
cluster: web
coe: nodes
image: debian-13
nodegroups:
  - {name: work, flavor: small, count: 1}
"""


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the requests of exporters."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        if self.headers.get('Content-Encoding') == 'gzip':
            body = gzip.decompress(body)
        self.server.received.put((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header('Content-Type', 'application/x-protobuf')
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


class Exporting(Processes):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.collector = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Collector)
        self.collector.received = queue.SimpleQueue()
        self.addCleanup(self.collector.server_close)
        thread = threading.Thread(target=self.collector.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.collector.shutdown)

    def run_kiln(self, *argv, service='kiln'):
        port = self.collector.server_address[1]
        config = self.folder / 'kiln.conf'
        url = f'http://127.0.0.1:{port}/v1/traces'
        config.write_text(CONFIG.format(folder=self.folder, url=url, service=service))
        return self.start('--config-file', str(config), *argv)

    def spans(self):
        """Return the next spans that arrive, with the name of their service."""
        path, request = self.collector.received.get(timeout=PATIENCE_S)
        self.assertEqual('/v1/traces', path)
        (found,) = request.resource_spans
        names = {one.key: one.value.string_value for one in found.resource.attributes}
        spans = [span for scope in found.scope_spans for span in scope.spans]
        return names['service.name'], {span.name: span for span in spans}

    def test_a_command_exports_its_calls(self):
        process = self.run_kiln('compute', 'list')
        service, spans = self.spans()
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))
        self.assertEqual('kiln', service)
        attributes = {one.key: one.value.string_value for one in spans['kiln.list'].attributes}
        self.assertEqual('east', attributes['kiln.backend'])

    def test_a_conductor_exports_its_calls_under_the_name_of_its_service(self):
        process = self.run_kiln('conductor', service='kiln-east')
        self.assertTrue(any('Working on clusters' in line for line in process.stderr))
        page = self.folder / 'web.yaml'
        page.write_text(CLUSTER)
        up = self.run_kiln('up', '--yes', str(page), service='kiln-up')
        self.assertEqual(ExitCode.OK, up.wait(PATIENCE_S))
        services = set()
        while 'kiln-east' not in services:
            service, spans = self.spans()
            services.add(service)
        self.assertIn('kiln.statuses', spans)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(ExitCode.OK, process.wait(PATIENCE_S))


class Refusing(unittest.TestCase):
    def test_an_endpoint_that_is_no_url_is_refused(self):
        with self.assertRaises(ConfigurationError) as caught:
            default_listeners(metrics=False, tracing=False, endpoint='127.0.0.1:4318')
        self.assertIn('Write tracing_endpoint as the whole URL', str(caught.exception))
