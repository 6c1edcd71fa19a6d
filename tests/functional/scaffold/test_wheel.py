"""Wheels: they contain all of kiln, and their build leaves nothing in the tree."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).parents[3]
# Other processes use the checkout meanwhile and write caches there.
TRANSIENT = {'__pycache__', '.git', '.hypothesis', '.pytest_cache', '.mypy_cache', '.ruff_cache'}


def files(folder):
    found = set()
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in TRANSIENT]
        found |= {str(pathlib.Path(where, name).relative_to(folder)) for name in names}
    return found


class WheelTest(unittest.TestCase):
    """Builds one wheel, from a copy without git, in a folder with an unusual name."""

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

    def test_a_wheel_has_all_files_of_kiln_and_no_others(self):
        with zipfile.ZipFile(self.wheel) as archive:
            held = {name for name in archive.namelist() if '.dist-info/' not in name}
        self.assertEqual({name for name in self.before if name.startswith('kiln/')}, held)

    def test_a_wheel_has_the_version_of_setup_cfg(self):
        (line,) = (one for one in (ROOT / 'setup.cfg').read_text().splitlines()
                   if one.startswith('version = '))  # fmt: skip
        version = line.removeprefix('version = ')
        self.assertEqual(f'kiln_compute-{version}-py3-none-any.whl', self.wheel.name)

    def test_a_build_of_the_wheel_leaves_the_tree_unchanged(self):
        self.assertEqual(self.before, files(self.tree))
