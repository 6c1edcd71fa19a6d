"""Packages and directories with drivers, installed for one test."""

import importlib
import itertools
import pathlib
import sys
import tempfile
import textwrap
import unittest

from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.discovery import discover

PYTHON = """
    class Driver:
        name = {name!r}
        version = {version!r}
        provides = [('vm', 'ubuntu', 'kubernetes')]

        def __init__(self):
            raise RuntimeError('no kubeconfig')
"""
YAML = """
    name: {name}
    version: {version}
    provides: [[vm, ubuntu, kubernetes]]
    base: nodes
"""
VERSION = """
    version = {version!r}
    driver = {name!r}
"""

_numbers = itertools.count()


class Installed(unittest.TestCase):
    """A site directory of its own, removed after the test."""

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.site = self.root / 'site'
        self.site.mkdir()
        sys.path.append(str(self.site))
        self.addCleanup(sys.path.remove, str(self.site))

    def package(
        self, distribution, name, source=PYTHON, *, target='', version='1.0.0', dist='0.3',
        requires='',
    ):  # fmt: skip
        """Install a package with one driver, in a module with a unique name."""
        module = f'kiln_test_{next(_numbers)}'
        (self.site / f'{module}.py').write_text(written(source, name, version))
        self.entry(distribution, name, target or f'{module}:Driver', dist=dist, requires=requires)
        return module

    def entry(self, distribution, name, target, *, dist='0.3', requires=''):
        """Install the metadata of a package with one entry point."""
        info = self.site / f'{distribution.replace("-", "_")}-{dist}.dist-info'
        info.mkdir()
        (info / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: {distribution}\nVersion: {dist}\n{requires}'
        )
        (info / 'entry_points.txt').write_text(f'[kiln.cluster_drivers]\n{name} = {target}\n')
        importlib.invalidate_caches()

    def directory(self, name, place='usr', *, version='1.0.0', **files):
        """Write the directory of a driver; keyword ``name_suffix`` is the file name.suffix."""
        folder = self.root / place / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in (files or {'driver_yaml': YAML}).items():
            path = folder / '.'.join(file.rsplit('_', 1))
            path.write_text(written(text, name, version))
        return folder

    def discover(self, *places, **activation):
        return discover(
            DiscoverySettings(
                driver_path=tuple(self.root / place for place in places or ('usr', 'etc')),
                **activation,
            )
        )

    def found(self, *places, **activation):
        """Return the records of the drivers installed by the test, without those of kiln."""
        return [
            record
            for record in self.discover(*places, **activation).records
            if 'package kiln-compute' not in record.origin
        ]

    def one(self, *places, **activation):
        (record,) = self.found(*places, **activation)
        return record


def written(text, name, version):
    return textwrap.dedent(text).replace('{name}', name).replace('{name!r}', repr(name)).replace(
        '{version}', version
    ).replace('{version!r}', repr(version))  # fmt: skip
