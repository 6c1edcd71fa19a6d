"""What a backend may decide for itself, the kit does not take for a broken promise."""

import unittest

from kiln.compute_drivers.noop.bench import NoopBench
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.exceptions import AmphoraBuildError, BuildConflict, UnsupportedOperation
from kiln.models import Ability
from kiln.testing.clock import VirtualClock
from kiln.testing.conformance import BehaviourOutcome, run_conformance
from kiln.testing.conformance.samples import OF_INSTANCES, ask
from kiln.testing.minimal import MinimalDriver


class Strict(NoopDriver):
    """Gives each name once, and fails at once the build of what would not run."""

    doomed = ''
    bench = f'{__name__}:StrictBench'

    def _build(self, request):
        same = next(iter(self._find(request.name)), None)
        if same is not None and same.build_key != request.build_key:
            raise BuildConflict(f'Cannot build {request.name}: its name is taken by {same.id}.')
        if self.doomed:
            self.doomed, fault = '', self.doomed
            raise AmphoraBuildError(f'Cannot build {request.name}.', fault=fault)
        return super()._build(request)

    def _list_resources(self, owner):
        return (one for one in super()._list_resources(owner) if one.kind != 'server_group')


class StrictBench(NoopBench):
    def fail_build(self, text):
        self.driver.doomed = text

    def leave_resources(self):
        return [one for one in super().leave_resources() if one.kind != 'server_group']


class LongIds(unittest.TestCase):
    def test_a_driver_whose_ids_are_long_refuses_what_it_lacks(self):
        driver = MinimalDriver()
        lacking = OF_INSTANCES - driver.abilities
        self.assertIn(Ability.CLAIM, lacking)
        for ability in lacking:
            with self.assertRaises(UnsupportedOperation):
                ask(driver, ability, 'f' * 64)


class ChoicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.report = run_conformance(
            lambda: Strict(cloud=NoopCloud(clock=VirtualClock())),
            faults=StrictBench,
            port_ids=['port-1'],
            network_ids=['net-1'],
        )

    def test_a_strict_backend_keeps_every_promise_that_it_makes(self):
        self.assertTrue(self.report.ok, self.report.render())
        self.assertGreaterEqual(len(self.report.of(BehaviourOutcome.PASSED)), 80)

    def test_what_it_leaves_no_way_to_show_is_said_and_not_passed(self):
        reasons = {
            one.reason for one in self.report.results if one.outcome is BehaviourOutcome.NOT_SHOWN
        }
        self.assertIn('Cannot be shown here: this backend fails a build at once.', reasons)
        self.assertIn(Ability.LIST_RESOURCES, Strict(cloud=NoopCloud()).abilities)
        self.assertIn(
            'Cannot be shown here: this backend does not list server groups as resources.', reasons
        )
