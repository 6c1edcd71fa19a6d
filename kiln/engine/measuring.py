"""Measurement of clusters with the monitors of their drivers."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping

from kiln.clock import SYSTEM_CLOCK, Clock, Deadline
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.monitor import Gauge, Reading
from kiln.cluster_drivers.values import Cap, Context
from kiln.clusters.models import Cluster

#: Seconds that a monitor has for one measurement.
LONGEST_S = 10.0


class Meter:
    """Measures clusters; can be used by several threads at once.

    While a late measurement of a cluster still runs, its values are unknown and no other one
    is started: a cluster that does not answer costs one thread, however often it is measured.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, timeout_s: float = LONGEST_S) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._gauges: dict[str, Gauge] = {}

    def deadline(self) -> Deadline:
        """Return the deadline of a call that begins now."""
        return Deadline.after(self._timeout_s, self._clock)

    def read(
        self, driver: ClusterDriver, context: Context, cluster: Cluster
    ) -> tuple[Reading, ...] | None:
        """Return a reading of each metric; None if the driver does not measure the cluster.

        Blocks up to the deadline of the monitor.

        :raises ClusterDriverError: the driver cannot return its monitor.
        """
        if Cap.MONITOR not in driver.capabilities:
            return None
        get_monitor = functools.partial(driver.get_monitor, context=context, cluster=cluster)
        monitor = call_driver(driver.name, 'get_monitor', get_monitor)
        if monitor is None:
            return None
        with self._lock:
            gauge = self._gauges.get(cluster.id)
            if gauge is None or not gauge.busy:
                gauge = Gauge(monitor, timeout_s=self._timeout_s, clock=self._clock)
                self._gauges[cluster.id] = gauge
        return gauge.read()

    def with_readings(self, driver: ClusterDriver, context: Context, cluster: Cluster) -> Context:
        """Return a context in which a scale manager can read the monitor of its driver."""

        def readings() -> Mapping[str, float | None]:
            return values_of(self.read(driver, context, cluster) or ())

        return dataclasses.replace(context, readings=readings)


def values_of(readings: tuple[Reading, ...]) -> Mapping[str, float | None]:
    """Return the values of readings by the name of the metric."""
    return {one.metric.name: one.value for one in readings}
