"""Behaviours of versions: what nodes are given belongs to the driver's version."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import shutil
import site
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        with _reading() as read:
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


@contextlib.contextmanager
def _reading() -> Iterator[list[Path]]:
    """Note the files that this thread opens to read them.

    An audit hook would see all of them, but stays for as long as the process.
    """
    read: list[Path] = []
    kept = builtins.open, io.open, os.open
    this_thread = threading.get_ident()

    def noting(opened: Any) -> Any:
        @functools.wraps(opened)
        def noted(file: Any, mode: Any = None, *args: Any, **given: Any) -> Any:
            # A name beneath a folder that is open is not that of another file.
            beneath = given.get('dir_fd') is not None
            if not _writes(mode) and not beneath and threading.get_ident() == this_thread:
                with contextlib.suppress(TypeError):
                    read.append(Path(os.fsdecode(file)).resolve())
            return opened(file, *(() if mode is None else (mode,)), *args, **given)

        return noted

    builtins.open, io.open, os.open = map(noting, kept)
    try:
        yield read
    finally:
        builtins.open, io.open, os.open = kept


def _writes(mode: str | int | None) -> bool:
    """Return True if a file is opened with a mode, or flags, to change it."""
    if isinstance(mode, int):
        return bool(mode & (os.O_WRONLY | os.O_RDWR))
    return not set('wax+').isdisjoint(mode or '')
