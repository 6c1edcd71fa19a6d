"""What the kit for cluster drivers stands on; the kit itself is tried on a zoo."""

import pathlib
import tempfile
import unittest

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.readiness import WhenTcp
from kiln.cluster_drivers.values import DRAINED, READY, Drained, Readiness
from kiln.clusters.exceptions import (
    ClusterDriverUnknown,
    ClusterDriverUnusable,
    InvalidClusterDriver,
)
from kiln.clusters.spec import MachineSpec
from kiln.testing.clusters import ClusterDriverConformance, find_driver, samples
from kiln.testing.clusters.crash_runs.crashing_worker import CrashPoint, Moment
from kiln.testing.clusters.crash_runs.trials import Trials, spread
from kiln.testing.clusters.simulation.site import simulated
from tests.unit.foreign_driver import Foreign

MODULES = {one.__module__ for one in ClusterDriverConformance.__mro__ if 'behaviours' in str(one)}
DEMANDING = """
name: demanding_v1
version: 1.0.0
provides: [[vm, '*', nodes]]
parameters:
  word: {required: true}
  size: {required: true, choices: [small, large]}
  port: {required: true, type: integer, minimum: 80, maximum: 90}
  share: {required: true, type: number, maximum: 0.5}
  open: {required: true, type: boolean}
  token: {required: true, secret: true}
  more: {default: x}
user_data: start.sh
"""
USED = '# {{ word }} {{ size }} {{ port }} {{ share }} {{ open }} {{ token }} {{ more }}\n'


class Quiet(NodeClusterDriver):
    name = 'quiet_v1'
    version = '1.0.0'
    provides = (('vm', '*', 'nodes'),)

    def get_template_definition(self):
        raise AssertionError('nobody asks')


class Looking(Quiet):
    ready = WhenTcp(80)

    def drain(self, context, cluster, node):
        return Drained(done=False, reason='never')


class Asking(Quiet):
    def is_ready(self, context, cluster, node):
        return Readiness.not_yet('never')


def here(driver_class):
    return f'{driver_class.__module__}:{driver_class.__name__}'


class Finding(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_a_driver_is_found_by_name_by_class_and_by_folder(self):
        self.assertEqual('nodes_v1', find_driver('nodes_v1').name)
        self.assertIs(Quiet, find_driver(here(Quiet)))
        home = find_driver('nodes_v1').directory
        self.assertEqual('nodes_v1', find_driver(str(home)).name)
        with_code = pathlib.Path(str(home)).parent / 'example_v1'
        self.assertEqual('example_v1', find_driver(str(with_code)).name)

    def test_what_is_no_driver_is_refused_with_the_reason(self):
        for reference, error, told in (
            ('nobody', ClusterDriverUnknown, 'Installed: example_v1, heat_generated_v1'),
            ('no.such.module:Driver', ClusterDriverUnusable, 'ModuleNotFoundError'),
            (f'{__name__}:DEMANDING', ClusterDriverUnusable, 'is not a ClusterDriver'),
            (str(self.folder), InvalidClusterDriver, 'cannot be read'),
        ):
            with self.subTest(reference), self.assertRaisesRegex(error, told):
                find_driver(reference)

    def test_code_that_cannot_be_imported_is_refused_with_its_error(self):
        for text, told in (
            ('1 / 0', 'ZeroDivisionError'),
            ('Driver = int', 'not a ClusterDriver'),
        ):
            folder = self.folder / told.split()[0]
            folder.mkdir()
            (folder / 'version.py').write_text(f"version = '1.0.0'\ndriver = '{folder.name}'\n")
            (folder / 'driver.py').write_text(text)
            with self.subTest(text), self.assertRaisesRegex(ClusterDriverUnusable, told):
                find_driver(str(folder))

    def test_a_value_that_fits_is_made_up_for_all_that_is_required(self):
        folder = self.folder / 'demanding_v1'
        (folder / 'templates').mkdir(parents=True)
        (folder / 'driver.yaml').write_text(DEMANDING)
        (folder / 'templates' / 'start.sh').write_text(USED)
        opened = find_driver(str(folder)).open()
        machine = samples.filled(opened, MachineSpec(parameters={'word': 'mine'}))
        self.assertEqual(
            {'word': 'mine', 'size': 'small', 'port': 80, 'share': 0.5, 'open': True,
             'token': 'kit'},
            machine.parameters,
        )  # fmt: skip
        self.assertEqual({'token': 'kit'}, samples.secrets_of(opened))
        cluster = samples.cluster(type(opened), machine, 1)
        self.assertEqual([], list(opened.template_definition.value_problems(
            samples.context(), cluster, samples.GROUP)))  # fmt: skip

    def test_a_driver_with_an_engine_of_its_own_has_no_parameters_to_fill(self):
        self.assertEqual(MachineSpec(), samples.filled(Foreign(), MachineSpec()))
        self.assertEqual({}, samples.secrets_of(Foreign()))


class Suites(unittest.TestCase):
    def test_no_suite_hides_a_member_of_another(self):
        suites = [one for one in ClusterDriverConformance.__mro__ if one.__module__ in MODULES]
        members = [name for one in suites for name in vars(one) if not name.startswith('__')]
        twice = {name for name in members if members.count(name) > 1} - {'setUp', 'contract'}
        self.assertEqual(set(), twice)


class Simulated(unittest.TestCase):
    def test_who_looks_into_no_machine_stays_as_it_is(self):
        self.assertIs(Quiet, simulated(here(Quiet)))

    def test_who_looks_into_machines_is_told_that_all_is_well(self):
        of = {'context': samples.context(), 'cluster': None, 'node': samples.node('c')}
        for driver_class in (Looking, Asking):
            driver = simulated(here(driver_class))()
            self.assertEqual(READY, driver.is_ready(**of))
            self.assertEqual(DRAINED, driver.drain(**of))

    def test_an_engine_of_its_own_is_not_simulated(self):
        with self.assertRaisesRegex(ClusterDriverUnusable, 'not built by the engine of kiln'):
            simulated(here(Foreign))


class Kills(unittest.TestCase):
    def test_kills_are_spread_over_an_operation_however_long_it_is(self):
        self.assertEqual([1, 5, 9], spread(12, 3))
        self.assertEqual([1, 34, 67], spread(100, 3))
        self.assertEqual([1, 2, 3], spread(4, 3))

    def test_a_short_operation_is_killed_everywhere(self):
        self.assertEqual([1, 2, 3], spread(3, 3))
        self.assertEqual([1], spread(1, 3))
        self.assertEqual([], spread(0, 3))
        self.assertEqual([1, 2, 3, 4], spread(4, None))


class Processes(unittest.TestCase):
    def test_a_process_that_fails_is_not_a_crash_and_is_reported(self):
        with self.assertRaisesRegex(AssertionError, r'\(after commit 3, build:refuse\) ended'):
            Trials._expect(None, 1, CrashPoint(number=3, faults=('build:refuse',)))

    def test_its_crash_point_is_named_in_words(self):
        self.assertEqual('undisturbed', str(CrashPoint()))
        called = CrashPoint(moment=Moment.AFTER_CALL, number=2)
        self.assertEqual('after backend call 2', str(called))
