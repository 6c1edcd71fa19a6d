"""Engines across a network, over TLS."""

import ssl
import tempfile
from pathlib import Path

from kiln.exceptions import ServiceUnavailable
from tests.functional.docker.certificates import authority
from tests.functional.docker.relay import Relay
from tests.functional.docker.site import EngineCase


class Tls(EngineCase):
    """A remote engine that has a certificate and requires one of its clients."""

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

    def test_a_client_with_a_valid_certificate_is_served(self):
        driver = self.open()
        made = driver.build('container', name='k1', build_key='k1')
        self.assertTrue(driver.status(made).ready)

    def test_a_client_without_certificate_is_not_served(self):
        with self.assertRaises(ServiceUnavailable):
            self.open(tls_cert=None, tls_key=None).check()

    def test_an_engine_with_a_certificate_of_another_authority_is_not_trusted(self):
        with tempfile.TemporaryDirectory() as folder:
            other = authority(Path(folder))
            with self.assertRaises(ServiceUnavailable) as caught:
                self.open(tls_ca=other['ca']).check()
        self.assertIn('TLS failed', str(caught.exception))
