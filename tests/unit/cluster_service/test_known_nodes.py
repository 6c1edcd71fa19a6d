"""Resizes of groups whose nodes an engine of the driver's own builds, and the driver knows."""

import dataclasses

from kiln.cluster_drivers.discovery.activation import DiscoverySettings
from kiln.cluster_drivers.discovery.discovery import discover
from kiln.cluster_drivers.heat_generated_v1.driver import Driver
from kiln.cluster_service.drivers import SiteDrivers
from kiln.cluster_service.planning import Planning
from kiln.cluster_service.requests import Resize
from kiln.clusters.exceptions import ClusterError
from kiln.clusters.models import Operation, OperationKind
from kiln.engine.driver_context import DriverContexts
from kiln.engine.measuring import Meter
from tests.unit.cluster_drivers.heat.made import context
from tests.unit.cluster_service.site import declared
from tests.unit.db.case import StoreCase

SHOP = """\
cluster: shop
driver: heat_generated_v1
image: debian-12
flavor: small
networks: [net1]
nodegroups:
  - {name: control, role: control, count: 1}
  - {name: work, flavors: {big: 2, small: 3}, zones: {az1: 3, az2: 2}}
"""


class Known(StoreCase):
    def setUp(self):
        super().setUp()
        self.planning = Planning(
            self.store,
            SiteDrivers(lambda: discover(DiscoverySettings())),
            lambda machine: None,
            clock=self.clock,
            contexts=DriverContexts(store=self.store, backends=None),
            meter=Meter(self.clock),
        )
        cluster = self.planning.propose(declared(SHOP)).cluster
        self.driver = Driver.open()
        operation = Operation(id='op', cluster_id=cluster.id, kind=OperationKind.CREATE)
        self.store.clusters.create(self.planned(cluster), operation)

    def planned(self, cluster, remove=()):
        """Return a cluster with the state that its driver plans for it."""
        state = self.driver.planned(context(), cluster, remove)
        return dataclasses.replace(cluster, driver_state=state.write())

    def resized(self, **request):
        return self.planning.propose(Resize(cluster='shop', **request))

    def nodes(self, cluster):
        return {node.name for node in self.driver.known_nodes(cluster)}

    def test_a_group_loses_the_flavor_and_the_zone_of_each_named_node(self):
        before = self.nodes(self.store.clusters.get('shop'))
        for name in sorted(before - {'control-1'}):
            with self.subTest(name):
                found = self.resized(group='work', remove=(name,))
                after = self.nodes(self.planned(found.cluster, [name]))
                self.assertEqual(before - {name}, after)
                self.assertEqual({'group': 'work', 'remove': [name]}, dict(found.args))

    def test_the_group_of_the_named_nodes_is_the_one_that_is_resized(self):
        found = self.resized(remove=('work-1', 'work-4'))
        self.assertEqual(3, found.cluster.spec.group('work').shape.count)
        self.assertEqual(1, found.cluster.spec.group('control').shape.count)

    def test_a_node_of_another_group_than_the_named_one_is_refused(self):
        with self.assertRaisesRegex(ClusterError, 'only nodes of that group'):
            self.resized(group='control', count=0, remove=('work-1',))

    def test_a_node_that_is_not_known_so_far_is_left_to_the_driver(self):
        found = self.resized(group='work', remove=('work-9',))
        self.assertEqual(4, found.cluster.spec.group('work').shape.count)
        self.assertEqual(['work-9'], found.args['remove'])

    def test_without_known_nodes_the_group_must_be_named(self):
        for request in {'count': 3}, {'remove': ('work-9',)}:
            with (
                self.subTest(request),
                self.assertRaisesRegex(ClusterError, 'group must be named'),
            ):
                self.resized(**request)
