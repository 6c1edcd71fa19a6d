"""Options of a simulated cloud in kiln.conf."""

import os
import pathlib
import tempfile
import unittest
import unittest.mock

from oslo_config import cfg

from kiln import conf as configuration
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import (
    ConfigurationError,
    QuotaExceeded,
    ServiceUnavailable,
    UnsupportedOperation,
)
from kiln.models import State
from kiln.testing.clock import VirtualClock


class OptionsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = VirtualClock()

    def open(self, text='', environment=None):
        path = self.folder / 'kiln.conf'
        path.write_text(f'[compute:east]\n{text}')
        conf = configuration.load([str(path)], [], environment=environment or {})
        group = configuration.register(conf, 'compute:east', NoopDriver.options)
        driver = NoopDriver.open(group, name='east', owner='site', clock=self.clock)
        self.addCleanup(driver.close)
        return driver

    def test_the_defaults_are_those_of_the_constructor(self):
        driver = self.open()
        by_hand = NoopDriver()
        for field, value in vars(by_hand.cloud.catalogue).items():
            configured = getattr(driver.cloud.catalogue, field)
            if isinstance(value, tuple):
                value = list(value)
            self.assertEqual(configured, value, field)
        self.assertEqual((driver.name, driver.owner), ('east', 'site'))
        self.assertEqual(driver.abilities, by_hand.abilities)

    def test_the_cloud_uses_the_clock_it_is_opened_with(self):
        driver = self.open('build_s = 30\nzones = z1,z2\nquota = 1\ncapacity = z1:0,z2:5')
        amphora_id = driver.build()
        self.assertEqual(driver.get_amphora(amphora_id=amphora_id).availability_zone, 'z2')
        self.assertIs(driver.status(amphora_id).state, State.BUILDING)
        self.clock.advance(30)
        self.assertIs(driver.status(amphora_id).state, State.ACTIVE)
        self.assertRaises(QuotaExceeded, driver.build)

    def test_the_least_value_of_an_option_is_accepted_and_no_lower_one(self):
        times = ('accept_s', 'build_s', 'delete_s', 'suspend_s', 'resume_s', 'reboot_s', 'jitter')
        lowest = dict.fromkeys((*times, 'rebuild_s', 'quota'), 0) | {'hosts_per_zone': 1}
        for name, least in lowest.items():
            with self.subTest(name):
                self.open(f'{name} = {least}')
                self.assertRaises(ConfigurationError, self.open, f'{name} = {least - 1}')
        self.open('capacity = az1:0')
        self.assertRaises(ConfigurationError, self.open, 'capacity = az1:-1')
        self.open('jitter = 1')
        self.assertRaises(ConfigurationError, self.open, 'jitter = 1.1')

    def test_a_file_below_the_home_of_the_user_can_be_named_by_a_tilde(self):
        self.enterContext(unittest.mock.patch.dict(os.environ, HOME=str(self.folder)))
        self.open('path = ~/cloud.db')
        self.assertTrue((self.folder / 'cloud.db').exists())

    def test_faults_are_separated_by_semicolons(self):
        driver = self.open('faults = build:refuse:times=1;\n  status:refuse')
        self.assertRaises(ServiceUnavailable, driver.build)
        self.assertRaises(ServiceUnavailable, driver.status, driver.build())

    def test_a_fault_can_come_from_the_environment(self):
        driver = self.open(environment={'KILN_COMPUTE_EAST__FAULTS': 'build:refuse'})
        self.assertRaises(ServiceUnavailable, driver.build)

    def test_a_malformed_fault_is_refused_at_once(self):
        with self.assertRaises(ConfigurationError) as caught:
            self.open('faults = build:explode')
        self.assertIn('explode', str(caught.exception))

    def test_abilities_can_be_left_out(self):
        driver = self.open('missing_abilities = suspend,console_log')
        self.assertRaises(UnsupportedOperation, driver.suspend, driver.build())
        with self.assertRaises(ConfigurationError) as caught:
            self.open('missing_abilities = flying')
        self.assertIn('flying', str(caught.exception))

    def test_a_file_keeps_the_cloud(self):
        text = f'path = {self.folder / "cloud.db"}'
        first = self.open(text)
        amphora_id = first.build(name='kept')
        first.close()
        first.close()
        self.assertEqual(self.open(text).get_amphora('kept').id, amphora_id)

    def test_every_option_has_a_help_text(self):
        for option in NoopDriver.options:
            self.assertIsInstance(option, cfg.Opt)
            self.assertTrue(option.help.endswith('.'), option.name)
