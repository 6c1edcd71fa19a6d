"""Nodes are rebooted and rebuilt one by one, each once, while the cluster works."""

import collections
import contextlib
import dataclasses
import types

from kiln.cluster_drivers.values import DRAINED, Cap, Drained, Readiness
from kiln.clusters.models import NodeState, OperationKind, OperationState, Step, StepState
from kiln.clusters.spec import Health, MachineSpec, Portion, Strategy
from kiln.compute.facade import Compute
from kiln.compute_drivers.noop.driver import NoopDriver
from kiln.models import Ability
from tests.unit.db.case import take_over
from tests.unit.engine.site import STACK, Plain, Site, group

TWO = Strategy(max_unavailable=Portion(2))


class Watched(Plain):
    """Records the drained nodes, and can report a node as unwell when it comes back."""

    def __init__(self):
        self.drained = []
        self.sick = set()

    def drain(self, context, cluster, node):
        self.drained.append(node.id)
        return DRAINED if self.drained.count(node.id) > 1 else Drained(False, 'it has work')

    def is_ready(self, context, cluster, node):
        if node.id in self.sick:
            return Readiness.failed('its disk is full')
        return super().is_ready(context, cluster, node)


class ResetSite(Site):
    latencies = types.MappingProxyType(
        {'build_s': 0.01, 'delete_s': 0.01, 'reboot_s': 0.03, 'rebuild_s': 0.03}
    )

    def setUp(self):
        self.calls = collections.Counter()
        super().setUp()

    def open_backend(self, name):
        calls = self.calls

        class Counting(NoopDriver):
            def _reboot(self, amphora_id, hard):
                calls['hard' if hard else 'soft', amphora_id] += 1
                super()._reboot(amphora_id, hard)

            def _rebuild(self, amphora_id, image_id):
                calls[image_id, amphora_id] += 1
                super()._rebuild(amphora_id, image_id)

        return Compute(Counting(cloud=self.cloud), settings=STACK)

    @contextlib.contextmanager
    def fewest_ready(self, cluster):
        """Yield a list that gets the number of ready nodes at each time."""
        with self.clock.seen(lambda: self.states(cluster)[NodeState.READY]) as seen:
            yield seen

    def all_once(self, how, cluster):
        return {(how, node.compute_id): 1 for node in self.nodes(cluster)}


