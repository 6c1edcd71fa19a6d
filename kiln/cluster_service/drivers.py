"""The cluster drivers of a site: chosen for new clusters, opened for others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kiln.cluster_drivers.base import ClusterDriver, NodeClusterDriver
from kiln.cluster_drivers.calls import driver_errors, open_driver
from kiln.cluster_drivers.discovery.contract import contract_violations
from kiln.cluster_drivers.discovery.discovery import Catalogue, LoadedDriver
from kiln.cluster_drivers.known_nodes import KnownNodes
from kiln.cluster_drivers.selection.matching import Preference
from kiln.cluster_drivers.selection.request import Image, Request
from kiln.cluster_drivers.selection.selection import Decision, resolve
from kiln.clusters.exceptions import ClusterDriverUnusable, ClusterError, DriverSelectionError
from kiln.clusters.models import Cluster, DriverPin, Node
from kiln.clusters.spec import ClusterSpec


class SiteDrivers:
    """All cluster drivers of a site. Can be used by several threads at once."""

    def __init__(
        self,
        discover: Callable[[], Catalogue],
        *,
        preferences: Sequence[Preference] = (),
        overrides: Path | None = None,
    ) -> None:
        """Take the settings; drivers are discovered later.

        :param overrides: a directory in which a directory NAME holds templates that
            replace those of the driver NAME.
        """
        self._discover = discover
        self._preferences = preferences
        self._overrides = overrides
        self._lock = threading.RLock()
        self._catalogue: Catalogue | None = None
        self._opened: dict[DriverPin, ClusterDriver] = {}

    @property
    def catalogue(self) -> Catalogue:
        """The drivers found by the first discovery."""
        with self._lock:
            if self._catalogue is None:
                self._catalogue = self._discover()
            return self._catalogue

    def choose(
        self, spec: ClusterSpec, *, named: str | None = None, image: Image | None = None
    ) -> Decision:
        """Return the driver for a new cluster, and how it was chosen.

        :param named: the driver that was requested instead of the one the cluster names.
        :param image: the image of its machines, as far as it is known.
        :raises DriverSelectionError: no driver fits, or more than one.
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

    def has_own_engine(self, spec: ClusterSpec, named: str | None = None) -> bool:
        """Return whether, without regard to its image, a cluster gets a driver with an engine.

        False as long as only the image can say which driver it gets.
        """
        try:
            return not self.plans_nodes(self.choose(spec, named=named).pin)
        except ClusterError:
            return False

    def open(self, pin: DriverPin) -> ClusterDriver:
        """Return the driver that a cluster belongs to, the same one each time.

        :raises ClusterDriverUnknown: that version is no longer installed.
        :raises ClusterDriverUnusable: it cannot be used.
        :raises InvalidClusterDriver: its files, or the operator's templates, are wrong.
        """
        with self._lock:
            if pin not in self._opened:
                self._opened[pin] = self._open(self._pinned(pin))
            return self._opened[pin]

    def _pinned(self, pin: DriverPin) -> LoadedDriver:
        try:
            return self.catalogue.load_pinned(pin)
        except DriverSelectionError:
            # It can have been installed since the last discovery.
            self._catalogue = self._discover()
            return self._catalogue.load_pinned(pin)

    def plans_nodes(self, pin: DriverPin) -> bool:
        """Return whether kiln's own engine builds the nodes, and not one of the driver's.

        :raises ClusterError: the driver cannot be used.
        """
        return isinstance(self.open(pin), NodeClusterDriver)

    def changed_templates(self, pin: DriverPin) -> str:
        """Return the digest of a driver's templates if the operator changed some."""
        driver = self.open(pin)
        return driver.changed_templates if isinstance(driver, NodeClusterDriver) else ''

    def _open(self, loaded: LoadedDriver) -> ClusterDriver:
        driver_class = loaded.whole_class()
        if wrong := '; '.join(contract_violations(driver_class)):
            raise ClusterDriverUnusable(
                f'Cluster driver "{loaded.record.name}" cannot be used: {wrong}.'
            )
        overrides = self._overrides / loaded.record.name if self._overrides else None
        if overrides is not None and not overrides.is_dir():
            overrides = None
        return open_driver(driver_class, overrides=overrides)


def previews(driver: ClusterDriver) -> bool:
    """Return whether a driver's own engine foresees what a change would do."""
    return type(driver).preview_cluster is not ClusterDriver.preview_cluster


def known_nodes(driver: ClusterDriver, cluster: Cluster) -> Sequence[Node]:
    """Return the nodes that a driver with an engine of its own knows of; empty if it keeps none.

    :raises ClusterDriverDefect: its code has a mistake.
    """
    if not isinstance(driver, KnownNodes):
        return ()
    with driver_errors(driver.name, 'known_nodes'):
        return driver.known_nodes(cluster)
