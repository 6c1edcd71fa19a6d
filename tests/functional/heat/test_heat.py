"""Drivers on the real Heat: the kit, and what only a real one shows."""

import dataclasses
import os
import time
import unittest
import uuid

from kiln.cluster_drivers.heat.base import HeatDriver
from kiln.cluster_drivers.heat.connections import Connections
from kiln.cluster_drivers.heat.names import stack_name
from kiln.cluster_drivers.heat.poller import HeatPoller
from kiln.cluster_drivers.heat.state import DELETE_TRIES
from kiln.cluster_drivers.heat_generated_v1.driver import Driver as GeneratedDriver
from kiln.cluster_drivers.heat_group_v1.driver import Driver as GroupDriver
from kiln.cluster_drivers.values import PlannedChange, Progress
from kiln.cluster_file.reading import read
from kiln.clusters.models import OperationKind
from kiln.clusters.spec import MachineSpec
from kiln.openstack.heat.events import told
from kiln.testing.clusters import OwnEngineConformance, samples
from kiln.testing.clusters.behaviours.own_engine import OwnEngine
from kiln.testing.clusters.behaviours.own_engine_apart import Leavings
from kiln.testing.clusters.behaviours.own_engine_life import WhatStands
from tests.functional.cloud import CloudTestCase
from tests.functional.heat.bench import (
    GENERATED_FILE,
    OneSecret,
    RealGroupBench,
    RealHeatBench,
    RealWebBench,
    nodes_of,
    remove,
    session,
    stacks,
)
from tests.unit.test_layering import ROOT

WAIT_S = 240
#: Seconds between two lists, and between two polls: a deletion is tried again after some polls.
TICK_S, POLL_S = 1.0, 0.25
WEB = str(ROOT / 'doc/examples/cluster_drivers/web_on_heat_v1')


class Leaves(OwnEngine):
    """The one behaviour that CI has time for; on a played Heat it judges by all of them."""

    test_a_life_leaves_nothing_in_the_engine = Leavings.test_a_life_leaves_nothing_in_the_engine


class Removes(OwnEngine):
    """The same, of a driver whose nodes can be named."""

    test_the_named_nodes_are_removed_and_no_others = (
        WhatStands.test_the_named_nodes_are_removed_and_no_others
    )


#: True if all behaviours judge all drivers, which takes hours.
WHOLE = 'KILN_HEAT_KIT' in os.environ


class OnHeat(CloudTestCase):
    services = ('heat',)
    # Each process has a project of its own.
    alone = False


class GeneratedOnHeat(OwnEngineConformance if WHOLE else Removes, OnHeat):
    """The kit on the real Heat; 003-6. With KILN_HEAT_KIT it is the whole one."""

    driver = 'kiln.cluster_drivers.heat_generated_v1.driver:Driver'
    bench_class = RealHeatBench
    soon_s = 60.0


class FolderOnHeat(OwnEngineConformance if WHOLE else Leaves, OnHeat):
    """The same for a driver of a template and mappings alone; 000-9, 000-10."""

    driver = WEB
    bench_class = RealWebBench
    soon_s = 60.0


class GroupOnHeat(OwnEngineConformance if WHOLE else Removes, OnHeat):
    """The same for the driver with one resource group; 003-6."""

    driver = 'kiln.cluster_drivers.heat_group_v1.driver:Driver'
    bench_class = RealGroupBench
    soon_s = 60.0


class OneCluster(OnHeat):
    """A cluster, and a driver that is called about it."""

    driver_class = GeneratedDriver

    def setUp(self):
        super().setUp()
        self.addCleanup(self._sweep)
        self.driver = self.new_driver()
        self.context = samples.context(site='life', secrets=OneSecret(), credentials='heat')
        (spec,) = read(GENERATED_FILE).clusters
        self.cluster = dataclasses.replace(
            samples.cluster(self.driver_class, MachineSpec(), 0, id_=uuid.uuid4().hex), spec=spec
        )

    def new_driver(self) -> HeatDriver:
        driver = self.driver_class.open()
        driver.connections, driver.poller = Connections(), HeatPoller(tick_s=TICK_S)
        return driver

    def stacks(self):
        """Return the stacks of the cluster; there are those of other tests, too."""
        name = stack_name('life', self.cluster.id)
        return [one for one in stacks('life') if one['stack_name'] == name]

    def _sweep(self):
        for one in self.stacks():
            remove(one)

    def take(self, report):
        changes = {
            name: getattr(report, name)
            for name in ('driver_handle', 'driver_state')
            if getattr(report, name) is not None
        }
        self.cluster = dataclasses.replace(self.cluster, **changes)
        return report

    def changed(self, **changes):
        spec = dataclasses.replace(self.cluster.spec, **changes)
        self.cluster = dataclasses.replace(
            self.cluster, spec=spec, generation=self.cluster.generation + 1
        )

    def of_group(self, **changes):
        control, work = self.cluster.spec.groups
        return {'groups': (control, dataclasses.replace(work, **changes))}

    def create(self):
        return self.take(
            self.driver.create_cluster(
                context=self.context, cluster=self.cluster, cluster_create_timeout=WAIT_S
            )
        )

    def ended(self):
        end = time.monotonic() + WAIT_S
        while True:
            report = self.take(self.driver.update_cluster_status(self.context, self.cluster))
            if report.progress is not Progress.IN_PROGRESS or time.monotonic() > end:
                return report
            time.sleep(POLL_S)

    def done(self):
        report = self.ended()
        self.assertIs(Progress.COMPLETE, report.progress, report.reason)
        return report

    def nodes(self):
        (stack,) = self.stacks()
        return nodes_of(stack)


