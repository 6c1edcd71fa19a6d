"""Lookup of compute and cluster drivers by name, and the arguments that name them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import argument
from kiln.cli.exit_codes import UsageError
from kiln.compute.loading import installed_drivers
from kiln.exceptions import DriverNotFound

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from kiln.cli.app import KilnApp
    from kiln.cluster_drivers.base import ClusterDriver
    from kiln.cluster_drivers.discovery.discovery import Catalogue, LoadedDriver
    from kiln.cluster_drivers.records import DriverRecord

KINDS = ('compute', 'cluster')
#: The state of a driver that only needs an extra to be installed.
NOT_INSTALLED = 'not installed'
BROKEN = 'broken'
_DRIVER = 'Name of an installed driver; NAME==1.2.* for a version'
DRIVER = argument('driver', metavar='NAME', help=f'{_DRIVER}.')
DRIVER_OR_ALL = argument(
    'driver', metavar='NAME', nargs='?', help=f'{_DRIVER} (default: all drivers).'
)
#: One of these is in each folder of a Python package, and of a cluster driver.
_OF_PACKAGES = ('pyproject.toml', 'setup.cfg', 'setup.py')
_OF_CLUSTER_DRIVERS = ('driver.yaml', 'driver.py', 'version.py')
KIND = argument(
    '--kind', choices=KINDS, help='Kind of the driver, where both kinds have one of this name.'
)


def catalogue_of(settings: Any) -> Catalogue:
    """Discover the cluster drivers of the configuration."""
    from kiln.cluster_drivers.discovery.activation import DiscoverySettings
    from kiln.cluster_drivers.discovery.discovery import discover

    return discover(DiscoverySettings.from_options(settings.clusters))


def kind_of(settings: Any, name: str, kind: str | None = None) -> str:
    """Return the kind of a named driver.

    :raises DriverNotFound: no driver has the name; the message lists all drivers.
    :raises UsageError: a driver of each kind has the name.
    """
    if kind is not None:
        return kind
    names = {
        'compute': {one.name for one in installed_drivers()},
        'cluster': {one.name for one in catalogue_of(settings).records},
    }
    found = [one for one in KINDS if name.partition('==')[0] in names[one]]
    if not found:
        installed = ', '.join(sorted(names['compute'] | names['cluster']))
        raise DriverNotFound(f'Cannot find a driver {name!r}. Installed: {installed}.')
    if len(found) > 1:
        raise UsageError(
            f'Cannot tell which driver {name!r} is meant: add --kind compute or --kind cluster.'
        )
    return found[0]


def cluster_record(settings: Any, text: str) -> DriverRecord:
    """Return the newest usable version of a named cluster driver.

    :raises ClusterDriverUnknown: no such driver or version is installed.
    """
    from kiln.cluster_drivers.records import DriverState
    from kiln.cluster_drivers.selection.request import Wish
    from kiln.clusters.exceptions import ClusterDriverUnknown

    wish = Wish.read(text, 'the command line')
    records = catalogue_of(settings).records
    found = [one for one in records if wish.admits(one)]
    if not found:
        installed = ', '.join(map(str, records)) or 'none'
        raise ClusterDriverUnknown(f'Cannot find cluster driver {text!r}. Installed: {installed}.')
    return max(found, key=lambda one: (one.state is DriverState.ACTIVE, one.recency))


def class_of_cluster(settings: Any, record: DriverRecord) -> type[ClusterDriver]:
    """Return the class of a cluster driver, whether it is in use or not.

    :raises ClusterDriverUnusable: its code cannot be imported.
    :raises InvalidClusterDriver: its files are wrong; each mistake is reported.
    """
    from kiln.cluster_drivers.selection.selection import pin_of

    return catalogue_of(settings).load_pinned(pin_of(record)).whole_class()


def is_cluster(app: KilnApp, args: argparse.Namespace) -> bool:
    """Return True if the driver that arguments name is a cluster driver."""
    if args.kind is not None:
        return bool(args.kind == 'cluster')
    # A configured backend can have any name, so it is searched first.
    if args.name in app.backends.backends():
        return False
    if is_path(args.name):
        _check_folder(args.name)
        return True
    return args.name in {one.name for one in catalogue_of(app.settings).records}


def _check_folder(name: str) -> None:
    """Refuse the folder of a Python package, which is how compute drivers are written."""

    def has(files: Iterable[str]) -> bool:
        return any((Path(name) / one).is_file() for one in files)

    if has(_OF_PACKAGES) and not has(_OF_CLUSTER_DRIVERS):
        raise UsageError(
            f'Cannot use {name}: it is the folder of a package, and has no cluster driver. The '
            'argument for a compute driver is its name, or that of a configured backend.'
        )


def is_path(name: str) -> bool:
    """Return True if a driver is given as a path; a bare name is never a folder."""
    return name.startswith('.') or os.sep in name


def cluster_reference(settings: Any, name: str) -> str:
    """Return a reference by which a process without configuration finds a cluster driver.

    :raises ClusterDriverUnknown: no such driver is installed.
    :raises UsageError: the folder does not exist.
    """
    if is_path(name):
        if not Path(name).is_dir():
            raise UsageError(f'Cannot judge {name}: it is not a directory.')
        return name
    from kiln.cluster_drivers.selection.selection import pin_of

    record = cluster_record(settings, name)
    loaded = catalogue_of(settings).load_pinned(pin_of(record))
    folder, driver_class = loaded.folder, loaded.driver_class
    if folder and any((folder / file).is_file() for file in ('driver.yaml', 'driver.py')):
        return str(folder)
    # A module without a folder of its own. Its name alone could match a folder in the
    # current directory.
    return f'{driver_class.__module__}:{driver_class.__qualname__}' if driver_class else name


def with_its_code(catalogue: Catalogue, record: DriverRecord) -> DriverRecord:
    """Return a record after opening an ACTIVE driver, with its templates; BROKEN if that fails."""
    from kiln.cluster_drivers.records import DriverState

    if record.state is not DriverState.ACTIVE:
        return record
    wrong, install = fault_of(catalogue.load, record)
    if wrong:
        broken = DriverState.BROKEN
        return dataclasses.replace(record, state=broken, reason=wrong, install=install)
    return record


def fault_of(
    load: Callable[[DriverRecord], LoadedDriver], record: DriverRecord
) -> tuple[str, str | None]:
    """Return what is wrong with a driver that is loaded and opened, and what installs its extra.

    :returns: an empty text for a driver that can be used.
    """
    from kiln.cluster_drivers.calls import driver_errors
    from kiln.cluster_drivers.discovery.contract import contract_violations
    from kiln.clusters.exceptions import ClusterError

    try:
        with driver_errors(record.name, 'open'):
            driver_class = load(record).whole_class()
            if wrong := '; '.join(contract_violations(driver_class)):
                return wrong, None
            driver_class.open()
    except ClusterError as exc:
        return '; '.join(str(exc).splitlines()), getattr(exc, 'install', None)
    return '', None
