"""A site for tests: a store, a simulated cloud, a conductor, and user requests."""

import collections
import dataclasses
import pathlib
import tempfile
import types
import unittest
import uuid

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.templates.definition import TemplateDefinition
from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.models import (
    Cluster,
    DriverPin,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
)
from kiln.clusters.spec import ClusterSpec, NodeGroupSpec, Shape
from kiln.compute.facade import Compute
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.noop.cloud import NoopCloud
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.compute_drivers.noop.faults import Fault
from kiln.engine.conductor import Conductor
from kiln.engine.context import Backends, EngineSettings, Parts
from kiln.fairness.threads import FairThreads
from kiln.hooks.registry import Hooks
from kiln.wrappers.executor.settings import ExecutorSettings
from kiln.wrappers.watcher.interval import WatcherSettings
from tests.self_moving_clock import MovingTime
from tests.unit.db.case import open_new_store

PIN = DriverPin(name='plain', version='1.0.0', origin='the tests', digest='d')
WAIT_S = 30.0
SETTINGS = EngineSettings(settle_s=0.05, quiesce_s=0.1, poll_s=0.2, lease_s=5.0)
STACK = StackSettings(
    executor=ExecutorSettings(first_delay_s=0.02, max_delay_s=0.1, cleanup_grace_s=0.1),
    watcher=WatcherSettings(interval_s=0.1, max_interval_s=0.5),
)


class Plain(NodeClusterDriver):
    """Machines without any software."""

    name = 'plain'
    version = '1.0.0'
    provides = (('vm', '*', 'nodes'),)

    def get_template_definition(self):
        return TemplateDefinition(directory=None)

    def bootstrap(self, context, cluster, node):
        return Bootstrap()


class OneDriver:
    """A site that has one cluster driver."""

    def __init__(self, driver):
        self._driver = driver

    def open(self, pin):
        return self._driver


def group(count, name='work', **more):
    return NodeGroupSpec(name=name, shape=Shape(count=count), **more)


class Site(MovingTime, unittest.TestCase):
    driver = Plain()
    settings = SETTINGS
    latencies = types.MappingProxyType({'build_s': 0.02, 'delete_s': 0.01})

    def setUp(self):
        self.clock = self.open_clock()
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = self.open_site_store(f'sqlite:///{folder}/kiln.db')
        self.addCleanup(self.store.close)
        self.cloud = NoopCloud(clock=self.clock, **self.latencies)
        threads = FairThreads(4, each=4, name='kiln-cluster-driver')
        self.addCleanup(threads.close)
        backends = Backends(self.open_backend, default='noop', clock=self.clock)
        self.addCleanup(backends.close)
        self.parts = Parts(
            store=self.store, backends=backends, drivers=OneDriver(self.driver),
            clock=self.clock, run=threads.run, settings=self.settings,
            hooks=Hooks(clock=self.clock),
        )  # fmt: skip
        self.conductor = Conductor(self.parts)
        self.addCleanup(self.conductor.close)
        self.conductor.start()

    def take_over(self):
        """Let another conductor continue from the store."""
        self.conductor.close()
        self.conductor = Conductor(self.parts)
        self.addCleanup(self.conductor.close)
        self.conductor.start()

    def open_site_store(self, url):
        return open_new_store(url, clock=self.clock)

    def open_backend(self, name):
        return Compute(NoopDriver(cloud=self.cloud), settings=STACK)

    def fault(self, text):
        self.cloud.faults.add(Fault.parse(text))

    # ---- user requests ----------------------------------------------------------

    def operation(self, cluster_id, kind, *, within_s=WAIT_S, **args):
        now = self.clock.time()
        return Operation(
            id=str(uuid.uuid4()), cluster_id=cluster_id, kind=kind, args=args, created_at=now,
            deadline_at=now + within_s,
        )  # fmt: skip

    def create(self, *groups, name='web', within_s=WAIT_S, pin=PIN):
        """Request a cluster; return it and the operation."""
        cluster = Cluster(
            id=str(uuid.uuid4()), name=name, spec=ClusterSpec(name=name, groups=groups),
            generation=1, pin=pin,
        )  # fmt: skip
        operation = self.operation(cluster.id, OperationKind.CREATE, within_s=within_s)
        self.store.clusters.create(cluster, operation)
        self.conductor.wake()
        return cluster, operation

    def created(self, *groups, **more):
        cluster, operation = self.create(*groups, **more)
        self.succeeded(operation)
        return cluster

    def change(self, cluster, *groups, kind=OperationKind.UPDATE, doomed=(), **more):
        """Request other groups; return the operation."""
        there = self.store.clusters.get(cluster.id)
        operation = self.operation(cluster.id, kind, **more)
        self.store.clusters.change(
            cluster.id, dataclasses.replace(there.spec, groups=groups),
            generation=there.generation, operation=operation,
            doomed=dict.fromkeys(doomed, 'asked for'),
        )  # fmt: skip
        self.conductor.wake()
        return operation

    def submit(self, cluster, kind, **more):
        """Request an operation that keeps the desired state; return the operation."""
        operation = self.operation(cluster.id, kind, **more)
        self.store.operations.submit(operation)
        self.conductor.wake()
        return operation

    # ---- results ------------------------------------------------------------------

    def ended(self, operation):
        """Wait for the end of an operation, and return it."""
        self.until(lambda: self.store.operations.get(operation.id).state.ended)
        return self.store.operations.get(operation.id)

    def succeeded(self, operation):
        ended = self.ended(operation)
        self.assertEqual((OperationState.SUCCEEDED, None), (ended.state, ended.cause))

    def nodes(self, cluster, *, gone=False):
        found = self.store.nodes.of(cluster.id)
        return [node for node in found if gone or node.state is not NodeState.GONE]

    def states(self, cluster):
        return collections.Counter(node.state for node in self.nodes(cluster))

    def machines(self):
        """Return the machines in the cloud, by id."""
        return {one.id: one for one in NoopDriver(cloud=self.cloud).list_amphorae()}

    def assert_whole(self, cluster, count):
        """Check that the nodes are ready, each is one machine, and no other exists."""
        nodes = self.nodes(cluster)
        self.assertEqual({NodeState.READY: count} if count else {}, self.states(cluster))
        self.assertEqual(sorted(self.machines()), sorted(node.compute_id for node in nodes))
