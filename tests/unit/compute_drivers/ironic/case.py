"""Drivers of a played Ironic."""

import unittest

from oslo_config import cfg

import kiln.conf
from kiln.compute_drivers.ironic.driver import IronicDriver
from kiln.conf import compute as compute_conf
from kiln.testing.clock import VirtualClock
from tests.unit.compute_drivers.ironic.played import CLASS, PlayedIronic

GROUP = 'compute:metal'
IMAGE = 'http://images.example/debian.qcow2#sha256=' + '0' * 64


def options_of(**given):
    """Return the options of a backend."""
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    kiln.conf.register(conf, GROUP, compute_conf.BACKEND_OPTS)
    kiln.conf.register(conf, GROUP, IronicDriver.options)
    for name, value in {'auth_type': 'none', 'flavor': CLASS, 'image': IMAGE, **given}.items():
        conf.set_override(name, value, GROUP)
    return conf[GROUP]


class IronicCase(unittest.TestCase):
    """A driver without Keystone, on a clock that tests advance."""

    nodes = 6

    def setUp(self):
        super().setUp()
        self.clock = VirtualClock()
        self.ironic = self.enterContext(PlayedIronic(nodes=self.nodes, clock=self.clock))
        self.driver = self.open()

    def open(self, **given):
        given = {'baremetal_endpoint_override': self.ironic.url, **given}
        driver = IronicDriver.open(
            options_of(**given), name='metal', owner='site', clock=self.clock
        )
        self.addCleanup(driver.close)
        return driver

    def build(self, driver=None, **given):
        given = {'amphora_type': 'bare_metal', 'name': 'web-1', 'build_key': 'k1', **given}
        return (driver or self.driver).build(**given)

    def node_of(self, amphora_id):
        uuid = amphora_id.partition('.')[0]
        (found,) = [one for one in self.ironic.nodes.values() if one['instance_uuid'] == uuid]
        return found
