"""Errors of calls that reach no engine: each names its action, and what it is about."""

import pathlib
import unittest

from kiln.compute_drivers.docker.driver import DockerDriver
from kiln.exceptions import ServiceUnavailable
from kiln.models import ImageFile, Resource
from tests.unit.compute_drivers.docker.test_settings import options

I = 'a' * 64  # noqa: E741
VOLUME = Resource(kind='volume', id='v1', owner='site')
#: Any file will do, as nothing is sent.
IMAGE = ImageFile(name='plain:1', path=pathlib.Path(__file__))
AMPHORA, BOTH = {'amphora_id': I}, {'amphora_id': I, 'resource_id': 'net'}
IMAGE_NAME, BUILD = {'resource_id': 'plain:1'}, {'build_key': 'k1'}
CALLS = (
    (f'get {I}', AMPHORA, lambda driver: driver.get_amphora(amphora_id=I)),
    (f'delete {I}', AMPHORA, lambda driver: driver.delete(I)),
    (f'suspend {I}', AMPHORA, lambda driver: driver.suspend(I)),
    (f'resume {I}', AMPHORA, lambda driver: driver.resume(I)),
    (f'reboot {I}', AMPHORA, lambda driver: driver.reboot(I)),
    (f'read the console log of {I}', AMPHORA, lambda driver: driver.console_log(I)),
    (f'attach network net to {I}', BOTH, lambda driver: driver.attach_network(I, 'net')),
    (f'detach network net from {I}', BOTH, lambda driver: driver.detach_network(I, 'net')),
    ('use image plain:1', IMAGE_NAME, lambda driver: driver.validate_image('plain:1')),
    ('use image plain:1', IMAGE_NAME, lambda driver: driver.describe_image('plain:1')),
    ('use network n', {'resource_id': 'n'}, lambda driver: driver.validate_network('n')),
    ('delete volume v1', {'resource_id': 'v1'}, lambda driver: driver.delete_resource(VOLUME)),
    ('look for build k1', BUILD, lambda driver: driver.find_build('k1')),
    ('build web', BUILD, lambda driver: driver.build('container', name='web', build_key='k1')),
    ('find web', {}, lambda driver: driver.get_amphora(amphora_name='web')),
    ('list the amphorae of site', {}, lambda driver: driver.list_amphorae()),
    ('list the resources of site', {}, lambda driver: driver.list_resources()),
    ('read changes', {}, lambda driver: driver.changes()),
    ('check the backend', {}, lambda driver: driver.check()),
    ('import image plain:1', {}, lambda driver: driver.import_image(IMAGE)),
)


class Subjects(unittest.TestCase):
    def test_an_error_names_its_action_and_its_subject(self):
        driver = DockerDriver.open(
            options(url='tcp://127.0.0.1:1', image='plain:1'), name='here', owner='site'
        )
        self.addCleanup(driver.close)
        for action, subject, call in CALLS:
            with self.subTest(action):
                with self.assertRaisesRegex(ServiceUnavailable, f'Cannot {action}: ') as caught:
                    call(driver)
                named = caught.exception.to_dict()
                for fact in ('amphora_id', 'resource_id', 'build_key'):
                    self.assertEqual(subject.get(fact), named.get(fact), fact)
