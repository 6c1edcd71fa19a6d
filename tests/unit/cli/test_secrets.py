"""A password that a server echoes is in nothing that the command prints or logs."""

import base64
import json
import logging
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter, FluentFormatter, JSONFormatter

from kiln.cli.logs import Masking
from kiln.clusters.exceptions import StoreError
from kiln.exceptions import KNOWN_SECRETS
from tests.unit.cli.processes import PATIENCE_S, Processes
from tests.unit.cli.shell import Shell

MARKER = 'MARKER-of-Nova+1'


class _Echo(BaseHTTPRequestHandler):
    """A Keystone that quotes what it refuses, in a form that no pattern knows."""

    def do_GET(self):
        link = {'rel': 'self', 'href': f'http://127.0.0.1:{self.server.server_port}/v3/'}
        self.answer(200, {'version': {'id': 'v3.14', 'status': 'stable', 'links': [link]}})

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        forms = body.decode(), base64.b64encode(b'-' + MARKER.encode()).decode(), repr(body)
        self.answer(400, {'error': {'message': f'I got {MARKER}; {forms}', 'code': 400}})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Echoed(Shell, Processes):
    def setUp(self):
        super().setUp()
        server = ThreadingHTTPServer(('127.0.0.1', 0), _Echo)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.config.write_text(
            '[compute:nova]\n'
            f'auth_url = http://127.0.0.1:{server.server_port}/v3\nusername = me\n'
            f'password = {MARKER}\nproject_name = p\n'
            'user_domain_name = Default\nproject_domain_name = Default\n'
        )

    def test_it_is_in_no_output_and_no_log_at_any_verbosity(self):
        forms = (MARKER, 'TUFSS0VSLW9mLU5vdm', 'FSS0VSLW9mLU5vdmE')
        for more in ([], ['--debug'], ['-vvv', '--debug']):
            process = self.start(
                '--config-file', str(self.config), '--backend', 'nova', *more, 'compute', 'list'
            )
            said = ''.join(process.communicate(timeout=PATIENCE_S))
            self.assertEqual(7, process.returncode, said)
            self.assertIn('Keystone refuses the credentials', said)
            self.assertEqual([], [form for form in forms if form in said])


def log_options():
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    return conf


class Formatted(unittest.TestCase):
    def record(self):
        try:
            raise ValueError(f'the server said {MARKER}')
        except ValueError:
            found = sys.exc_info()
        return logging.LogRecord(
            'somebody.else', logging.ERROR, 'x.py', 1, 'said "%s"', (MARKER,), found
        )

    def setUp(self):
        KNOWN_SECRETS.note(MARKER)

    def test_an_error_that_is_being_handled_is_not_added_to_what_kiln_says_of_it(self):
        formatter = Masking(ContextFormatter(config=log_options()))
        record = logging.LogRecord('kiln.x', logging.WARNING, 'x.py', 1, 'it failed: no', (), None)
        try:
            raise StoreError('no')
        except StoreError:
            self.assertTrue(formatter.format(record).endswith('it failed: no'))

    def test_messages_and_tracebacks_of_any_library_are_masked(self):
        record = self.record()
        text = Masking(logging.Formatter('%(message)s')).format(record)
        self.assertTrue(text.startswith('said "***"\nTraceback'), text)
        self.assertNotIn(MARKER, text)
        self.assertNotIn(MARKER, record.exc_text)

    def test_a_mask_leaves_json_whole(self):
        told = json.loads(Masking(JSONFormatter()).format(self.record()))
        self.assertEqual('said "***"', told['message'])
        self.assertNotIn(MARKER, json.dumps(told))

    def test_plain_data_is_masked_as_well(self):
        self.assertNotIn(MARKER, repr(Masking(FluentFormatter()).format(self.record())))

    def test_a_traceback_that_a_handler_formats_itself_is_masked(self):
        text = Masking(logging.Formatter()).formatException(self.record().exc_info)
        self.assertNotIn(MARKER, text)
        self.assertIn('the server said ***', text)


if __name__ == '__main__':
    unittest.main()