class Rolling(ResetSite):
    def setUp(self):
        self.driver = Watched()
        super().setUp()

    def drain_at_once(self):
        self.driver.drain = lambda *_, **__: DRAINED

    def test_001_8_a_cluster_is_rebooted_node_by_node_and_each_one_once(self):
        self.drain_at_once()
        cluster = self.created(group(4))
        before = [(node.id, node.compute_id) for node in self.nodes(cluster)]
        with self.fewest_ready(cluster) as seen:
            self.succeeded(self.submit(cluster, OperationKind.REBOOT))
        self.assertEqual(self.all_once('soft', cluster), self.calls)
        self.assertEqual(3, min(seen), 'one goes though max_unavailable is 0, and no more')
        self.assert_whole(cluster, 4)
        self.assertEqual(before, [(node.id, node.compute_id) for node in self.nodes(cluster)])

    def test_001_8_a_hard_reboot_affects_only_the_named_nodes(self):
        self.drain_at_once()
        cluster = self.created(group(4))
        named = [node.id for node in self.nodes(cluster)[1:3]]
        self.succeeded(self.submit(cluster, OperationKind.REBOOT, hard=True, nodes=named))
        machines = [node.compute_id for node in self.nodes(cluster) if node.id in named]
        self.assertEqual({('hard', one): 1 for one in machines}, self.calls)

    def test_001_8_a_rebuilt_node_keeps_its_id_and_follows_the_spec(self):
        self.drain_at_once()
        cluster = self.created(group(3, strategy=TWO))
        before = {node.id: node for node in self.nodes(cluster)}
        wanted = group(3, strategy=TWO, machine=MachineSpec(image='new'))
        self.succeeded(self.change(cluster, wanted, kind=OperationKind.REBUILD))
        self.assertEqual(self.all_once('new', cluster), self.calls)
        self.assertEqual({'new'}, {one.image_id for one in self.machines().values()})
        self.assert_whole(cluster, 3)
        for node in self.nodes(cluster):
            self.assertEqual(before[node.id].compute_id, node.compute_id)
            self.assertNotEqual(before[node.id].made_with, node.made_with)

    def test_nodes_are_drained_first_unless_they_do_not_work(self):
        self.drain_at_once()
        cluster = self.created(group(2))
        well, sick = self.nodes(cluster)
        self.driver.sick.add(sick.id)
        once = self.submit(cluster, OperationKind.REBOOT, nodes=[sick.id])
        self.assertIs(OperationState.FAILED, self.ended(once).state)
        self.driver.sick.clear()
        del self.driver.drain
        self.succeeded(self.submit(cluster, OperationKind.REBOOT, hard=True))
        self.assertEqual([well.id] * 2, self.driver.drained)
        self.assert_whole(cluster, 2)

    def test_a_node_that_does_not_come_back_stops_it_if_none_can_be_spared(self):
        self.drain_at_once()
        cluster = self.created(group(3))
        first = self.nodes(cluster)[0]
        self.driver.sick.add(first.id)
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT))
        self.assertEqual((OperationState.FAILED, 'not_back'), (ended.state, ended.cause.code))
        self.assertIn(first.name, ended.cause.message)
        self.assertIn('2 others were left alone', ended.cause.message)
        self.assertEqual('its disk is full', ended.cause.because.message)
        self.assertEqual({('soft', first.compute_id): 1}, self.calls)
        self.assertEqual({NodeState.FAILED: 1, NodeState.READY: 2}, self.states(cluster))

    def test_other_nodes_continue_as_long_as_some_can_be_spared(self):
        self.drain_at_once()
        cluster = self.created(group(4, strategy=TWO))
        sick = self.nodes(cluster)[0]
        self.driver.sick.add(sick.id)
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT))
        self.assertIs(OperationState.FAILED, ended.state)
        self.assertNotIn('left alone', ended.cause.message)
        self.assertEqual(self.all_once('soft', cluster), self.calls)

    def test_a_machine_that_is_gone_fails_the_reboot_and_is_named(self):
        cluster = self.created(group(2))
        lost = self.nodes(cluster)[0]
        self.cloud.vanish(lost.compute_id)
        self.drain_at_once()
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT, nodes=[lost.id]))
        self.assertIn(lost.name, ended.cause.message)
        self.assertEqual('instance_not_found', ended.cause.because.code)

    def test_a_reboot_without_a_response_is_repeated(self):
        self.drain_at_once()
        cluster = self.created(group(2))
        self.fault('reboot:lose_answer:times=1')
        self.succeeded(self.submit(cluster, OperationKind.REBOOT))
        self.assert_whole(cluster, 2)

    def test_a_node_that_never_comes_back_is_given_up_after_a_timeout(self):
        health = Health(startup_timeout_s=0.3)
        self.drain_at_once()
        cluster = self.created(group(1, health=health))
        self.driver.is_ready = lambda *_, **__: Readiness.not_yet('its agent is silent')
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT))
        self.assertEqual('startup_timeout', ended.cause.because.code)
        self.assertEqual('its agent is silent', ended.cause.because.because.message)

    def test_a_machine_that_hangs_in_its_reboot_is_given_up_after_a_timeout(self):
        self.drain_at_once()
        cluster = self.created(group(1, health=Health(startup_timeout_s=0.3)))
        self.fault('reboot:refuse')
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT))
        self.assertEqual('startup_timeout', ended.cause.because.code)
        steps = self.store.journal.of(ended.id)
        self.assertEqual([StepState.FAILED], [step.state for step in steps])

    def test_an_unknown_node_is_refused_before_anything_is_done(self):
        cluster = self.created(group(2))
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT, nodes=['nobody']))
        self.assertEqual('cluster_not_found', ended.cause.code)
        self.assertEqual({}, self.calls)

    def test_nodes_of_a_cancelled_reboot_are_brought_back_by_the_next_operation(self):
        cluster = self.created(group(2))
        self.driver.drain = lambda *_, **__: Drained(False, 'it has work')
        operation = self.submit(cluster, OperationKind.REBOOT)
        self.until(lambda: self.states(cluster)[NodeState.RESETTING] == 1)
        self.store.operations.cancel(operation.id)
        self.assertIs(OperationState.CANCELLED, self.ended(operation).state)
        self.succeeded(self.submit(cluster, OperationKind.REPLACE))
        self.assert_whole(cluster, 2)
        self.assertEqual({}, self.calls)