class GeneratedLife(OneCluster):
    """What happens to a cluster, one call after the other; 000-10, 000-11, 003-6."""

    #: The nodes of the cluster, a new one, and one from the middle.
    first, new, middle = ('control-1', 'work-1', 'work-2', 'work-3'), 'work-4', 'work-2'

    def test_a_repeated_creation_meets_the_stack_of_the_first(self):
        first = self.create()
        # As after a crash: the first answer is lost.
        self.cluster = dataclasses.replace(self.cluster, driver_state={}, driver_handle=None)
        self.assertEqual(first.driver_state, self.create().driver_state)
        self.assertEqual({*self.first}, {*self.done().outputs['nodes']})
        self.assertEqual(1, len(self.stacks()))

    def test_events_of_a_change_are_told_and_those_after_one_of_them_alone(self):
        self.create()
        self.done()
        client = self.driver._client(self.context)
        name, id_ = self.cluster.driver_handle, self.cluster.driver_state['id']
        whole = client.events(name, id_)
        (done,) = (line for line in told(whole) if 'CREATE_COMPLETE' in line)
        self.assertRegex(done, f'(control|work|nodes|{self.first[0]})')
        self.assertTrue(whole[0].whole)
        for number in (0, len(whole) // 2, len(whole) - 1):
            self.assertEqual(whole[number + 1 :], client.events(name, id_, whole[number].id))

    def test_a_node_from_the_middle_goes_and_its_number_does_not_come_back(self):
        self.create()
        self.done()
        before = self.nodes()
        shape = dataclasses.replace(self.cluster.spec.groups[1].shape, count=2)
        self.changed(**self.of_group(shape=shape))
        group = self.cluster.spec.groups[1]
        plan = PlannedChange(kind=OperationKind.RESIZE, named=(self.middle,))
        told = self.driver.preview_cluster(self.context, self.cluster, plan)
        self.assertTrue(any('deleted' in line for line in told), told)
        self.take(
            self.driver.resize_cluster(
                self.context, self.cluster, nodegroup=group, node_count=2,
                nodes_to_remove=(self.middle,),
            )
        )  # fmt: skip
        self.done()
        kept = {name: id_ for name, id_ in before.items() if name != self.middle}
        self.assertEqual(kept, self.nodes())
        shape = dataclasses.replace(shape, count=3)
        self.changed(**self.of_group(shape=shape))
        self.take(self.driver.update_cluster(self.context, self.cluster))
        self.done()
        self.assertEqual({*kept, self.new}, set(self.nodes()))

    def test_a_deleted_cluster_leaves_no_stack(self):
        self.create()
        # Also while it is created.
        self.take(self.driver.delete_cluster(self.context, self.cluster))
        self.done()
        self.assertEqual([], self.stacks())


if WHOLE:

    class GroupLife(GeneratedLife):
        """The same with one resource group."""

        driver_class = GroupDriver
        first, new, middle = ('control-1', 'work-2', 'work-3', 'work-4'), 'work-5', 'work-3'


class Somebodys(OneCluster):
    """A stack that somebody changes past kiln."""

    def asked_by_somebody(self, path='', method='POST', **body):
        """Request something of the stack, and wait until Heat has done it."""
        (stack,) = self.stacks()
        session().request(
            f'/stacks/{stack["stack_name"]}/{stack["id"]}{path}', method, json=body,
            endpoint_filter={'service_type': 'orchestration'},
        )  # fmt: skip
        end = time.monotonic() + WAIT_S
        while self.stacks()[0]['stack_status'].endswith('IN_PROGRESS') and time.monotonic() < end:
            time.sleep(POLL_S)
        # The list that this one has is of a moment before.
        self.driver = self.new_driver()

    def test_a_change_that_keeps_the_tags_is_told_and_an_update_takes_the_stack_back(self):
        self.create()
        self.done()
        self.asked_by_somebody('/actions', check=None)
        self.done()
        tags = ','.join(self.stacks()[0]['tags'])
        self.asked_by_somebody(method='PATCH', tags=tags, parameters={})
        self.assertEqual(tags, ','.join(self.stacks()[0]['tags']))
        report = self.ended()
        self.assertIs(Progress.FAILED, report.progress, report.reason)
        self.assertIn('somebody else has changed it', report.reason)
        self.take(self.driver.update_cluster(self.context, self.cluster))
        self.done()


class Held(OneCluster):
    """A stack that Heat cannot delete, since an administrator has locked a server."""

    def test_what_holds_a_stack_is_told_after_some_tries_and_it_goes_once_nothing_does(self):
        self.create()
        self.done()
        held = self.nodes()['work-2']
        self.act(held, 'lock')
        self.addCleanup(self.act, held, 'unlock')
        self.take(self.driver.delete_cluster(self.context, self.cluster))
        # As after all tries but one; Heat needs seconds for each.
        state = {**self.cluster.driver_state, 'tries': DELETE_TRIES - 1}
        self.cluster = dataclasses.replace(self.cluster, driver_state=state)
        report = self.ended()
        self.assertIs(Progress.FAILED, report.progress)
        self.assertRegex(report.reason, r'DELETE_FAILED: work-2 \(OS::Nova::Server\): .* locked')
        self.act(held, 'unlock')
        self.take(self.driver.delete_cluster(self.context, self.cluster))
        self.done()
        self.assertEqual([], self.stacks())

    def act(self, server, action):
        self.cloud.session().post(
            f'/servers/{server}/action', json={action: None}, raise_exc=False,
            endpoint_filter={'service_type': 'compute'},
        )  # fmt: skip


if __name__ == '__main__':
    unittest.main()
