"""Enrolled machines keep every promise: bare, wrapped, and where commands and probes run.

The machines are servers on the loopback that answer as soon as their claim command has
run, and no longer once their wipe command has.
"""

import contextlib
import json
import os
import pathlib
import shlex
import sqlite3
import tempfile
import unittest

from kiln.clock import SYSTEM_CLOCK
from kiln.compute.stack import assemble
from kiln.compute_drivers.appliance.driver import ApplianceDriver
from kiln.compute_drivers.authoring.bench import Faults
from kiln.models import AmphoraType
from kiln.telemetry.events import Listener
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import (
    BehaviourOutcome,
    ComputeDriverConformance,
    FaultConformance,
    run_conformance,
)
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.circuit.breaker import BreakerDriver
from tests.conformance import test_wrapped
from tests.conformance.yard import PATIENCE, Yard
from tests.unit.compute_drivers.appliance.samples import options_of

#: As many as a behaviour of the kit ever has at a time.
MACHINES = 24
MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None


class Pool:
    """Opens drivers, all on one pool without commands and probes: nothing takes time."""

    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        inventory = folder / 'machines.toml'
        inventory.write_text(self.pool(folder))
        # Each claim is synced to the disk, and the kit makes thousands.
        state = self.enterContext(tempfile.TemporaryDirectory(dir=MEMORY))
        self.options = options_of(inventory=str(inventory), state_dir=state, **self.patience())
        self.pool_clock = self.a_clock()
        super().setUp()

    def open_driver(self):
        clock = self.pool_clock
        driver = ApplianceDriver.open(self.options, name='pool', owner='kiln', clock=clock)
        self.addCleanup(driver.close)
        return driver

    def pool(self, _):
        kinds = (AmphoraType.BARE_METAL, AmphoraType.HW_LOAD_BALANCER)
        return '[defaults]\nwipe = []\nflavors = ["small"]\n' + ''.join(
            f'[machines.m{number}]\ntype = "{kinds[number % 2]}"\n'
            f'addresses = ["192.0.2.{number}"]\nzone = "az{number % 3}"\n'
            for number in range(2 * MACHINES)
        )

    def patience(self):
        return {}

    def a_clock(self):
        return VirtualClock()


class PoolConformance(Pool, ComputeDriverConformance):
    def make_driver(self):
        return self.wrap(self.open_driver())

    def wrap(self, driver):
        return driver


class InstantPoolConformance(PoolConformance, unittest.TestCase):
    pass


class WrappedPoolConformance(PoolConformance, unittest.TestCase):
    def wrap(self, driver):
        return BreakerDriver(DriverWrapper(driver))


class AssembledPoolConformance(PoolConformance, unittest.TestCase):
    short_s = 0.2

    def a_clock(self):
        return SYSTEM_CLOCK

    def wrap(self, driver):
        stack = assemble(driver, test_wrapped.AssembledConformance.settings, [Listener()])
        self.addCleanup(stack.close, 5.0)
        return stack.executor


class YardFaults(Faults):
    """Makes the machines of a yard fail, as machines do; no call of a pool can get lost."""

    def __init__(self, driver, yard):
        self._driver = driver
        self._yard = yard

    def exhaust_capacity(self):
        for name in self._yard.names:
            self._driver.maintain(name, 'nobody is to have it')

    def fail_build(self, text):
        self._yard.program('claim', f'echo {shlex.quote(text)}; exit 1')

    def stall_build(self):
        self._yard.program('claim', 'exec sleep 600')

    @contextlib.contextmanager
    def outage(self):
        """Lock the claims, as a process that hangs does, and switch off what runs."""
        on = [name for name in self._yard.names if self._yard.is_on(name)]
        with contextlib.closing(sqlite3.connect(self._driver._store._path, timeout=60)) as db:
            db.execute('BEGIN EXCLUSIVE')
            for name in on:
                self._yard.turn(name, False)
            try:
                yield
            finally:
                for name in on:
                    self._yard.turn(name, True)
                db.rollback()

    def vanish(self, amphora_id):
        self._driver._claims.change(amphora_id, lambda _: None, self._driver.clock.time())


class WorkingPoolConformance(PoolConformance, FaultConformance, unittest.TestCase):
    """The kit on machines that are claimed, probed, rebooted and wiped for real."""

    short_s = 0.2

    def setUp(self):
        super().setUp()
        self.bench.logs_boots, self.bench.lacking = True, self.lacking

    def lacking(self, amphora_id, request):
        self.settle(amphora_id)
        machine = self.driver.get_amphora(amphora_id=amphora_id).raw['machine']
        brought = self.yard.brought(machine)
        files = [
            (one['path'], brought[one['source']], int(one['mode'], 8), one['owner'])
            for one in json.loads(brought.get('files.json', '[]'))
        ]
        got = {
            'user_data': brought.get('user_data'),
            'keys': tuple(brought.get('authorized_keys', b'').decode().splitlines()),
            'files': files,
        }
        wanted = {
            'user_data': request.user_data,
            'keys': request.keys,
            'files': [(one.path, one.content, one.mode, one.owner) for one in request.files],
        }
        return {name for name, value in wanted.items() if got[name] != value}

    def a_clock(self):
        return SYSTEM_CLOCK

    def pool(self, folder):
        self.yard = self.enterContext(Yard(folder, MACHINES))
        return self.yard.inventory()

    def make_faults(self, driver):
        return YardFaults(driver, self.yard)

    def patience(self):
        return PATIENCE


class ReportOfPoolTest(Pool, unittest.TestCase):
    def test_every_behaviour_but_those_of_faults_is_shown(self):
        report = run_conformance(self.open_driver, select=['Building', 'Deleting', 'Abilities*'])
        self.assertTrue(report.ok, report.render())
        self.assertGreaterEqual(len(report.of(BehaviourOutcome.PASSED)), 30)
