"""The commands ``kiln driver list`` and ``kiln driver show``, for drivers of both kinds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import argument
from kiln.cli.base import KilnLister, KilnShow, Rows
from kiln.cli.driver.lookup import (
    BROKEN,
    DRIVER,
    KIND,
    KINDS,
    NOT_INSTALLED,
    catalogue_of,
    class_of_cluster,
    cluster_record,
    kind_of,
    with_its_code,
)
from kiln.cli.output.views import fields, table
from kiln.compute.loading import InstalledDriver, installed_drivers, load_compute_driver

if TYPE_CHECKING:
    from kiln.cli.app import KilnApp
    from kiln.cluster_drivers.records import DriverRecord

COLUMNS = ('kind', 'name', 'version', 'state', 'provides', 'origin', 'reason')


class List(KilnLister):
    """List the drivers, and why some of them cannot be used.

    A driver that is "not installed" needs an extra of its package, and the reason is the
    command that installs it. A broken driver has to be repaired.
    """

    arguments = (argument('--kind', choices=KINDS, help='Only drivers of this kind.'),)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        rows: list[dict[str, Any]] = []
        if parsed_args.kind != 'compute':
            catalogue = catalogue_of(self.app.settings)
            rows += [cluster_fields(with_its_code(catalogue, one)) for one in catalogue.records]
        if parsed_args.kind != 'cluster':
            rows += map(compute_fields, installed_drivers())
        return table(COLUMNS, rows)


class Show(KilnShow):
    """Show the capabilities, options and origin of a driver."""

    arguments = (DRIVER, KIND)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        name = parsed_args.driver
        if kind_of(self.app.settings, name, parsed_args.kind) == 'compute':
            return fields(_compute(name))
        return fields(_cluster(self.app, name))


def compute_fields(driver: InstalledDriver) -> dict[str, Any]:
    """Return the row of a compute driver."""
    state = 'active' if driver.error is None else BROKEN
    return {
        'kind': 'compute',
        'name': driver.name,
        'version': driver.version,
        'state': NOT_INSTALLED if driver.install else state,
        'provides': [],
        'origin': f'package {driver.distribution} {driver.version}',
        'reason': driver.install or driver.error,
    }


def cluster_fields(record: DriverRecord) -> dict[str, Any]:
    """Return the row of a cluster driver."""
    state = record.state.value
    install = record.install if state == BROKEN else None
    return {
        'kind': 'cluster',
        'name': record.name,
        'version': record.version,
        'state': NOT_INSTALLED if install else state,
        'provides': [str(one) for one in record.provides],
        'origin': record.origin,
        'reason': install or record.reason or None,
    }


def _compute(name: str) -> dict[str, Any]:
    driver: Any = load_compute_driver(name)
    about = next(compute_fields(one) for one in installed_drivers() if one.name == name)
    about.pop('provides')
    # Some drivers know their limits only once they are configured.
    limits = None if isinstance(driver.limits, property) else driver.limits
    if limits is not None:
        about['types'] = sorted(kind.value for kind in limits.amphora_types)
        about['max_files'] = limits.max_files
        about['max_file_bytes'] = limits.max_file_bytes
        about['max_user_data_bytes'] = limits.max_user_data_bytes
        about['refused_options'] = sorted(limits.refused_options)
    about['options'] = sorted(opt.dest for opt in driver.options)
    return about


def _cluster(app: KilnApp, name: str) -> dict[str, Any]:
    from kiln.cluster_drivers.records import DriverState

    record = cluster_record(app.settings, name)
    about = {**cluster_fields(record), 'digest': record.digest, 'beta': record.beta}
    if record.state is not DriverState.BROKEN:
        about.update(_of_class(class_of_cluster(app.settings, record)))
    return about


def _of_class(driver_class: Any) -> Iterator[tuple[str, Any]]:
    from kiln.cluster_drivers.base import NodeClusterDriver
    from kiln.cluster_drivers.calls import open_driver
    from kiln.cluster_drivers.command.command_driver import CommandDriver
    from kiln.cluster_drivers.discovery.folder_base import WithoutCode

    # Python runs as kiln does, with all that it can read.
    yield 'runs_code', not issubclass(driver_class, WithoutCode)
    yield 'can', sorted(cap.value for cap in driver_class.capabilities)
    yield 'verbs', sorted(driver_class.verbs)
    if issubclass(driver_class, NodeClusterDriver):
        definition = open_driver(driver_class).template_definition
        yield (
            'parameters',
            {
                name: one.type.value
                for name, one in definition.parameters.items()
                if not one.source
            },
        )
        yield 'outputs', sorted(definition.outputs)
    elif issubclass(driver_class, CommandDriver):
        named = driver_class.parameters
        yield 'parameters', {name: one.type.value for name, one in named.items()}
