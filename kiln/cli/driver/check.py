"""The command ``kiln driver check``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiln.cli.arguments import argument, flag, read_file
from kiln.cli.base import KilnLister, Rows
from kiln.cli.driver.lookup import (
    BROKEN,
    DRIVER_OR_ALL,
    KIND,
    NOT_INSTALLED,
    catalogue_of,
    cluster_record,
    fault_of,
    kind_of,
)
from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.cli.output.views import cells
from kiln.compute.loading import installed_drivers, load_compute_driver
from kiln.exceptions import DriverLoadError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kiln.cluster_drivers.discovery.discovery import Catalogue
    from kiln.cluster_drivers.records import DriverRecord

COLUMNS = ('kind', 'name', 'version', 'problem', 'message')
_MAX_BYTES = 64 * 1024 * 1024
_PROBLEM = COLUMNS.index('problem')


class Check(KilnLister):
    """Check drivers: broken ones, conflicts, changes without a new version.

    The exit status is 1 if anything is wrong: a site can run it before a change, and the
    author of a driver after each build, for that driver alone. Among all drivers, a driver
    that only needs an extra to be installed is listed, but is not a failure.
    """

    arguments = (
        DRIVER_OR_ALL,
        KIND,
        argument(
            '--state',
            metavar='FILE',
            help='Keep the digests of the cluster drivers in this file, and report drivers that '
            'have changed since the last run without a new version.',
        ),
        flag('--clusters', 'Also report clusters whose driver is gone or has changed.'),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        catalogue = catalogue_of(self.app.settings)
        name, kind = parsed_args.driver, parsed_args.kind
        if name is not None:
            kind = kind_of(self.app.settings, name, kind)
        records: Sequence[DriverRecord] = []
        rows: list[list[Any]] = []
        if kind != 'cluster':
            rows += _of_compute(name)
        if kind != 'compute':
            records = catalogue.records
            if name is not None:
                records = [cluster_record(self.app.settings, name)]
            for record in records:
                rows += _of_cluster(catalogue, record, even_unused=name is not None)
            rows += _conflicts(catalogue, self.app.settings, {one.name for one in records})
        if parsed_args.state:
            rows += _changed_since(Path(parsed_args.state), records)
        if parsed_args.clusters:
            rows += self._of_clusters(catalogue, None if name is None else records)
        # A driver that was named is wanted, so a missing extra is a failure.
        if any(name is not None or row[_PROBLEM] != NOT_INSTALLED for row in rows):
            self.status = ExitCode.UNFORESEEN
        return COLUMNS, [cells(row) for row in rows]

    def _of_clusters(
        self, catalogue: Catalogue, only: Sequence[DriverRecord] | None
    ) -> Iterator[list[Any]]:
        from kiln.cli.site.stores import configured_store
        from kiln.cluster_drivers.selection.pins import PinState, check_pin

        with configured_store(self.app.settings, report=self.app.say) as store:
            clusters = store.clusters.list()
        for cluster in clusters:
            if only is not None and cluster.pin.name not in {one.name for one in only}:
                continue
            found = check_pin(cluster.pin, catalogue.records)
            if found.state not in (PinState.INTACT, PinState.MOVED):
                told = f'Cluster {cluster.name}: {found.message}'
                yield ['cluster', cluster.pin.name, cluster.pin.version, found.state.value, told]


def _changed_since(path: Path, records: Sequence[DriverRecord]) -> Iterator[list[Any]]:
    """Yield a row for each driver changed without a new version; store new drivers.

    A changed driver is reported until it has a new version, or the old content again.

    :raises UsageError: the file has no digests, or cannot be written.
    """
    former = _digests(path)
    now = {str(one): one.digest for one in records if one.digest and one.version}
    text = json.dumps({'digests': {**now, **former}}, indent=1, sort_keys=True)
    try:
        path.write_text(text)
    except OSError as exc:
        raise UsageError(f'Cannot write {path}: {exc.strerror}.') from exc
    for one in records:
        was = former.get(str(one), one.digest)
        if was != one.digest and str(one) in now:
            told = (
                f'{one} ({one.origin}) has changed without a new version: digest {one.digest}, '
                f'was {was}. Raise its version, or put the former version back.'
            )
            yield ['cluster', one.name, one.version, 'changed', told]


def _digests(path: Path) -> Mapping[str, str]:
    if not path.exists():
        return {}
    try:
        found = json.loads(read_file(str(path), _MAX_BYTES))['digests']
        return {str(name): str(digest) for name, digest in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise UsageError(
            f'Cannot use {path}: it has no digests. Remove it, or name another file.'
        ) from exc


def _of_compute(name: str | None) -> Iterator[list[Any]]:
    found = [one for one in installed_drivers() if name in (None, one.name)]
    if name is not None and not found:
        load_compute_driver(name)  # its error lists the installed drivers
    for one in found:
        # Only the conformance kit loads a bench, so check it only for a named driver.
        wrong = one.error if one.error or name is None else _wrong_bench(name)
        if wrong is not None:
            problem = NOT_INSTALLED if one.install else BROKEN
            yield ['compute', one.name, one.version, problem, wrong]


def _wrong_bench(name: str) -> str | None:
    from kiln.compute_drivers.authoring.bench import bench_class_of

    try:
        bench_class_of(load_compute_driver(name), name)
    except DriverLoadError as exc:
        return str(exc)
    return None


def _of_cluster(
    catalogue: Catalogue, record: DriverRecord, *, even_unused: bool
) -> Iterator[list[Any]]:
    from kiln.cluster_drivers.records import DriverState
    from kiln.cluster_drivers.selection.selection import pin_of

    wrong, install = '', record.install
    active = record.state is DriverState.ACTIVE
    if record.state is DriverState.BROKEN:
        wrong = record.reason
    elif active or (even_unused and record.state is not DriverState.CONFLICT):
        # A named driver is checked even if it is not in use.
        load = catalogue.load if active else lambda one: catalogue.load_pinned(pin_of(one))
        wrong, install = fault_of(load, record)
    if wrong:
        problem = NOT_INSTALLED if install else BROKEN
        yield ['cluster', record.name, record.version, problem, wrong]


def _conflicts(catalogue: Catalogue, settings: Any, among: Collection[str]) -> Iterator[list[Any]]:
    from kiln.cluster_drivers.selection.matching import preferences_of
    from kiln.cluster_drivers.selection.selection import conflicts

    preferences = preferences_of(settings.clusters)
    for one in conflicts(catalogue.records, preferences):
        names = {record.name for record in one.drivers}
        versions = ', '.join(sorted({record.version for record in one.drivers}))
        if names & set(among):
            yield ['cluster', ', '.join(sorted(names)), versions, 'conflict', one.message]
