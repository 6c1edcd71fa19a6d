"""The proxy as a command of its own."""

import signal
import subprocess
import sys

from tests.unit.testing.proxy.server import ProxyCase


class Command(ProxyCase):
    def start(self, *arguments):
        command = [sys.executable, '-m', 'kiln.testing.proxy', *arguments]
        process = self.enterContext(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        self.addCleanup(process.kill)
        return process

    def test_it_misbehaves_as_told_and_says_what_happened(self):
        rules = ['POST /servers lose_answer instead=reset times=1', '* /flavors answer status=500']
        process = self.start(
            '--upstream', self.server.url, '--fault', rules[0], '--fault', rules[1]
        )
        url, _, rest = process.stdout.readline().partition(' ')
        self.assertEqual(f'forwards to {self.server.url}\n', rest)
        with self.assertRaises(OSError):
            self.client.post(url + '/servers', timeout=120)
        self.assertEqual(500, self.client.get(url + '/flavors', timeout=120).status_code)
        self.assertEqual(200, self.client.get(url + '/servers', timeout=120).status_code)
        process.send_signal(signal.SIGTERM)
        printed, errors = process.communicate(timeout=120)
        lines = printed.splitlines()
        self.assertRegex(lines[0], '^POST /servers: 200 from .* LoseAnswer$')
        self.assertRegex(lines[1], '^GET /flavors: no answer from .* 500 to .* Answer$')
        self.assertRegex(lines[2], '^GET /servers: 200 from .* 200 to .* no fault$')
        self.assertEqual('3 requests; faults: 1 Answer, 1 LoseAnswer', lines[3])
        self.assertEqual((0, ''), (process.returncode, errors))

    def test_an_interrupt_ends_it_without_a_traceback(self):
        process = self.start('--upstream', self.server.url)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        self.assertEqual(('0 requests; faults: none\n', ''), process.communicate(timeout=120))
        self.assertEqual(0, process.returncode)

    def test_a_mistake_is_one_line(self):
        taken = ['--upstream', 'http://127.0.0.1:1', '--port', str(self.server.server_port)]
        for arguments, why in (
            (['--upstream', 'ftp://cloud'], "Cannot forward to 'ftp://cloud'"),
            (['--upstream', 'http://cloud', '--fault', 'nonsense'], "'nonsense' must be"),
            (taken, 'Address already in use'),
        ):
            with self.subTest(why):
                process = self.start(*arguments)
                printed, errors = process.communicate(timeout=120)
                self.assertEqual((2, ''), (process.returncode, printed))
                self.assertIn(why, errors.splitlines()[-1])
                self.assertNotIn('Traceback', errors)