class Resumed(ResetSite):
    """A new owner of a reboot reads in the journal which nodes are done."""

    def left_at(self, state, step=None):
        """Return a cluster of two nodes with an interrupted reboot, and the operation."""
        cluster = self.created(group(2))
        self.conductor.close()
        operation = self.operation(cluster.id, OperationKind.REBOOT)
        self.store.operations.submit(operation)
        node = dataclasses.replace(self.nodes(cluster)[0], state=state, since=self.clock.time())
        lease = take_over(self.store, cluster.id, 'somebody', 0.01)
        with self.store.writing(lease) as batch:
            batch.operation(dataclasses.replace(operation, state=OperationState.RUNNING))
            batch.node(node)
            if step:
                batch.step(
                    Step(
                        id=f'{operation.id}.{node.id}.1.reboot', operation_id=operation.id,
                        cluster_id=cluster.id, kind='reboot', state=step, node_id=node.id,
                    )
                )  # fmt: skip
        self.clock.sleep(0.02)
        self.take_over()
        self.succeeded(operation)
        self.assert_whole(cluster, 2)
        return [self.calls['soft', one.compute_id] for one in self.nodes(cluster)]

    def test_a_reboot_that_might_have_been_sent_is_sent_again(self):
        self.assertEqual([1, 1], self.left_at(NodeState.RESETTING, StepState.INTENT))

    def test_a_node_that_was_only_drained_is_rebooted(self):
        self.assertEqual([1, 1], self.left_at(NodeState.RESETTING))

    def test_a_node_that_is_done_is_not_rebooted_again(self):
        self.assertEqual([0, 1], self.left_at(NodeState.READY, StepState.DONE))

    def test_a_node_on_its_way_back_is_not_rebooted_again(self):
        self.assertEqual([0, 1], self.left_at(NodeState.JOINING, StepState.DONE))


class Unable(ResetSite):
    def open_backend(self, name):
        class Limited(NoopDriver):
            @property
            def abilities(self):
                return super().abilities - {Ability.REBUILD}

        return Compute(Limited(cloud=self.cloud), settings=STACK)

    def test_a_backend_without_the_ability_is_reported_and_nothing_is_done(self):
        cluster = self.created(group(2))
        before = self.nodes(cluster)
        ended = self.ended(self.submit(cluster, OperationKind.REBUILD))
        self.assertEqual('unsupported_operation', ended.cause.code)
        self.assertIn('rebuild', ended.cause.message)
        self.assertEqual(before, self.nodes(cluster))


class Unwilling(Plain):
    missing_capabilities = frozenset({Cap.REBOOT})


class UnableDriver(ResetSite):
    driver = Unwilling()

    def test_a_driver_without_the_capability_is_reported_and_nothing_is_done(self):
        cluster = self.created(group(2))
        ended = self.ended(self.submit(cluster, OperationKind.REBOOT))
        self.assertEqual('missing_capability', ended.cause.code)
        self.assertEqual({}, self.calls)
