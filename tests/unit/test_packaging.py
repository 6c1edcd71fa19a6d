"""Package metadata of setup.cfg. The wheel itself: tests/functional/scaffold."""

import configparser
import pathlib
import subprocess
import sys
import unittest

import kiln

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / 'kiln'


class PackagingTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.config = configparser.ConfigParser()
        self.config.read(ROOT / 'setup.cfg', encoding='utf-8')

    def test_the_version_is_the_one_of_setup_cfg(self):
        version = self.config['metadata']['version']
        self.assertRegex(version, r'^\d+\.\d+\.\d+(\.dev0)?$')
        self.assertEqual(version, kiln.__version__, 'setup.cfg has changed: install again')

    def test_the_version_is_loaded_only_on_access(self):
        program = 'import kiln, sys; print(*sys.modules)'
        loaded = subprocess.run(
            [sys.executable, '-S', '-c', program],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        self.assertIn('kiln', loaded)
        self.assertNotIn('importlib.metadata', loaded)

    def test_every_file_that_is_not_python_is_declared(self):
        declared = set()
        for package, patterns in self.config['options.package_data'].items():
            folder = ROOT.joinpath(*package.split('.'))
            for pattern in patterns.split(','):
                found = set(folder.glob(pattern.strip().replace('**', '**/*')))
                self.assertTrue(found, f'{package}: nothing is {pattern}')
                declared |= found
        files = {path for path in PACKAGE.rglob('*') if path.is_file()}
        undeclared = {path for path in files - declared if path.suffix not in {'.py', '.pyc'}}
        self.assertFalse(undeclared, 'add them to [options.package_data] in setup.cfg')

    def test_every_folder_with_python_is_a_package(self):
        # A package without __init__.py works in the checkout and is missing in the wheel.
        folders = {path.parent for path in PACKAGE.rglob('*.py')}
        self.assertFalse({one for one in folders if not (one / '__init__.py').exists()})
