"""Discovery and loading of cluster drivers."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.activation import DiscoverySettings, activated
from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.cluster_drivers.discovery.manifest import Manifest, ManifestError, from_class
from kiln.cluster_drivers.discovery.programs import AS_KILN, Programs
from kiln.cluster_drivers.discovery.sources import (
    DirectorySource,
    DriverSource,
    PackageSource,
    digest_of,
)
from kiln.cluster_drivers.records import DriverRecord, DriverState
from kiln.cluster_drivers.selection.matching import in_order, why_unused
from kiln.cluster_drivers.selection.pins import PinState, check_pin
from kiln.clusters.exceptions import ClusterDriverUnknown, ClusterDriverUnusable
from kiln.clusters.models import DriverPin
from kiln.exceptions import redact
from kiln.plugins.entry_points import entry_points
from kiln.plugins.extras import NeededExtra, needed_extra

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LoadedDriver:
    """A loaded driver: its class, its folder, or both."""

    record: DriverRecord
    #: None for a folder without Python.
    driver_class: type | None
    #: None for a module without its own folder.
    folder: Path | None
    #: How a program of the driver runs.
    programs: Programs = AS_KILN

    def whole_class(self) -> type[ClusterDriver]:
        """Return the class of the driver; for a folder without Python, too.

        :raises InvalidClusterDriver: its files are wrong; each mistake is reported.
        :raises ClusterDriverUnusable: its class is not a ClusterDriver.
        """
        if self.driver_class is None:
            assert self.folder is not None
            return load_directory(self.folder, self.programs)
        if not issubclass(self.driver_class, ClusterDriver):
            raise ClusterDriverUnusable(
                f'Cluster driver "{self.record.name}" from {self.record.origin} cannot be used: '
                f'{self.driver_class.__name__} is not a ClusterDriver.'
            )
        return self.driver_class


class Catalogue:
    """The drivers found by one discovery; discover again to find new drivers."""

    def __init__(
        self,
        found: Mapping[DriverRecord, DriverSource],
        *,
        disabled_hard: bool = False,
        refuse_changed: bool = False,
        programs: Programs = AS_KILN,
    ) -> None:
        self._programs = programs
        self._sources = dict(found)
        self._disabled_hard = disabled_hard
        self._refuse_changed = refuse_changed

    @property
    def records(self) -> Sequence[DriverRecord]:
        """All drivers found, usable or not, by name and version."""
        return in_order(self._sources)

    def folders(self) -> Mapping[DriverRecord, Path]:
        """Return the folder of each driver that has one; import nothing."""
        found = {}
        for record, source in self._sources.items():
            # The record has the error of a broken driver.
            with contextlib.suppress(Exception):
                if (folder := source.folder()) is not None:
                    found[record] = folder
        return found

    def load(self, record: DriverRecord) -> LoadedDriver:
        """Return a driver for new clusters. Repeatable; the code is imported only once.

        :raises ClusterDriverUnusable: the driver is not ACTIVE, or its code cannot be imported.
        """
        if record.state is not DriverState.ACTIVE:
            raise ClusterDriverUnusable(f'Cluster driver "{record.name}" {why_unused(record)}')
        return self._load(record)

    def load_pinned(self, pin: DriverPin) -> LoadedDriver:
        """Return the driver of an existing cluster, even if it is disabled now.

        A driver that has changed without a new version is used, and a warning is logged,
        unless the site refuses it.

        :raises ClusterDriverUnknown: the pinned version is no longer installed.
        :raises ClusterDriverUnusable: the driver is broken, disabled hard, or refused.
        """
        check = check_pin(pin, self.records)
        record = check.record
        if record is None:
            gone = check.state is PinState.MISSING
            raise (ClusterDriverUnknown if gone else ClusterDriverUnusable)(
                f'Cannot serve the cluster: {check.message}'
            )
        if record.state is DriverState.DISABLED and self._disabled_hard:
            raise ClusterDriverUnusable(
                f'Cluster driver "{record.name}" {why_unused(record)} '
                'With disabled_hard this also applies to its existing clusters.'
            )
        if check.state is PinState.CHANGED:
            if self._refuse_changed:
                raise ClusterDriverUnusable(
                    f'Cannot serve the cluster: {check.message} With refuse_changed_drivers the '
                    f'changed driver is not used.'
                )
            LOG.warning('%s', check.message)
        return self._load(record)

    def _load(self, record: DriverRecord) -> LoadedDriver:
        source = self._sources[record]
        try:
            driver_class, folder = source.driver_class(), source.folder()
        # The code of a vendor can raise anything, even SystemExit.
        except (Exception, SystemExit) as exc:
            needed = _needed(exc, source)
            error = ClusterDriverUnusable(
                f'Cluster driver "{record.name}" failed to load from {record.origin}: '
                f'{_reason(exc, needed)}.'
            )
            error.install = needed.command if needed else None
            raise error from exc
        return LoadedDriver(
            record=record, driver_class=driver_class, folder=folder, programs=self._programs
        )


def discover(settings: DiscoverySettings) -> Catalogue:
    """Find all drivers; a broken driver does not affect the others.

    No driver is instantiated, and code is imported only where the files of a driver are
    incomplete. Repeatable: a later call finds drivers installed meanwhile.
    """
    # Not loaded by stevedore: two packages can offer two versions of one driver.
    entries = entry_points('kiln.cluster_drivers')
    sources: list[DriverSource] = list(map(PackageSource, entries))
    sources += _directories(settings.driver_path)
    found = [_described(source) for source in sources]
    for unknown in settings.unknown_names(found):
        LOG.warning('[clusters] names a driver that is not installed. %s', unknown)
    records = activated(found, settings)
    catalogued = dict(zip(records, sources, strict=True))
    return Catalogue(
        catalogued,
        disabled_hard=settings.disabled_hard,
        refuse_changed=settings.refuse_changed,
        programs=settings.programs,
    )


def _directories(driver_path: Iterable[Path]) -> Iterator[DriverSource]:
    roots: dict[Path, Path] = {}
    for path in driver_path:
        # A directory that is listed twice is still one origin.
        roots.setdefault(path.resolve(), path.absolute())
    for root in roots.values():
        try:
            inside = sorted(path for path in root.iterdir() if path.is_dir())
        except FileNotFoundError:
            continue  # few sites have all the default directories
        except OSError as exc:
            LOG.warning('Cannot look for cluster drivers in %s: %s', root, exc.strerror)
            continue
        for path in inside:
            if not path.name.startswith(('.', '__')):
                yield DirectorySource(path)


def _described(source: DriverSource) -> DriverRecord:
    known, digest = Manifest(), ''
    state, reason, needed = DriverState.ACTIVE, '', None
    try:
        digest = digest_of(source.location())
        known = source.manifest()
        if known.lacking() and (driver_class := source.driver_class()):
            known = known.filled_by(from_class(driver_class))
        if lacking := known.lacking():
            raise ManifestError(f'it does not declare its {" and ".join(lacking)}')
        if known.name not in (None, source.name):
            raise ManifestError(f'it calls itself {known.name}; both names must be the same')
    # The code of a vendor can raise anything, even SystemExit.
    except (Exception, SystemExit) as exc:
        needed = _needed(exc, source)
        state, reason = DriverState.BROKEN, _reason(exc, needed)
        known = Manifest(version=known.version)
    return DriverRecord(
        name=source.name,
        version=known.version or '',
        origin=source.origin,
        digest=digest,
        state=state,
        reason=reason,
        install=needed.command if needed else None,
        beta=known.beta or False,
        provides=known.provides or (),
    )


def _needed(exc: BaseException, source: DriverSource) -> NeededExtra | None:
    needed = needed_extra(exc, source.distribution, driver=source.name)
    return needed if needed and needed.absent else None


def _reason(exc: BaseException, needed: NeededExtra | None) -> str:
    if needed:
        return str(needed)
    text = ' '.join(str(exc).split()).rstrip('.')
    if not isinstance(exc, ManifestError):
        text = f'{type(exc).__name__}: {text}'
    if isinstance(exc, ModuleNotFoundError):
        text += ' (install the packages that the driver needs)'
    return redact(text)
