"""Sources of cluster drivers: packages with an entry point, and directories.

A driver with its own folder has its manifest and templates there; a driver that is a single
module declares everything in its class.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import threading
import types
from collections.abc import Iterable
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

from kiln.cluster_drivers.discovery.manifest import (
    Manifest,
    ManifestError,
    from_version_module,
    from_yaml,
)
from kiln.plugins.entry_points import title
from kiln.plugins.foreign_files import read_beneath, unsafe_because

#: The name of the class in a driver.py.
CLASS = 'Driver'
_DIGITS = 16
_MOST_BYTES = 1024 * 1024
# Other threads see a package before its __init__.py has run; a driver can load another.
_IMPORTING = threading.RLock()


class DriverSource(abc.ABC):
    """One source of one driver."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name that the driver must have."""

    @property
    @abc.abstractmethod
    def origin(self) -> str:
        """The place of the source, for people."""

    @abc.abstractmethod
    def location(self) -> Path:
        """Return the driver's own folder, or its module.

        :raises ManifestError: neither exists.
        """

    @abc.abstractmethod
    def manifest(self) -> Manifest:
        """Return the manifest in the driver's files, without running its code.

        :raises ManifestError: the manifest cannot be used.
        """

    @abc.abstractmethod
    def import_class(self) -> object | None:
        """Import the object that should be the driver's class; None if it has no Python.

        Errors of the vendor's code pass through.
        """

    @property
    def distribution(self) -> Distribution | None:
        """The package that contains the driver; None for a directory."""
        return None

    def folder(self) -> Path | None:
        """Return the driver's own folder; None for a single module."""
        location = self.location()
        return location if location.is_dir() else None

    def driver_class(self) -> type | None:
        """Import the class of the driver; None if it has no Python.

        :raises ManifestError: the object is not a class, or is abstract. Other errors of the
            vendor's code pass through.
        """
        found = self.import_class()
        if found is None:
            return None
        if not inspect.isclass(found):
            raise ManifestError(f'{found!r} is not a class')
        if lacking := sorted(getattr(found, '__abstractmethods__', ())):
            raise ManifestError(f'{found.__qualname__} lacks {", ".join(lacking)}')
        return found


@dataclasses.dataclass(frozen=True)
class PackageSource(DriverSource):
    """A driver with an entry point in an installed package.

    The entry point names a class, or a package that is the driver's folder.
    """

    entry: EntryPoint

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def origin(self) -> str:
        dist = self.entry.dist
        return f'package {title(dist)}' if dist else f'module {self.entry.value}'

    @property
    def distribution(self) -> Distribution | None:
        return self.entry.dist

    def location(self) -> Path:
        """Return the place of the module, without importing it."""
        top, *inner = self.entry.module.split('.')
        spec = importlib.util.find_spec(top)
        if spec is None:
            raise ManifestError(f'module not found: {top}')
        if spec.submodule_search_locations is None:
            return Path(spec.origin or top)
        for place in spec.submodule_search_locations:
            path = Path(place, *inner)
            for folder in (path, path.parent) if inner else (path,):
                if folder.is_dir():
                    return folder
        raise ManifestError(f'module not found: {self.entry.module}')

    def manifest(self) -> Manifest:
        """Return the manifest in the folder; empty if the driver has no folder."""
        folder = self.folder()
        found = _manifest_in(folder) if folder else Manifest()
        if not self.entry.attr and self.entry.module.rpartition('.')[2] != self.name:
            raise ManifestError(f'its folder is {self.entry.module}, not {self.name}')
        return found

    def import_class(self) -> object | None:
        if self.entry.attr:
            found: object = self.entry.load()
            return found
        folder = self.folder()
        if folder and (folder / 'driver.py').is_file():
            return _class_in(importlib.import_module(f'{self.entry.module}.driver'))
        return None


@dataclasses.dataclass(frozen=True)
class DirectorySource(DriverSource):
    """A driver that is a directory on driver_path."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def origin(self) -> str:
        return f'directory {self.path}'

    def location(self) -> Path:
        return self.path

    def manifest(self) -> Manifest:
        """Return the manifest in driver.yaml, or else in version.py."""
        found = _manifest_in(self.path)
        if (self.path / 'driver.yaml').is_file():
            return found
        if found == Manifest():
            raise ManifestError(
                'it has neither a driver.yaml nor a version.py that names a driver'
            )
        if not (self.path / 'driver.py').is_file():
            raise ManifestError('it has a version.py but no driver.py')
        return found

    def import_class(self) -> object | None:
        """Import driver.py under a module name that is unique to the directory."""
        if not (self.path / 'driver.py').is_file():
            return None
        # Write access to a folder above is enough to replace the code.
        if unsafe := unsafe_because(self.path / 'driver.py'):
            raise ManifestError(f'kiln does not run its code: {unsafe}')
        package = self._package()
        with _IMPORTING:
            if package not in sys.modules:
                _make_package(package, self.path)
            return _class_in(importlib.import_module(f'{package}.driver'))

    def _package(self) -> str:
        # Versions side by side have modules of the same names, and changed
        # files must be imported again.
        mark = hashlib.sha256(os.fsencode(self.path) + digest_of(self.path).encode())
        return f'kiln_driver_{re.sub("[^A-Za-z0-9]", "_", self.name)}_{mark.hexdigest()[:_DIGITS]}'


def digest_of(location: Path) -> str:
    """Return the digest of the names and contents of a driver's files.

    Its ``image`` folder does not count: the files there are for people, and can be large.
    """
    whole = hashlib.sha256()
    for name, path in sorted(_files(location)):
        with path.open('rb') as file:
            content = hashlib.file_digest(file, 'sha256').digest()
        whole.update(hashlib.sha256(os.fsencode(name)).digest() + content)
    return whole.hexdigest()[:_DIGITS]


def _files(location: Path) -> Iterable[tuple[str, Path]]:
    if location.is_file():
        yield location.name, location
    walked = set()
    for folder, folders, names in os.walk(location, followlinks=True):
        inside = Path(folder)
        if inside.resolve() in walked:
            folders.clear()  # a link that leads back
            continue
        walked.add(inside.resolve())
        unseen = {'__pycache__', 'image'} if inside == location else {'__pycache__'}
        # Sorted, so that of two links to one folder the same is always followed.
        folders[:] = sorted(one for one in folders if one not in unseen and one[0] != '.')
        for name in names:
            path = inside / name
            if name[0] != '.' and path.is_file():
                yield path.relative_to(location).as_posix(), path


def _manifest_in(folder: Path) -> Manifest:
    for name, read in (('driver.yaml', from_yaml), ('version.py', from_version_module)):
        if (folder / name).is_file():
            try:
                content = read_beneath(folder, name, most_bytes=_MOST_BYTES)
            except ValueError as exc:
                raise ManifestError(f'its {name} {exc}') from exc
            return read(content.decode())
    return Manifest()


def _make_package(name: str, folder: Path) -> None:
    """Turn a directory into a package, so that its modules can import each other."""
    start = folder / '__init__.py'
    spec = (
        importlib.util.spec_from_file_location(name, start) if start.is_file() else None
    ) or importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    try:
        if spec.loader:
            spec.loader.exec_module(package)
    # A vendor's code can even raise SystemExit; do not leave a half-imported module.
    except BaseException:
        del sys.modules[name]
        raise


def _class_in(module: types.ModuleType) -> object:
    if not hasattr(module, CLASS):
        raise ManifestError(f'its driver.py has no class {CLASS}')
    found: object = getattr(module, CLASS)
    return found
