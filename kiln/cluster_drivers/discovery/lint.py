"""Lint of a cluster driver's folder: all mistakes at once, each with its place."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.calls import open_driver
from kiln.cluster_drivers.discovery.contract import contract_violations
from kiln.cluster_drivers.discovery.directory import MANIFEST, load_directory
from kiln.cluster_drivers.discovery.manifest import Manifest, ManifestError, from_class
from kiln.cluster_drivers.discovery.sources import DirectorySource
from kiln.clusters.exceptions import ClusterDriverError, InvalidClusterDriver, Problem

_MODULE = 'driver.py'
_VERSION = 'version.py'


def mistakes_in(folder: Path) -> tuple[Problem, ...]:
    """Return each mistake in the files of a driver; empty if the driver is usable.

    A driver with Python is imported, and an error of its code is a mistake, too.
    """
    folder = folder.absolute()
    if not (folder / _MODULE).is_file():
        try:
            load_directory(folder)
        except InvalidClusterDriver as exc:
            return tuple(exc.problems)
        return ()
    return tuple(_of_python(folder))


def unchecked_in(folder: Path) -> tuple[Problem, ...]:
    """Return each template of a driver without mistakes whose places kiln does not check."""
    folder = folder.absolute()
    has_code = (folder / _MODULE).is_file()
    driver_class = DirectorySource(folder).driver_class() if has_code else load_directory(folder)
    if driver_class is None or not issubclass(driver_class, NodeClusterDriver):
        return ()
    return tuple(open_driver(driver_class).template_definition.unchecked())


def manifest_of(folder: Path) -> Manifest | None:
    """Return the manifest in the files of a folder; None if it has no manifest.

    :raises ManifestError: the manifest cannot be used.
    """
    try:
        return DirectorySource(folder).manifest()
    except ManifestError:
        if any((folder / name).is_file() for name in (MANIFEST, _VERSION)):
            raise
    return None


def _of_python(folder: Path) -> Iterator[Problem]:
    source = DirectorySource(folder)
    module, said = folder / _MODULE, folder / _VERSION
    said = said if said.is_file() else folder / MANIFEST
    known = Manifest()
    try:
        known = source.manifest()
    except ManifestError as exc:
        yield _at(said if said.is_file() else module, str(exc))
    if known.name not in (None, source.name):
        yield _at(said, f'it calls itself {known.name}, and the directory is {source.name}')
    try:
        driver_class = source.driver_class()
        assert driver_class is not None
        wrong = [_at(module, one) for one in contract_violations(driver_class)]
        yield from wrong or _of_class(driver_class, known, said)
    # The code of an author can raise anything, even SystemExit.
    except (Exception, SystemExit) as exc:
        yield _raised(exc, folder, module)


def _of_class(driver_class: type, known: Manifest, said: Path) -> Iterator[Problem]:
    of_class = from_class(driver_class)
    for field in ('name', 'version', 'provides'):
        written, is_so = getattr(known, field), getattr(of_class, field)
        if written is not None and written != is_so:
            yield _at(said, f'{field} is {written} here, and {is_so} in the class')
    try:
        driver_class.open()  # type: ignore[attr-defined]
    except InvalidClusterDriver as exc:
        yield from exc.problems
    except ClusterDriverError as exc:
        yield _at(said, str(exc))


def _at(file: Path, message: str, line: int = 1, column: int = 1) -> Problem:
    return Problem(message=message, file=str(file), line=line, column=column)


def _raised(exc: BaseException, folder: Path, module: Path) -> Problem:
    """Return a problem at the last line of the driver's own code in a traceback."""
    message = f'{type(exc).__name__}: {exc}'
    if isinstance(exc, SyntaxError) and exc.filename:
        message = f'{type(exc).__name__}: {exc.msg}'
        return _at(Path(exc.filename), message, exc.lineno or 1, exc.offset or 1)
    frames = traceback.extract_tb(exc.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    if not own:
        return _at(module, message)
    return _at(Path(own[-1].filename), message, own[-1].lineno or 1, (own[-1].colno or 0) + 1)
