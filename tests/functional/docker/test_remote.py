"""Engines that are asked across a network, by TLS and by ssh."""

import os
import ssl
import sys
import tempfile
from pathlib import Path

from kiln.exceptions import ServiceUnavailable
from tests.functional.docker.certificates import authority
from tests.functional.docker.relay import Relay
from tests.functional.docker.site import EngineCase


class Tls(EngineCase):
    """An engine across a network, which shows a certificate and asks for one."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.files = authority(Path(folder))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cls.files['server'], cls.files['server_key'])
        context.load_verify_locations(cls.files['ca'])
        context.verify_mode = ssl.CERT_REQUIRED
        cls.far = Relay(cls.place.socket, context)
        cls.addClassCleanup(cls.far.close)
        cls.url = f'tcp://127.0.0.1:{cls.far.port}'

    def open(self, **given):
        wanted = {
            'tls_ca': self.files['ca'],
            'tls_cert': self.files['client'],
            'tls_key': self.files['client_key'],
        }
        return self.open_driver(url=self.url, **{**wanted, **given})

    def test_who_shows_the_right_certificate_is_served(self):
        driver = self.open()
        made = driver.build('container', name='k1', build_key='k1')
        self.assertTrue(driver.status(made).ready)

    def test_who_shows_none_is_not_served(self):
        with self.assertRaises(ServiceUnavailable):
            self.open(tls_cert=None, tls_key=None).check()

    def test_an_engine_that_another_authority_vouches_for_is_not_trusted(self):
        with tempfile.TemporaryDirectory() as folder:
            other = authority(Path(folder))
            with self.assertRaises(ServiceUnavailable) as caught:
                self.open(tls_ca=other['ca']).check()
        self.assertIn('TLS failed', str(caught.exception))


#: Stands for the command of that name: notes what it is asked, and leads to the engine.
_SSH = """#!{python}
import pathlib, socket, sys, threading

pathlib.Path({noted!r}).write_text(' '.join(sys.argv[1:]))
engine = socket.socket(socket.AF_UNIX)
engine.connect({path!r})

def back():
    while data := engine.recv(65536):
        sys.stdout.buffer.raw.write(data)

threading.Thread(target=back, daemon=True).start()
while data := sys.stdin.buffer.raw.read(65536):
    engine.sendall(data)
"""


class Ssh(EngineCase):
    """An engine on a host that lets kiln in by ssh."""

    def test_the_command_is_asked_to_lead_to_the_engine(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        noted = folder / 'noted'
        (folder / 'ssh').write_text(
            _SSH.format(python=sys.executable, noted=str(noted), path=str(self.place.socket))
        )
        (folder / 'ssh').chmod(0o755)
        before = os.environ['PATH']
        self.addCleanup(os.environ.__setitem__, 'PATH', before)
        os.environ['PATH'] = f'{folder}:{before}'
        driver = self.open_driver(url='ssh://kiln@far.example')
        made = driver.build('container', name='k1', build_key='k1')
        self.assertTrue(driver.status(made).ready)
        self.assertIn('kiln', noted.read_text())
        self.assertIn('far.example', noted.read_text())
        self.assertIn('docker system dial-stdio', noted.read_text())
