"""The cluster drivers of a site: chosen for new clusters, and opened for those there are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.contract import contract_violations
from kiln.cluster_drivers.directory import load_directory
from kiln.cluster_drivers.discovery import Catalogue, LoadedDriver
from kiln.cluster_drivers.matching import NO_PREFERENCES, Preferences
from kiln.cluster_drivers.selection import Decision, resolve
from kiln.cluster_drivers.wanted import Image, Request
from kiln.cluster_exceptions import ClusterDriverUnusable
from kiln.cluster_models import DriverPin
from kiln.cluster_spec import ClusterSpec


class SiteDrivers:
    """All cluster drivers of a site. May be used by several threads at once."""

    def __init__(
        self,
        discover: Callable[[], Catalogue],
        *,
        preferences: Preferences = NO_PREFERENCES,
        overrides: Path | None = None,
    ) -> None:
        """Look for no drivers yet.

        :param overrides: a directory in which a directory NAME holds templates that
            take the place of those of the driver NAME.
        """
        self._discover = discover
        self._preferences = preferences
        self._overrides = overrides
        self._lock = threading.RLock()
        self._catalogue: Catalogue | None = None
        self._opened: dict[DriverPin, NodeClusterDriver] = {}

    @property
    def catalogue(self) -> Catalogue:
        """What was found when it was first asked for."""
        with self._lock:
            if self._catalogue is None:
                self._catalogue = self._discover()
            return self._catalogue

    def choose(
        self, spec: ClusterSpec, *, named: str | None = None, image: Image | None = None
    ) -> Decision:
        """Return the driver for a new cluster, and how it was chosen.

        :param named: what somebody asks for instead of what the cluster says.
        :param image: that of its machines, as far as it is known.
        :raises DriverSelectionError: there is none, or more than one.
        """
        machine = spec.machine.server_type
        request = Request(
            driver=named or spec.driver,
            coe=spec.coe,
            server_type=machine.value if machine else None,
        )
        return resolve(
            request,
            records=self.catalogue.records,
            image=image,
            preferences=self._preferences,
        )

    def open(self, pin: DriverPin) -> NodeClusterDriver:
        """Return the driver that a cluster belongs to, the same one each time.

        :raises ClusterDriverUnknown: that version is not installed any more.
        :raises ClusterDriverUnusable: it cannot be used.
        :raises InvalidClusterDriver: its files, or the operator's templates, are wrong.
        """
        with self._lock:
            if pin not in self._opened:
                loaded = self.catalogue.load_pinned(pin)
                self._opened[pin] = self._open(loaded)
            return self._opened[pin]

    def _open(self, loaded: LoadedDriver) -> NodeClusterDriver:
        record = loaded.record
        driver_class = loaded.driver_class
        if driver_class is None:
            assert loaded.folder is not None
            driver_class = load_directory(loaded.folder)
        if wrong := '; '.join(contract_violations(driver_class)):
            raise _unusable(record.name, wrong)
        assert issubclass(driver_class, ClusterDriver)
        if not issubclass(driver_class, NodeClusterDriver):
            raise _unusable(record.name, 'it has an engine of its own, which kiln cannot ask yet')
        overrides = self._overrides / record.name if self._overrides else None
        if overrides is not None and not overrides.is_dir():
            overrides = None
        return driver_class.open(overrides=overrides)


def _unusable(name: str, why: str) -> ClusterDriverUnusable:
    return ClusterDriverUnusable(f'Cluster driver "{name}" cannot be used: {why}.')
