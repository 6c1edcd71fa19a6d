"""Package metadata of setup.cfg. The wheel itself: tests/functional/scaffold."""

import configparser
import pathlib
import re
import subprocess
import sys
import unittest

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kiln

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / 'kiln'
#: Extras that no site installs.
FOR_DEVELOPERS = {'lint', 'test'}


def pinned(name):
    """Return the entries of a file with hashes, each with its hashes."""
    text = (ROOT / name).read_text(encoding='utf-8').replace('\\\n', ' ')
    lines = [
        line.split() for line in text.splitlines() if line and not line.strip().startswith('#')
    ]
    starts = [' '.join(one for one in line if not one.startswith('--hash=')) for line in lines]
    return {
        Requirement(start): [
            one for one in line if re.fullmatch('--hash=sha256:[0-9a-f]{64}', one)
        ]
        for start, line in zip(starts, lines, strict=True)
    }


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


class ConstraintsTest(unittest.TestCase):
    def test_each_package_of_a_site_is_pinned_to_a_version_that_setup_cfg_allows(self):
        config = configparser.ConfigParser()
        config.read(ROOT / 'setup.cfg', encoding='utf-8')
        extras = config['options.extras_require']
        texts = [config['options']['install_requires']]
        texts += [extras[name] for name in extras.keys() - FOR_DEVELOPERS]
        versions = {}
        for one in pinned('constraints.txt'):
            (specifier,) = one.specifier
            versions.setdefault(canonicalize_name(one.name), set()).add(specifier.version)
        for needed in map(Requirement, filter(None, '\n'.join(texts).splitlines())):
            found = versions.get(canonicalize_name(needed.name), set())
            with self.subTest(needed):
                self.assertTrue(found, 'run make constraints')
                self.assertEqual(found, {one for one in found if one in needed.specifier})

    def test_all_extras_of_a_site_are_asked_for_in_the_makefile(self):
        config = configparser.ConfigParser()
        config.read(ROOT / 'setup.cfg', encoding='utf-8')
        (asked,) = re.findall(r'^EXTRAS := (.*)$', (ROOT / 'Makefile').read_text(), re.MULTILINE)
        self.assertEqual(
            set(asked.split()), set(config['options.extras_require']) - FOR_DEVELOPERS
        )

    def test_files_with_hashes_have_one_for_each_package_and_name_no_index(self):
        for name in ('constraints.txt', 'tools/building.txt'):
            # An option or an address is not a requirement, and so fails to be read.
            for one, hashes in pinned(name).items():
                with self.subTest(one):
                    self.assertEqual([one.operator for one in one.specifier], ['=='])
                    self.assertTrue(hashes)
                    self.assertIsNone(one.url)
