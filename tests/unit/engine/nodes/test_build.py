"""Builds: the driver is called first, and nothing is sent that nobody wants by then."""

import dataclasses
import threading

from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.spec import MachineSpec
from tests.unit.engine.site import Plain, Site, group


class Refusing(Plain):
    """Says what a machine is given until it is told not to."""

    def __init__(self):
        self.error = None
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def bootstrap(self, context, cluster, node):
        self.entered.set()
        self.gate.wait()
        if self.error is not None:
            raise self.error
        return Bootstrap()


class Builds(Site):
    def setUp(self):
        self.driver = Refusing()
        super().setUp()
        self.addCleanup(self.driver.gate.set)

    def test_a_driver_that_refuses_ends_the_operation_before_a_machine_is_made(self):
        self.driver.error = ClusterDriverError('No such secret.', 'Add it.')
        cluster, operation = self.create(group(3))
        ended = self.ended(operation)
        self.assertEqual(('failed', 'no_bootstrap'), (ended.state.value, ended.cause.code))
        because = ended.cause.because
        self.assertEqual(('No such secret.', 'Add it.'), (because.message, because.hint))
        self.assertEqual({NodeState.PLANNED: 3}, self.states(cluster))
        self.assertEqual({}, self.machines())

    def test_a_request_that_a_backend_never_accepts_ends_the_operation_at_once(self):
        spec = dataclasses.replace(group(3), machine=MachineSpec(image=''))
        cluster, operation = self.create(spec)
        ended = self.ended(operation)
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertIn('its backend refuses the request', ended.cause.message)
        self.assertEqual('invalid_build_request', ended.cause.because.code)
        self.assertEqual({}, self.machines())
        self.succeeded(self.submit(cluster, OperationKind.DELETE))

    def test_an_update_that_a_driver_refuses_is_rolled_back_on_request(self):
        cluster = self.created(group(1))
        self.driver.error = ClusterDriverError('No such secret.')
        # The former state is what the last operation that succeeded led to.
        ended = self.ended(self.change(cluster, group(3), rollback=True))
        self.assertIs(OperationState.ROLLED_BACK, ended.state)
        self.assertEqual({NodeState.READY: 1}, self.states(cluster))
        self.assertEqual(1, self.store.clusters.get(cluster.id).spec.groups[0].shape.count)

    def test_nothing_is_sent_for_an_operation_that_was_cancelled_meanwhile(self):
        self.driver.gate.clear()
        cluster, operation = self.create(group(2))
        self.driver.entered.wait()
        self.store.operations.cancel(operation.id)
        self.conductor.wake()
        self.ended(operation)
        self.driver.gate.set()
        self.succeeded(self.submit(cluster, OperationKind.DELETE))
        self.assertEqual({}, self.machines())
        receipt = self.store.receipts.get(cluster.id)
        self.assertEqual((), receipt.holdings, 'no machine was ever made')
