"""What must be installed, and what need not be installed again."""

import pathlib
import re
import tempfile
import unittest

from tools.devcloud import packages
from tools.devcloud.place import Place
from tools.devcloud.services import CORE, OPTIONAL
from tools.devcloud.wishes import Wishes


class PackagesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = Place(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())), 1)

    def test_only_the_debian_packages_that_are_missing_are_asked_for(self):
        more = {'/usr/bin/one': 'one-of-a-service'}
        self.assertEqual([], packages.debian_packages(more, lambda file: True))
        self.assertEqual(
            ['mariadb-server', 'rabbitmq-server', 'memcached', 'python3-venv', 'one-of-a-service'],
            packages.debian_packages(more, lambda file: False),
        )
        self.assertEqual(
            ['memcached'], packages.debian_packages(more, lambda file: 'memcached' not in file)
        )

    def test_every_requirement_has_a_version(self):
        names = re.findall(r'^([\w.-]+)==', packages.CONSTRAINTS.read_text(), re.MULTILINE)
        pinned = {name.lower().replace('_', '-') for name in names}
        for kind in (*CORE, *OPTIONAL):
            with self.subTest(kind.name):
                service = kind(self.place, Wishes())
                self.assertEqual(set(), set(service.requirements) - pinned)

    def test_only_what_is_new_is_installed(self):
        self.assertEqual(['b'], packages.missing(['a', 'b'], {packages.identity('a')}))
        self.assertEqual([], packages.missing(['a'], {packages.identity('a')}))

    def test_a_folder_is_installed_again_when_its_metadata_change(self):
        folder = self.place.home / 'driver'
        folder.mkdir()
        (folder / 'setup.cfg').write_text('[metadata]\nname = one\n')
        have = {packages.identity(str(folder))}
        self.assertEqual([], packages.missing([str(folder)], have))
        (folder / 'setup.cfg').write_text('[metadata]\nname = two\n')
        self.assertEqual([str(folder)], packages.missing([str(folder)], have))

    def test_a_driver_under_test_is_installed_beside_octavia_alone(self):
        octavia = next(kind for kind in OPTIONAL if kind.name == 'octavia')
        service = octavia(self.place, Wishes(octavia_packages=('./driver',)))
        self.assertIn('./driver', service.requirements)
        self.assertNotIn('./driver', octavia.requirements)
        self.assertNotEqual(CORE[0](self.place, Wishes()).venv.path, service.venv.path)

    def test_our_plugins_lie_where_nova_and_neutron_look(self):
        venv = packages.Venv(self.place, 'venv')
        virt = venv.path / 'lib' / 'python3.11' / 'site-packages' / 'nova' / 'virt'
        virt.mkdir(parents=True)
        packages.install_plugins(self.place, venv)
        self.assertTrue((virt / 'kiln_virt.py').exists())
        [metadata] = self.place.plugins.glob('*.dist-info')
        self.assertIn('kiln_ml2:', (metadata / 'entry_points.txt').read_text())
        self.assertTrue((self.place.plugins / 'kiln_ml2.py').exists())
