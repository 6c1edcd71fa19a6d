"""A group with a spread is spread over the zones of its backend."""

import collections

from kiln.clusters.models import OperationKind, OperationState
from kiln.clusters.spec import NodeGroupSpec, Shape
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.engine.context import ZONES_AGAIN_S, ZONES_KEEP_S, Backends
from kiln.exceptions import PermissionDenied
from kiln.models import Ability
from tests.unit.engine.groups import SPREAD
from tests.unit.engine.site import STACK, Site


def spread(count):
    return NodeGroupSpec(name='work', shape=Shape(count=count, zones=SPREAD))


class SpreadSite(Site):
    def by_zone(self):
        return collections.Counter(one.availability_zone for one in self.machines().values())


class Spreading(SpreadSite):
    def test_003_1_nodes_are_spread_over_all_zones_of_the_backend(self):
        cluster = self.created(spread(5))
        self.assertEqual({'az1': 2, 'az2': 2, 'az3': 1}, self.by_zone())
        self.succeeded(self.change(cluster, spread(6), kind=OperationKind.RESIZE))
        self.assertEqual({'az1': 2, 'az2': 2, 'az3': 2}, self.by_zone())

    def test_nothing_is_built_until_the_zones_are_known(self):
        compute = self.parts.backends.get(None)
        compute.open_circuit('read')
        cluster, operation = self.create(spread(3))

        def waits():
            found = self.store.operations.get(operation.id)
            return found.state is OperationState.WAITING and 'zones' in found.cause.message

        self.until(waits)
        self.assertEqual([], self.nodes(cluster))
        compute.close_circuit('read')
        self.succeeded(operation)
        self.assertEqual({'az1': 1, 'az2': 1, 'az3': 1}, self.by_zone())

    def test_a_cluster_can_be_deleted_whatever_zones_exist(self):
        self.parts.backends.get(None).open_circuit('read')
        cluster, operation = self.create(spread(3))
        self.store.operations.cancel(operation.id)
        self.ended(operation)
        self.parts.backends.get(None).close_circuit('read')
        self.ended(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual([], list(self.store.clusters.list()))


class Zoneless(SpreadSite):
    def open_backend(self, name):
        class Limited(NoopDriver):
            @property
            def abilities(self):
                return super().abilities - {Ability.LIST_ZONES}

        return Compute(Limited(cloud=self.cloud), settings=STACK)

    def test_the_backend_chooses_if_it_cannot_list_zones(self):
        cluster = self.created(spread(2))
        self.assertEqual([None, None], [node.place.zone for node in self.nodes(cluster)])


class Remembering(Site):
    def setUp(self):
        super().setUp()
        # It would poll the store thousands of times in the minutes that pass here.
        self.conductor.close()
        self.offered = ['az1', 'az2']
        self.backends = Backends(self.open_backend, default='noop', clock=self.clock)
        self.addCleanup(self.backends.close)

    def open_backend(self, name):
        site = self

        class Telling(NoopDriver):
            def _list_zones(self):
                if site.offered is None:
                    raise PermissionDenied('Cannot list zones: not allowed.')
                return site.offered

        return Compute(Telling(cloud=self.cloud), settings=STACK)

    def test_zones_are_read_again_after_a_while(self):
        self.assertEqual(('az1', 'az2'), self.backends.zones(None, wait=True))
        self.offered = ['az1']
        self.assertEqual(('az1', 'az2'), self.backends.zones(None, wait=True))
        self.clock.sleep(ZONES_KEEP_S)
        self.until(lambda: self.backends.zones(None) == ('az1',))

    def test_a_waiting_caller_gets_the_error_and_others_read_again(self):
        self.offered = None
        with self.assertRaises(PermissionDenied):
            self.backends.zones(None, wait=True)
        self.assertIsNone(self.backends.zones(None))
        self.offered = ['az1']
        self.clock.sleep(ZONES_AGAIN_S)
        self.until(lambda: self.backends.zones(None) == ('az1',))
