"""Lookup of the driver class to test, by directory, import path or name."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from pathlib import Path

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_drivers.discovery.sources import DirectorySource
from kiln.cluster_drivers.selection.matching import current
from kiln.clusters.exceptions import ClusterDriverUnknown, ClusterDriverUnusable, ClusterError


@functools.cache
def find_driver(reference: str) -> type[ClusterDriver]:
    """Return the class of a driver; the same class for each call.

    :param reference: A directory, ``module:Class``, or the name of an installed driver.
    :raises InvalidClusterDriver: the files of a directory are wrong; names each mistake.
    :raises ClusterDriverUnknown: no installed driver has that name.
    :raises ClusterDriverUnusable: its code cannot be imported.
    """
    folder = Path(reference).resolve()
    if folder.is_dir():
        if not (folder / 'driver.py').is_file():
            return load_directory(folder)
        return _imported(f'the driver in {folder}', DirectorySource(folder).driver_class)
    if ':' in reference:
        return _imported(reference, functools.partial(pkgutil.resolve_name, reference))
    return _installed(reference)


def _imported(subject: str, load: Callable[[], object]) -> type[ClusterDriver]:
    try:
        found = load()
    except ClusterError:
        raise
    # The code of an author can raise anything.
    except (Exception, SystemExit) as exc:
        raise ClusterDriverUnusable(
            f'Cannot judge {subject}: {type(exc).__name__}: {exc}.'
        ) from exc
    if not isinstance(found, type) or not issubclass(found, ClusterDriver):
        raise ClusterDriverUnusable(f'Cannot judge {subject}: {found!r} is not a ClusterDriver.')
    return found


def _installed(name: str) -> type[ClusterDriver]:
    catalogue = discover(DiscoverySettings())
    records = [record for record in catalogue.records if record.name == name]
    if not records:
        installed = ', '.join(sorted({one.name for one in catalogue.records})) or 'none'
        raise ClusterDriverUnknown(
            f'Cannot judge {name!r}: it is neither a directory nor an installed cluster driver. '
            f'Installed: {installed}.'
        )
    return catalogue.load((current(records) or records)[0]).whole_class()
