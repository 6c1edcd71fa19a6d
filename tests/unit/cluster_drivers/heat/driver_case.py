"""A HeatDriver on a Heat that is played, and the cluster that it is called about."""

import dataclasses
import unittest

from kiln.cluster_drivers.heat.names import stack_name
from kiln.cluster_drivers.heat.poller import TICK_S
from kiln.cluster_drivers.values import Progress
from kiln.testing.clock import VirtualClock
from tests.unit.cluster_drivers.heat.fake_heat import WORK_S, FakeHeat
from tests.unit.cluster_drivers.heat.made import FILE, cluster_of, context, generated

NAME = stack_name('east', 'c1')


class DriverCase(unittest.TestCase):
    def setUp(self):
        self.heat = self.enterContext(FakeHeat())
        self.clock = VirtualClock()
        self.driver = generated(self.heat, self.clock)
        self.context = context()
        self.cluster = cluster_of()

    def take(self, report):
        kept = {
            name: getattr(report, name)
            for name in ('driver_handle', 'driver_state')
            if getattr(report, name) is not None
        }
        self.cluster = dataclasses.replace(self.cluster, **kept)
        return report

    def call(self, method, **more):
        call = getattr(self.driver, method)
        return self.take(call(context=self.context, cluster=self.cluster, **more))

    def create(self):
        return self.call('create_cluster', cluster_create_timeout=600.0)

    def poll(self, after_s=TICK_S + 1):
        self.clock.advance(after_s)
        return self.call('update_cluster_status')

    def work(self, after_s=TICK_S + 1):
        self.heat.work(WORK_S)
        return self.poll(after_s)

    def change(self, text=FILE, **more):
        spec = dataclasses.replace(cluster_of(text).spec, **more)
        generation = self.cluster.generation + 1
        self.cluster = dataclasses.replace(self.cluster, spec=spec, generation=generation)

    def settle(self):
        self.create()
        self.assertIs(Progress.COMPLETE, self.work().progress)
        self.heat.requests.clear()

    @property
    def methods(self):
        return [method for method, _ in self.heat.requests]

    @property
    def nodes(self):
        live = self.heat.named(NAME)['live']
        return sorted(name for name in live if 'port' not in name)
