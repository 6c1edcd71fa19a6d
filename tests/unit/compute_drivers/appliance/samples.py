"""Sample machines, claims and pools for tests."""

import contextlib
import pathlib
import tempfile
import types
import unittest

from kiln.compute_drivers import validation
from kiln.compute_drivers.appliance.claims.records import Claims
from kiln.compute_drivers.appliance.claims.state_machine import Claim, Phase, Rules
from kiln.compute_drivers.appliance.claims.store import Store
from kiln.compute_drivers.appliance.conf import opts
from kiln.compute_drivers.appliance.driver import ApplianceDriver
from kiln.compute_drivers.appliance.inventory.reading import parse
from kiln.compute_drivers.appliance.work.locks import take_lock
from kiln.models import AmphoraType, Limits
from kiln.testing.clock import VirtualClock

LIMITS = Limits(amphora_types=frozenset({AmphoraType.BARE_METAL, AmphoraType.HW_LOAD_BALANCER}))
RULES = Rules(
    ready_timeout_s=100.0, probe_interval_s=10.0, probe_start_interval_s=1.0, quarantine_s=60.0,
    quarantine_max_s=300.0,
)  # fmt: skip
BARE = '[defaults]\ntype = "bare_metal"\nwipe = []\n'


def pool(count, *, defaults='', each=''):
    """Return the text of an inventory with this many machines."""
    machines = (
        f'[machines.m{number}]\naddresses = ["192.0.2.{number}"]\n{each}'
        for number in range(1, count + 1)
    )
    return f'{BARE}{defaults}\n' + ''.join(machines)


def machine(text='', address='192.0.2.1'):
    """Return one machine, with additional lines in its table."""
    head = f'[machines.m1]\ntype = "bare_metal"\naddresses = ["{address}"]\n'
    wipe = '' if 'wipe' in text else 'wipe = []\n'
    return parse(head + wipe + text, 'inventory').machines['m1']


def request(**given):
    """Return a build request for a machine."""
    given.setdefault('amphora_type', AmphoraType.BARE_METAL)
    owner = given.pop('owner', 'us')
    return validation.build_request(LIMITS, given, owner=owner)


def claim(phase=Phase.UP, **given):
    """Return a claim of m1."""
    known = {
        'id': 'a1', 'machine': 'm1', 'owner': 'us', 'build_key': 'k1', 'name': 'one',
        'amphora_type': AmphoraType.BARE_METAL, 'flavor': None, 'image_id': None, 'zone': None,
        'metadata': {}, 'created_at': 0.0, 'table': {}, 'since': 0.0, 'epoch': 1,
    }  # fmt: skip
    return Claim(phase=phase, **{**known, **given})


class PoolCase(unittest.TestCase):
    """A test with an inventory in a folder, and claims and drivers opened on it."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.inventory = self.folder / 'machines.toml'
        self.clock = VirtualClock()

    def open_claims(self, rules=RULES):
        store = Store(self.folder / 'claims.db')
        self.addCleanup(store.close)
        return Claims(store, rules)

    def lock(self, machine):
        """Lock a machine as another process would."""
        return take_lock(self.folder / 'state' / 'locks', machine)

    def until(self, so, step_s=0.1):
        """Advance virtual time until a condition holds."""
        self.clock.run_until(so, step_s=step_s)

    @contextlib.contextmanager
    def warned(self, step_s=0.1):
        """Wait at the end until a warning was logged."""
        with self.assertLogs('kiln', 'WARNING') as logged:
            yield logged
            self.until(lambda: logged.output, step_s)

    def program(self, name, body):
        """Return the path of a small shell program."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\n{body}\n')
        path.chmod(0o755)
        return path

    def open_driver(self, text=None, **given):
        if text is not None:
            self.inventory.write_text(text)
        clock, owner = given.pop('clock', self.clock), given.pop('owner', 'us')
        options = options_of(
            inventory=str(self.inventory), state_dir=str(self.folder / 'state'), **given
        )
        driver = ApplianceDriver.open(options, name='pool', owner=owner, clock=clock)
        self.addCleanup(driver.close)
        return driver


def options_of(**given):
    """Return the options of a backend, with defaults for those not given."""
    return types.SimpleNamespace(**{**{opt.dest: opt.default for opt in opts}, **given})
