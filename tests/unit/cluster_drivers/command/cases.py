"""A cluster of a command driver, whose program is for the shell."""

import dataclasses
import pathlib
import tempfile
import threading
import unittest

from kiln.cluster_drivers.discovery.directory import load_directory
from kiln.clusters.spec import MachineSpec
from kiln.programs.detached import Runs, RunState
from kiln.testing.clock import VirtualClock
from kiln.testing.clusters import samples
from tests.unit.cluster_drivers.command.folders import DESCRIBED, DRIVER, write_driver

DONE = """echo '{"type": "result"}'"""
CREDENTIALS = 'kit'


class CommandCase(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.clock = VirtualClock()
        self.operation = None
        self.secrets = samples.Secret()
        self.soon = threading.Event()
        self.addCleanup(self.end_all)

    def end_all(self):
        last = self.runs().latest() if hasattr(self, 'cluster') else None
        if last is None:
            return
        # One that has just begun has no processes that are known, and is about to write.
        while last.state is RunState.RUNNING:
            last.kill()
        last.wait()

    def runs(self):
        return Runs(self.root / 'runs', self.cluster.id)

    def driver(self, cases, *, yaml=DRIVER, described=DESCRIBED, machine=None):
        """Open a driver with a program, and declare a cluster of it."""
        driver_class = load_directory(
            write_driver(self.root, cases, yaml=yaml, described=described)
        )
        driver = driver_class.open()
        driver.runs_in, driver.clock = self.root / 'runs', self.clock
        driver.variables = {'AT': str(self.root)}
        self.cluster = samples.cluster(driver_class, machine or MachineSpec(), 3)
        return driver

    def call(self, driver, method, **more):
        context = samples.context(
            credentials=CREDENTIALS, operation=self.operation, poll_soon=self.soon.set,
            secrets=self.secrets,
        )  # fmt: skip
        report = getattr(driver, method)(context=context, cluster=self.cluster, **more)
        changes = {
            name: value
            for name in ('driver_handle', 'driver_state')
            if (value := getattr(report, name)) is not None
        }
        self.cluster = dataclasses.replace(self.cluster, **changes)
        return report

    def ask(self, driver, method, **more):
        """Ask for something, and poll: a run is begun once what is asked has been stored."""
        report = self.call(driver, method, **more)
        if report.reason == 'Its program is about to be called.':
            report = self.call(driver, 'update_cluster_status')
        return report

    def create(self, driver):
        return self.ask(driver, 'create_cluster', cluster_create_timeout=60.0)

    def polled(self, driver):
        """Wait for the end of the run, and poll."""
        self.runs().latest().wait()
        return self.ask(driver, 'update_cluster_status')
