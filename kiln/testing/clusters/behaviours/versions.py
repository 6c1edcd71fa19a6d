"""Behaviours of versions: what nodes are given belongs to the driver's version."""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.discovery.guide import home_of
from kiln.cluster_drivers.discovery.lint import manifest_of
from kiln.cluster_drivers.discovery.sources import digest_of
from kiln.cluster_drivers.values import Bootstrap
from kiln.compute_drivers.authoring.bench import CannotBeShown
from kiln.testing.clusters import samples
from kiln.testing.clusters.fixture import ClusterFixture
from kiln.testing.clusters.subjects import find_driver

_KILN = Path(__file__).parents[3]
#: Files of Python itself, and of the system that it runs on.
_SYSTEM = ('/dev', '/proc', '/sys', '/usr/lib', '/usr/share', '/lib', '/etc/ssl', '/etc/localtime')


class Versions(ClusterFixture):
    """Versions."""

    def test_all_files_that_nodes_depend_on_belong_to_the_version(self) -> None:
        home = home_of(self.driver_class).resolve()
        self.nodes_driver()
        with _READ_FILES.noting() as read:
            opened = self.nodes_driver()
            self._bootstrap_of_last(opened)
        outside = [path for path in read if not path.is_relative_to(home) and not _of_python(path)]
        # Files there can be large, and are not part of the digest.
        outside += [path for path in read if path.is_relative_to(home / 'image')]
        self.assertEqual(
            [], [str(path) for path in outside],
            'Nodes depend on files outside of the driver, which change without a new version.',
        )  # fmt: skip

    def test_a_driver_that_is_open_keeps_to_the_files_of_its_version(self) -> None:
        copy = self._copy()
        opened = find_driver(str(copy)).open()
        assert isinstance(opened, NodeClusterDriver)
        before, digest = self._bootstrap_of_last(opened), digest_of(copy)
        for path in _texts(copy):
            with path.open('a') as file:
                file.write('\n# changed by the kit\n')
        self.assertNotEqual(digest, digest_of(copy), 'The driver consists of no files.')
        self.assertEqual(
            before, self._bootstrap_of_last(opened),
            'Nodes are given the content of files that have changed under the same version: '
            'read files when the driver is opened.',
        )  # fmt: skip

    def _bootstrap_of_last(self, opened: NodeClusterDriver) -> Bootstrap:
        cluster = self.a_whole(opened)
        return self.given_to(opened, cluster, samples.nodes_of(cluster)[-1])

    def _copy(self) -> Path:
        home = home_of(self.driver_class)
        self.nodes_driver()
        if manifest_of(home) is None:
            raise CannotBeShown('the driver is a single module')
        copy = self.new_folder() / home.name
        return Path(shutil.copytree(home, copy, ignore=shutil.ignore_patterns('__pycache__')))


def _texts(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob('*')) if path.is_file())


def _of_python(path: Path) -> bool:
    roots: list[str | Path] = [
        *sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages(),
        sys.prefix, sys.base_prefix, *_SYSTEM, _KILN,
    ]  # fmt: skip
    imported = path.suffix in {'.py', '.pyc', '.so'}
    return imported or any(path.is_relative_to(Path(root).resolve()) for root in roots)


class _ReadFiles:
    """Files that a thread opens; Python can only be asked to report all of them."""

    def __init__(self) -> None:
        self._read: list[Path] | None = None
        self._thread = 0
        self._hooked = False

    def noting(self) -> _ReadFiles:
        if not self._hooked:
            sys.addaudithook(self._event)
            self._hooked = True
        return self

    def __enter__(self) -> list[Path]:
        self._thread, self._read = threading.get_ident(), []
        return self._read

    def __exit__(self, *_: object) -> None:
        self._read = None

    def _event(self, event: str, arguments: tuple[object, ...]) -> None:
        if event != 'open' or self._read is None or threading.get_ident() != self._thread:
            return
        path, mode = arguments[:2]
        if isinstance(path, str) and not set(str(mode)) & set('wax+'):
            read, self._read = self._read, None
            # A name beneath an open folder, which the event does not have, is that of a file
            # that was looked for there alone.
            if os.path.lexists(path):
                read.append(Path(path).resolve())
            self._read = read


_READ_FILES = _ReadFiles()
