"""A forced deletion ends, and what it abandons is listed on the receipt."""

import dataclasses
import types
import uuid

from kiln.clusters.exceptions import ClusterDriverUnknown, ClusterNotFound
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.engine.conductor import Conductor
from kiln.engine.context import Backends
from kiln.exceptions import ConfigurationError
from tests.unit.engine.site import Plain, Site, group


class Stubborn(Plain):
    """Lets no node be drained."""

    def drain(self, context, cluster, node):
        raise RuntimeError('it has work')


class ForceSite(Site):
    driver = Stubborn()
    latencies = types.MappingProxyType({'build_s': 0.01, 'delete_s': 0.01})

    def conduct(self, **parts):
        """Continue with a conductor that is built from other parts."""
        self.conductor.close()
        self.parts = dataclasses.replace(self.parts, **parts)
        self.conductor = Conductor(self.parts)
        self.addCleanup(self.conductor.close)
        self.conductor.start()

    def delete(self, cluster, **more):
        return self.submit(cluster, OperationKind.DELETE, force=True, **more)

    def receipt(self, cluster):
        with self.assertRaises(ClusterNotFound):
            self.store.clusters.get(cluster.id)
        return self.store.receipts.get(cluster.id)

    def abandoned(self, cluster):
        events = self.store.events.after(cluster_id=cluster.id, kind='abandoned')
        return {event.facts['id'] for event in events}


class Forced(ForceSite):
    def test_pain_4_a_machine_that_cannot_be_deleted_is_abandoned_and_named(self):
        cluster = self.created(group(3))
        one, *others = self.nodes(cluster)
        self.fault(f'delete:conflict:amphora_id={one.compute_id}')
        self.succeeded(self.delete(cluster))
        receipt = self.receipt(cluster)
        self.assertEqual({one.compute_id}, self.machines().keys())
        self.assertEqual(
            [('noop', 'server', one.compute_id)],
            [(left.backend, left.kind, left.id) for left in receipt.abandoned],
        )
        self.assertEqual(
            {node.compute_id for node in others}, {gone.id for gone in receipt.holdings}
        )
        self.assertEqual({one.compute_id}, self.abandoned(cluster))
        self.assertEqual({one.compute_id}, self.store.receipts.abandoned('noop'))
        self.assertEqual(frozenset(), self.store.receipts.known('noop', 'server'))

    def test_pain_5_a_cluster_on_a_lost_backend_can_be_deleted(self):
        cluster = self.created(group(2))
        self.assertEqual({NodeState.READY: 2}, self.states(cluster))
        ids = self.machines().keys()

        def gone(name):
            raise ConfigurationError(f'Cannot open backend {name!r}: it does not exist.')

        self.conduct(backends=Backends(gone, default='noop'))
        self.succeeded(self.delete(cluster))
        self.assertEqual(ids, {left.id for left in self.receipt(cluster).abandoned})

    def test_a_build_of_unknown_outcome_is_abandoned_by_its_key(self):
        self.fault('build:hang')
        cluster, operation = self.create(group(1))
        self.until(lambda: self.states(cluster)[NodeState.BUILDING])
        (node,) = self.nodes(cluster)

        def gone(name):
            raise ConfigurationError(f'Cannot open backend {name!r}: it does not exist.')

        self.conduct(backends=Backends(gone, default='noop'))
        self.store.operations.cancel(operation.id)
        self.conductor.wake()
        self.ended(operation)
        self.succeeded(self.delete(cluster))
        (left,) = self.receipt(cluster).abandoned
        self.assertEqual(('build', f'{node.id}.{node.attempt}'), (left.kind, left.id))

    def test_a_machine_that_is_never_deleted_is_abandoned_at_the_deadline(self):
        cluster = self.created(group(1))
        self.fault('delete:stuck')
        self.succeeded(self.delete(cluster, within_s=1.0))
        self.assertEqual(1, len(self.receipt(cluster).abandoned))

    def test_nothing_is_abandoned_if_all_machines_are_deleted(self):
        cluster = self.created(group(3))
        self.succeeded(self.delete(cluster))
        self.assertEqual(((), {}), (self.receipt(cluster).abandoned, self.machines()))


class Unforced(Site):
    def test_without_force_nothing_is_abandoned(self):
        cluster = self.created(group(1))
        self.fault('delete:conflict')
        ended = self.ended(self.submit(cluster, OperationKind.DELETE, within_s=5.0))
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertEqual('web', self.store.clusters.get(cluster.id).name)


class NoDriver:
    """A site whose cluster driver is missing."""

    def open(self, pin):
        raise ClusterDriverUnknown(f'Cluster driver {pin.name} is not installed.')


class WithoutDriver(ForceSite):
    def test_pain_5_resources_of_another_engine_are_abandoned_by_handle(self):
        cluster = self.created(group(0))
        lease = None
        while lease is None:
            lease = self.store.leases.claim(cluster.id, str(uuid.uuid4()), 5.0)
        with self.store.writing(lease) as batch:
            there = self.store.clusters.get(cluster.id)
            batch.cluster(dataclasses.replace(there, driver_handle='stack-1'))
        self.store.leases.release(lease)
        self.conduct(drivers=NoDriver())
        self.succeeded(self.delete(cluster))
        (left,) = self.receipt(cluster).abandoned
        self.assertEqual(('plain', 'handle', 'stack-1'), (left.backend, left.kind, left.id))
