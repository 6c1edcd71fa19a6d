"""Take-over: machines of nobody become the nodes of a new cluster."""

import dataclasses
import uuid

from kiln.clusters.models import Cluster, NodeState, OperationKind, OperationState
from kiln.clusters.spec import ClusterSpec
from kiln.engine.plan.taken import Taken, taken_args
from tests.unit.engine.site import PIN, Site, group


class TakingOver(Site):
    def machine(self, name='stray'):
        """Return the id of a machine that belongs to nobody."""
        return self.cloud.make_unowned(name)

    def take(self, *machines, name='web', groups=None):
        """Request a cluster of machines that exist; return it and the operation."""
        groups = groups or (group(len(machines)),)
        cluster = Cluster(
            id=str(uuid.uuid4()), name=name, spec=ClusterSpec(name=name, groups=groups),
            generation=1, pin=PIN,
        )  # fmt: skip
        taken = [Taken('work', one, str(uuid.uuid4())) for one in machines]
        operation = self.operation(cluster.id, OperationKind.CREATE)
        operation = dataclasses.replace(operation, args=taken_args(taken))
        self.store.clusters.create(cluster, operation)
        self.conductor.wake()
        return cluster, operation

    def facts(self, *machines):
        """Return what must not change of machines."""
        found = [self.backend().get_amphora(amphora_id=one).result(30) for one in machines]
        return [(one.id, one.name, one.state, one.created_at, one.addresses) for one in found]

    def backend(self):
        return self.parts.backends.get(None)

    def test_machines_of_nobody_become_the_nodes_and_are_not_touched(self):
        machines = [self.machine(f'node-{n}') for n in range(3)]
        before = self.facts(*machines)
        cluster, operation = self.take(*machines)
        self.succeeded(operation)
        self.assert_whole(cluster, 3)
        self.assertEqual(before, self.facts(*machines))
        self.assertEqual(
            {'node-0', 'node-1', 'node-2'}, {node.name for node in self.nodes(cluster)}
        )
        self.assertEqual([''] * 3, [node.made_with for node in self.nodes(cluster)])

    def test_each_is_found_by_the_build_key_of_its_node(self):
        machine = self.machine()
        cluster, operation = self.take(machine)
        self.succeeded(operation)
        (node,) = self.nodes(cluster)
        found = self.backend().find_build(f'{node.id}.1').result(30)
        self.assertEqual(machine, found.id)

    def test_what_the_group_lacks_is_built(self):
        machine = self.machine()
        cluster, operation = self.take(machine, groups=(group(2),))
        self.succeeded(operation)
        self.assert_whole(cluster, 2)
        self.assertIn(machine, self.machines())

    def test_two_machines_of_one_name_are_two_nodes(self):
        cluster, operation = self.take(self.machine(), self.machine())
        self.succeeded(operation)
        self.assert_whole(cluster, 2)
        self.assertEqual(2, len({node.name for node in self.nodes(cluster)}))

    def test_a_machine_of_this_site_keeps_its_build_key(self):
        machine = self.backend().build(name='ours', build_key='mine').result(30)
        cluster, operation = self.take(machine)
        self.succeeded(operation)
        self.assert_whole(cluster, 1)
        self.assertEqual('mine', self.machines()[machine].build_key)

    def test_a_new_owner_goes_on_and_nothing_is_built(self):
        machines = [self.machine(f'node-{n}') for n in range(3)]
        self.fault('claim:hang:seconds=0.3')
        cluster, operation = self.take(*machines)
        self.until(lambda: self.store.operations.get(operation.id).started_at)
        self.take_over()
        self.succeeded(operation)
        self.assert_whole(cluster, 3)
        self.assertEqual(set(machines), set(self.machines()))

    def test_a_backend_that_is_away_is_waited_for_and_nothing_is_built(self):
        machines = [self.machine(f'node-{n}') for n in range(2)]
        self.fault('claim:refuse:times=1')
        cluster, operation = self.take(*machines)
        self.succeeded(operation)
        self.assert_whole(cluster, 2)
        self.assertEqual(set(machines), set(self.machines()))

    def test_a_take_over_that_failed_keeps_what_it_took_and_builds_nothing(self):
        machine = self.machine()
        cluster, operation = self.take(machine, 'nobody')
        self.assertIs(OperationState.FAILED, self.ended(operation).state)
        self.assertLessEqual({node.compute_id for node in self.nodes(cluster)}, {machine})
        self.assertLessEqual(set(self.machines()), {machine})

    def test_a_machine_of_another_cluster_is_refused(self):
        other, operation = self.take(self.machine(), name='other')
        self.succeeded(operation)
        taken = self.nodes(other)[0].compute_id
        cluster, operation = self.take(taken)
        ended = self.ended(operation)
        self.assertEqual('not_adopted', ended.cause.code)
        self.assertIn('already a node of a cluster', ended.cause.message)
        self.assertEqual({}, self.states(cluster))
        self.assertEqual({NodeState.READY: 1}, self.states(other))

    def test_a_machine_that_is_gone_is_named(self):
        _, operation = self.take('nobody')
        self.assertEqual('instance_not_found', self.ended(operation).cause.code)
