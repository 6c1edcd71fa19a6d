"""A node of Ironic whose ports are those of a Neutron."""

import unittest

from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.models import AmphoraType
from tests.unit.compute_drivers.ironic.played import PlayedIronic
from tests.unit.compute_drivers.ironic.played_neutron import PlayedNeutron
from tests.unit.compute_drivers.ironic.written import written

IMAGE = f'https://h/i#sha256={"0" * 64}'
DEPLOY = 'PUT /v1/nodes/n-1/states/provision'
CLAIMS = 'POST /v1/allocations'
ATTACH = 'POST /v1/nodes/n-1/vifs'
PORT = '/v2.0/ports/[0-9a-f-]{36}'


class Case(unittest.TestCase):
    def setUp(self):
        self.ironic = self.enterContext(PlayedIronic(network_interface='flat'))
        self.neutron = self.enterContext(PlayedNeutron())
        self.driver = self.opened(f'network_endpoint_override = {self.neutron.url}')

    def opened(self, *more):
        conf = written(
            'auth_type = none', f'baremetal_endpoint_override = {self.ironic.url}',
            'flavor = bm', f'image = {IMAGE}', 'lock_wait = 0', *more,
        )  # fmt: skip
        driver = IronicDriver.open(conf, name='metal', owner='site')
        self.addCleanup(driver.close)
        return driver

    def build(self, **given):
        return self.driver.build(
            AmphoraType.BARE_METAL, **{'build_key': 'k-1', 'name': 'web-1', **given}
        )

    def active(self, **given):
        built = self.build(**given)
        self.ironic.nodes[0]['provision_state'] = 'active'
        return built

    def refused(self, kind, said, **given):
        with self.assertRaisesRegex(kind, said) as caught:
            self.build(**given)
        return caught.exception

    def asked(self, *services):
        """Return the changes that services were asked for."""
        return [what for one in services for what, _, _ in one.asked if not what.startswith('GET')]

    def assert_nothing_is_left(self):
        self.assertEqual([], [one for one in self.neutron.ports.values() if one['device_id']])
        self.assertEqual(({}, []), (self.ironic.claims, self.ironic.vifs))
