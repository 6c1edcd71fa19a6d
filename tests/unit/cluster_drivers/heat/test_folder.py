"""A driver on Heat that is a directory: driver.yaml and a template, no Python; 000-9, 000-14."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.discovery.lint import mistakes_in
from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.values import Cap
from kiln.clusters.exceptions import InvalidClusterDriver
from tests.unit.cluster_drivers.heat.made import cluster_of, context
from tests.unit.test_layering import ROOT

WEB = ROOT / 'doc/examples/cluster_drivers/web_on_heat_v1'
FILE = """\
cluster: shop
image: debian-12
flavor: small
networks: [net1]
nodegroups:
  - {name: worker, count: 3}
"""


class Folders(unittest.TestCase):
    def copy(self, **changed):
        """Return a copy of the example in which texts of driver.yaml are replaced."""
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        folder = pathlib.Path(shutil.copytree(WEB, place / WEB.name))
        manifest = folder / 'driver.yaml'
        text = manifest.read_text()
        for old, new in changed.pop('replaced', {}).items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        manifest.write_text(text)
        return folder

    def mistakes(self, **replaced):
        found = mistakes_in(self.copy(replaced=replaced))
        return [(pathlib.Path(one.file).name, one.line, one.message) for one in found]

    def test_000_9_the_example_is_a_driver_on_heat_without_python(self):
        driver_class = load_directory(WEB)
        self.assertTrue(issubclass(driver_class, HeatDriver))
        self.assertEqual([], list(WEB.rglob('*.py')))
        self.assertEqual({Cap.RESIZE, Cap.UPGRADE}, driver_class.capabilities)

    def test_the_same_folder_elsewhere_makes_the_same_stack(self):
        made = [
            load_directory(folder)
            .open()
            .template_definition.extract_definition(context(), cluster_of(FILE))
            for folder in (WEB, self.copy())
        ]
        self.assertEqual(*made)

    def test_000_10_what_does_not_fit_the_template_is_told_with_its_place(self):
        ((file, line, message),) = self.mistakes(**{'output: worker_addresses': 'output: none'})
        self.assertEqual(('driver.yaml', 14), (file, line))
        self.assertIn("the template has no output 'none'; it has worker_addresses", message)

    def test_a_key_of_drivers_of_nodes_is_not_one_of_drivers_on_heat(self):
        ((_, _, message),) = self.mistakes(**{'base: heat': 'base: heat\nuser_data: stack.yaml'})
        self.assertIn("unknown key 'user_data'", message)

    def test_a_base_that_does_not_exist_is_told_and_so_is_one_that_is_no_word(self):
        for base in ('magic', '{}', '[heat]', '7', ''):
            with self.subTest(base):
                self.assertTrue(self.mistakes(**{'base: heat': f'base: {base}'}))

    def test_a_template_that_does_not_exist_is_told(self):
        found = self.mistakes(**{'base: heat': 'base: heat\ntemplate: other.yaml'})
        self.assertIn("there is no 'other.yaml' in templates", found[0][2])

    def test_a_wrong_driver_is_refused_when_it_is_loaded(self):
        with self.assertRaises(InvalidClusterDriver):
            load_directory(self.copy(replaced={'secret: true': 'secret: false'}))

    def test_000_19_no_library_of_openstack_is_imported_before_a_request(self):
        heavy = ['keystoneauth1', 'openstack', 'oslo_config', 'requests']
        code = (
            'import sys; from kiln.cluster_drivers.discovery.directory import load_directory; '
            f'import pathlib; load_directory(pathlib.Path({str(WEB)!r})).open(); '
            f'print([name for name in {heavy!r} if name in sys.modules])'
        )
        done = subprocess.run(
            [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.assertEqual('[]', done.stdout.strip())


class Guides(unittest.TestCase):
    def test_000_18_there_is_a_guide_for_operators_with_what_to_do_and_one_for_authors(self):
        operators = (ROOT / 'doc/source/admin/heat.rst').read_text()
        authors = (ROOT / 'doc/source/contributor/writing-a-heat-driver.rst').read_text()
        for text in ('If something is wrong', 'DELETE_FAILED', 'openstack stack resource list'):
            self.assertIn(text, operators)
        self.assertIn('web_on_heat_v1/driver.yaml', authors)
