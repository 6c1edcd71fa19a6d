"""Failed and cancelled operations on the real Heat, and what ``kiln cluster why`` tells."""

import dataclasses
import subprocess
import time

from kiln.cluster_drivers.heat.names import stack_name
from kiln.cluster_service.requests import Declare
from kiln.clusters.models import OperationState
from kiln.clusters.spec import MachineSpec
from tests.functional.heat import killing, real_kills
from tests.functional.heat.bench import nodes_of, remove, stacks
from tests.unit.test_layering import ROOT

WAIT_S = 240.0


class Commands(real_kills.OnRealHeat, killing.Conducted):
    """Operations of a site with a conductor; 000-14."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.sweep)
        self.start()

    def sweep(self):
        for one in stacks(killing.SITE):
            remove(one)

    def until(self, true, what):
        end = time.monotonic() + WAIT_S
        while not true():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.2)

    def ended(self, operation):
        self.until(lambda: self.found(operation).state.ended, operation)
        return self.found(operation)

    def done(self, request):
        ended = self.ended(self.submit(request))
        self.assertIs(OperationState.SUCCEEDED, ended.state, ended)

    def why(self, name):
        told = subprocess.run(
            self.command('cluster', 'why', name), cwd=ROOT, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return told.stdout

    def stack(self, name):
        """Return the one stack of a cluster."""
        expected = stack_name(killing.SITE, self.site.store.clusters.get(name).id)
        (stack,) = [one for one in stacks(killing.SITE) if one['stack_name'] == expected]
        return stack

    def test_why_goes_down_to_the_resource_that_failed_and_what_is_corrected_goes_on(self):
        spec = self.spec('north')
        control, work = spec.groups
        wrong = dataclasses.replace(work, machine=MachineSpec(flavor='impossible'))
        failed = self.ended(
            self.submit(Declare(spec=dataclasses.replace(spec, groups=(control, wrong))))
        )
        self.assertIs(OperationState.FAILED, failed.state)
        told = self.why('north')
        self.assertIn('OS::Nova::Server', told)
        self.assertIn('No valid host', told)
        first = self.stack('north')['id']
        self.done(Declare(spec=spec))
        stack = self.stack('north')
        self.assertEqual((first, 4), (stack['id'], len(nodes_of(stack))))

    def test_a_cancelled_creation_is_gone_on_with_by_the_next_operation(self):
        creation = self.submit(Declare(spec=self.spec('south')))
        self.until(lambda: self.found(creation).state is OperationState.RUNNING, creation)
        self.site.clusters.cancel('south')
        self.assertIs(OperationState.CANCELLED, self.ended(creation).state)
        self.done(Declare(spec=self.spec('south', 4)))
        self.assertEqual(5, len(nodes_of(self.stack('south'))))
