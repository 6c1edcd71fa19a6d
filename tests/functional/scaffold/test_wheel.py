"""A wheel holds all of kiln, and making it leaves nothing in the tree."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).parents[3]
# Others use the checkout meanwhile, and write there what Python always does.
TRANSIENT = {'__pycache__', '.git', '.hypothesis', '.pytest_cache', '.mypy_cache', '.ruff_cache'}


def files(folder):
    found = set()
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in TRANSIENT]
        found |= {str(pathlib.Path(where, name).relative_to(folder)) for name in names}
    return found


class WheelTest(unittest.TestCase):
    """Builds once, from a copy that has no git, in a folder with an odd name."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.tree = folder / 'a tree für kiln'
        cls.tree.mkdir()
        for name in ('setup.cfg', 'setup.py', 'pyproject.toml', 'README.rst', 'LICENSE'):
            (cls.tree / name).write_bytes((ROOT / name).read_bytes())
        for name in files(ROOT / 'kiln'):
            copy = cls.tree / 'kiln' / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / 'kiln' / name).read_bytes())
        cls.before = files(cls.tree)
        wheels = folder / 'wheels'
        done = subprocess.run(
            [sys.executable, '-m', 'pip', 'wheel', '--no-deps', '-w', str(wheels), str(cls.tree)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        (cls.wheel,) = wheels.iterdir()

    def test_every_file_of_kiln_is_in_it_and_no_other(self):
        with zipfile.ZipFile(self.wheel) as archive:
            held = {name for name in archive.namelist() if '.dist-info/' not in name}
        self.assertEqual({name for name in self.before if name.startswith('kiln/')}, held)

    def test_it_has_the_version_of_setup_cfg(self):
        (line,) = (one for one in (ROOT / 'setup.cfg').read_text().splitlines()
                   if one.startswith('version = '))  # fmt: skip
        version = line.removeprefix('version = ')
        self.assertEqual(f'kiln_compute-{version}-py3-none-any.whl', self.wheel.name)

    def test_the_tree_is_as_it_was(self):
        self.assertEqual(self.before, files(self.tree))
