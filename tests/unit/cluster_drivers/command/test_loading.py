"""Command drivers from folders: what they declare, and what is refused before anything happens."""

import dataclasses
import os
import pathlib
import pwd
import tempfile
import unittest

from kiln import conf as kiln_conf
from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import open_driver
from kiln.cluster_drivers.command.protocol import Verb
from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_drivers.discovery.lint import mistakes_in, unchecked_in
from kiln.cluster_drivers.values import Cap
from kiln.clusters.exceptions import InvalidClusterDriver
from tests.unit.cluster_drivers.command.folders import DESCRIBED, DRIVER, write_driver

MORE = """\
capabilities: [upgrade]
parameters:
  size: {type: integer, default: 3}
timeout: 10m
grace: 5s
"""


class Loading(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def refused(self, words, **given):
        folder = write_driver(self.root, **given)
        with self.assertRaisesRegex(InvalidClusterDriver, words):
            load_directory(folder)
        self.assertNotEqual((), mistakes_in(folder))

    def test_a_folder_without_python_is_a_driver(self):
        folder = write_driver(self.root)
        driver_class = load_directory(folder)
        self.assertTrue(issubclass(driver_class, ClusterDriver))
        self.assertFalse(issubclass(driver_class, NodeClusterDriver))
        self.assertEqual(('acme_v1', '1.0.0'), (driver_class.name, driver_class.version))
        self.assertEqual(frozenset(), driver_class.capabilities)
        self.assertEqual(((), ()), (mistakes_in(folder), unchecked_in(folder)))
        open_driver(driver_class)

    def test_its_program_describes_itself_once_however_often_the_driver_is_opened(self):
        described = DESCRIBED + "'; echo >>" + f"'{self.root}/described"
        driver_class = load_directory(write_driver(self.root, described=described))
        open_driver(driver_class)
        self.assertEqual('\n', (self.root / 'described').read_text())
        self.assertIn(Verb.STATUS, open_driver(driver_class).verbs_known)

    def test_it_is_found_on_the_driver_path(self):
        write_driver(self.root)
        catalogue = discover(DiscoverySettings(driver_path=(self.root,)))
        (record,) = (one for one in catalogue.records if one.name == 'acme_v1')
        self.assertEqual('acme_v1', catalogue.load(record).whole_class().name)

    def loaded_with(self, option, value):
        """Load the driver as a site does that has an option."""
        write_driver(self.root)
        values = kiln_conf.load([], [], environment={f'KILN_CLUSTERS__{option}': value}).clusters
        settings = DiscoverySettings.from_options(values)
        catalogue = discover(dataclasses.replace(settings, driver_path=(self.root,)))
        (record,) = (one for one in catalogue.records if one.name == 'acme_v1')
        return catalogue.load(record).whole_class()

    def test_a_user_who_cannot_run_programs_is_refused_before_any_is_run(self):
        words = r"\[clusters\] program_user: 'no-such-user' is not a user of this host"
        with self.assertRaisesRegex(InvalidClusterDriver, words):
            self.loaded_with('PROGRAM_USER', 'no-such-user')

    def test_the_user_of_kiln_needs_no_change(self):
        mine = pwd.getpwuid(os.geteuid()).pw_name
        self.assertIsNone(self.loaded_with('PROGRAM_USER', mine).account)

    def test_runs_are_where_the_site_has_them(self):
        self.assertEqual(
            self.root / 'runs', self.loaded_with('RUN_PATH', f'{self.root}/runs').runs_in
        )

    def test_what_it_declares_is_known(self):
        driver_class = load_directory(write_driver(self.root, yaml=DRIVER + MORE))
        self.assertEqual({Cap.UPGRADE}, driver_class.capabilities)
        self.assertEqual(3, driver_class.parameters['size'].default)
        self.assertEqual((600.0, 5.0), (driver_class.timeout_s, driver_class.grace_s))

    def test_a_program_that_does_not_exist_is_refused(self):
        self.refused(
            'there is no file run', yaml=DRIVER.replace('program: program', 'program: run')
        )

    def test_a_program_elsewhere_is_refused(self):
        elsewhere = DRIVER.replace('program: program', 'program: ../program')
        self.refused('name of a file in the directory', yaml=elsewhere)

    def test_a_link_is_refused(self):
        folder = write_driver(self.root)
        (folder / 'program').rename(self.root / 'real')
        (folder / 'program').symlink_to(self.root / 'real')
        with self.assertRaisesRegex(InvalidClusterDriver, 'program is a link'):
            load_directory(folder)

    def test_a_program_that_is_not_executable_is_refused(self):
        self.refused('is not executable; chmod', mode=0o644)

    def test_a_program_that_others_can_write_is_refused(self):
        self.refused('other users can change .*program; chmod go-w it', mode=0o777)

    def test_a_program_of_another_protocol_is_refused(self):
        newer = DESCRIBED.replace('command/1', 'command/2')
        self.refused(r"speaks 'kiln.command/2', and this kiln speaks", described=newer)

    def test_a_program_that_describes_itself_by_nonsense_is_refused(self):
        self.refused('line 1 of its output is not JSON', described='I am a driver.')

    def test_a_program_that_lacks_a_verb_is_refused(self):
        self.refused('lacks the verbs update', described=DESCRIBED.replace('"update", ', ''))

    def test_keys_of_other_drivers_are_refused(self):
        self.refused('user_data', yaml=f'{DRIVER}user_data: start.sh\n')

    def test_a_capability_that_no_program_can_have_is_refused(self):
        self.refused('capabilities|reboot', yaml=f'{DRIVER}capabilities: [reboot]\n')


if __name__ == '__main__':
    unittest.main()
