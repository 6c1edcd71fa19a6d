"""Builds through all of kiln while the way to the engine loses, resets and stalls."""

import ssl
import tempfile
from pathlib import Path

from kiln.exceptions import ServiceUnavailable
from kiln.models import AmphoraType
from kiln.testing.proxy import Answer, Hang, LoseAnswer, Reset
from tests.functional.docker.certificates import authority
from tests.functional.docker.relay import Relay
from tests.functional.docker.site import EngineCase

BUILDS = 12
TRIES = 4
WAIT_S = 90


class Storm(EngineCase):
    def test_no_build_is_doubled_and_none_is_lost(self):
        compute = self.open_compute(networks=['none'], timeout=3.0, circuit_minimum_calls=1000)
        for method, path in (
            ('POST', '/containers/create'), ('POST', '/containers/[^/]+/start'),
            ('PUT', '/containers/[^/]+/archive'), ('DELETE', '/containers/[^/]+'),
        ):  # fmt: skip
            faults = [LoseAnswer(Reset()), Reset(), Answer(503), LoseAnswer(Answer(502)), Hang()]
            self.proxy.fault(faults, method, path, chance=0.4, times=8)
        keys = [f'storm-{number}' for number in range(BUILDS)]
        built = {}
        for _ in range(TRIES):
            under_way = {
                key: compute.build(AmphoraType.CONTAINER, name=key, build_key=key, user_data='x')
                for key in keys
                if key not in built
            }
            for key, operation in under_way.items():
                if operation.exception(WAIT_S) is None:
                    built[key] = operation.result(0)
        self.assertEqual(BUILDS, len(built))
        found = self.containers()
        self.assertEqual(sorted(built.values()), sorted(one['Id'] for one in found))
        self.assertEqual({'running'}, {one['State'] for one in found})
        for _ in range(TRIES):
            for operation in [compute.delete(amphora_id) for amphora_id in built.values()]:
                operation.exception(WAIT_S)
        self.assertEqual([], self.containers())


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
