"""The simulated cloud keeps every promise, at once and with things that take time."""

import contextlib
import dataclasses
import tempfile
import unittest
from pathlib import Path
from types import MappingProxyType

from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import InsufficientCapacity, QuotaExceeded
from kiln.models import State
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import (
    BehaviourOutcome,
    ComputeDriverConformance,
    FaultConformance,
    Faults,
    run_conformance,
)
from tests.hurrying_clock import HurryingClock

LATENCIES = {
    'build_s': 30,
    'delete_s': 5,
    'suspend_s': 4,
    'resume_s': 4,
    'reboot_s': 20,
    'rebuild_s': 40,
    'jitter': 0.2,
}


class InstantNoopConformance(ComputeDriverConformance, FaultConformance, unittest.TestCase):
    def make_driver(self):
        return NoopDriver(cloud=NoopCloud(clock=HurryingClock(), **self.cloud_options()))

    def cloud_options(self):
        return {}


class SlowNoopConformance(InstantNoopConformance):
    build_arguments = MappingProxyType(
        {'amphora_flavor': 'small', 'image_id': 'image-1', 'availability_zone': 'a'}
    )

    def cloud_options(self):
        return {
            **LATENCIES,
            'seed': 7,
            'zones': ['a', 'b'],
            'images': ['image-1', 'image-2'],
            'image_properties': {'image-2': {'os_distro': 'debian'}},
            'hosts_per_zone': 3,
            'accept_s': 0.02,
            'networks': ['net-0', 'net-1'],
            'ports': {'port-1': 'net-1'},
        }


class FileNoopConformance(InstantNoopConformance):
    one_backend = True

    def setUp(self):
        self._path = Path(self.enterContext(tempfile.TemporaryDirectory()), 'cloud.db')
        self._clock = VirtualClock()
        super().setUp()

    def make_driver(self):
        # Builds and deletes are done at once, which is another course in the cloud.
        latencies = LATENCIES | {'build_s': 0, 'delete_s': 0}
        return NoopDriver(cloud=NoopCloud(clock=self._clock, path=self._path, **latencies))


class HoldingNoopConformance(InstantNoopConformance):
    """One cloud for all behaviours, which frees a port only when the machine is gone."""

    one_backend = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ports = {'port-1': 'net-1', 'port-2': 'net-1'}
        cls.cloud = NoopCloud(clock=VirtualClock(), ports=ports, **LATENCIES)

    def make_driver(self):
        return NoopDriver(cloud=self.cloud)


class BlinkingNoopDriver(NoopDriver):
    """Loses sight of what is being built, as Nova does on its way to a host."""

    def _changes(self, since):
        changes = super()._changes(since)
        if changes.complete:
            return changes
        seen = [one for one in changes.statuses if one.state is not State.BUILDING]
        return dataclasses.replace(changes, statuses=tuple(seen))


class BlinkingNoopConformance(InstantNoopConformance):
    def make_driver(self):
        return BlinkingNoopDriver(cloud=NoopCloud(clock=VirtualClock(), **LATENCIES))


class Limits(Faults):
    """Reaches the limits of a cloud by building, until it refuses."""

    def __init__(self, driver):
        self._driver = driver

    def exhaust_quota(self):
        self._fill('spacious')

    def exhaust_capacity(self):
        self._fill('cramped')

    def _fill(self, zone):
        with contextlib.suppress(QuotaExceeded, InsufficientCapacity):
            while True:
                self._driver.build(availability_zone=zone)


class LimitedNoopConformance(FaultConformance, unittest.TestCase):
    """The limits of the cloud itself, instead of scripted faults."""

    build_arguments = MappingProxyType({'availability_zone': 'cramped'})

    def make_driver(self):
        limits = {'quota': 9, 'capacity': {'cramped': 5}, 'zones': ['cramped', 'spacious']}
        return NoopDriver(cloud=NoopCloud(clock=VirtualClock(), **limits))

    def make_faults(self, driver):
        return Limits(driver)


class ReportOfNoopTest(unittest.TestCase):
    def test_every_behaviour_is_shown_on_noop(self):
        report = run_conformance(
            lambda: NoopDriver(cloud=NoopCloud(clock=VirtualClock(), **LATENCIES)),
        )
        self.assertTrue(report.ok, report.render())
        self.assertGreaterEqual(len(report.of(BehaviourOutcome.PASSED)), 80)
        self.assertEqual(report.of(BehaviourOutcome.NOT_SHOWN), frozenset())

    def test_no_behaviour_leaves_its_amphorae_to_the_end_of_the_run(self):
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), 'cloud.db')
        # A driver of a file is of no use once it is closed; one in memory is.
        with self.assertNoLogs('kiln.testing.conformance', 'WARNING'):
            report = run_conformance(
                lambda: NoopDriver(cloud=NoopCloud(path=path, clock=HurryingClock())),
                select=['Several drivers*', 'Threads*'],
            )
        self.assertTrue(report.ok, report.render())
        self.assertGreater(len(report.of(BehaviourOutcome.PASSED)), 15)
