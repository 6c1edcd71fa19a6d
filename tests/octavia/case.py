"""Base class of the tests inside Octavia: configuration and simulated cloud."""

import pathlib
import tempfile
import unittest

from octavia.common import config
from stevedore import driver as stevedore_driver

from kiln.adapters.octavia.shared import SHARED
from kiln.compute_drivers.noop.faults import Fault

CONF = config.cfg.CONF
# Octavia's programs do this at their start; its tasks read the options registered here.
config.register_cli_opts()

AMPHORA = '3a9f1f86-3f3e-4c44-8f32-1f0e9a1e3a11'
NAME = f'amphora-{AMPHORA}'


class OctaviaCase(unittest.TestCase):
    """Octavia's own configuration, read from a file as its programs read it."""

    compute_driver = 'kiln_noop'

    def setUp(self):
        super().setUp()
        self.addCleanup(SHARED.close)
        self.addCleanup(CONF.reset)
        self.configure()

    def configure(self, text=''):
        """Start again with these lines of octavia.conf."""
        SHARED.close()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = folder / 'octavia.conf'
        # A group can occur twice in a file, and the later value takes precedence.
        worker = f'compute_driver = {self.compute_driver}\namp_boot_network_list = lb-mgmt\n'
        path.write_text(f'[controller_worker]\n{worker}{text}')
        CONF([], project='octavia', default_config_files=[str(path)])

    @property
    def compute(self):
        """Create a driver, as each of Octavia's tasks does."""
        return stevedore_driver.DriverManager(
            namespace='octavia.compute.drivers',
            name=CONF.controller_worker.compute_driver,
            invoke_on_load=True,
        ).driver

    @property
    def noop(self):
        return SHARED.get('noop', CONF)

    def amphorae(self):
        return list(self.noop.list_amphorae().result())

    def fail_calls(self, call, action, **facts):
        """Let calls to the cloud fail from now on."""
        self.noop.driver.cloud.faults.add(Fault(call=call, action=action, **facts))

    def build(self, **changes):
        """Build as ComputeCreate does, with all twelve keywords."""
        given = {
            'name': NAME, 'amphora_flavor': 'm1.amphora', 'image_tag': 'amphora',
            'image_owner': '', 'key_name': '', 'sec_groups': ['lb-sec'],
            'network_ids': ['lb-mgmt'], 'port_ids': [],
            'config_drive_files': {'/etc/octavia/certs/server.pem': 'KEY'},
            'user_data': '#cloud-config', 'server_group_id': None, 'availability_zone': None,
        }  # fmt: skip
        return self.compute.build(**given | changes)
