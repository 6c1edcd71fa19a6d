"""The conditions of a cluster follow from its operation, nodes and lease."""

import dataclasses
import unittest

from kiln.clusters.models import (
    Cause,
    Cluster,
    ConditionKind,
    Lease,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
)
from kiln.clusters.spec import ClusterSpec
from kiln.engine.plan.conditions import conditions
from kiln.engine.plan.diff import outdated
from tests.unit.engine.groups import node, wanted
from tests.unit.engine.site import PIN

NOW = 1000.0
HELD = Lease(scope='c', owner='somebody', epoch=1, expires_at=NOW + 5)
WAITS = Cause(code='quota_exceeded', message='No quota.')
READY, PROGRESSING, BLOCKED, DEGRADED, DRIFTED, PAUSED = ConditionKind


class Conditions(unittest.TestCase):
    def found(
        self, *states, count=3, state=OperationState.SUCCEEDED, lease=HELD, cause=None,
        made_with=None, paused=False, handle=None, trouble=None, **more
    ):  # fmt: skip
        """Return the conditions of a cluster by kind, with their causes."""
        spec = ClusterSpec(name='web', groups=(wanted(count).group,))
        cluster = Cluster(
            id='c', name='web', spec=spec, generation=1, pin=PIN, paused=paused,
            driver_handle=handle, trouble=trouble,
        )  # fmt: skip
        operation = Operation(
            id='o', cluster_id='c', kind=OperationKind.UPDATE, state=state, cause=cause
        )
        nodes = [node(state=one, since=NOW - 400, **more) for one in states]
        found = conditions(cluster, nodes, operation, NOW, lease=lease, made_with=made_with or {})
        self.assertEqual(len(found), len({one.kind for one in found}), 'each is said once')
        return {one.kind: one.cause for one in found}

    def test_a_whole_cluster_is_ready_and_nothing_else(self):
        self.assertEqual({READY: None}, self.found(*[NodeState.READY] * 3))
        self.assertEqual({READY: None}, self.found(NodeState.GONE, count=0))

    def test_a_cluster_with_a_worker_is_in_progress(self):
        for state in (OperationState.QUEUED, OperationState.RUNNING):
            found = self.found(NodeState.READY, NodeState.BUILDING, state=state)
            self.assertEqual({PROGRESSING: None}, found)

    def test_a_cluster_without_a_worker_is_never_in_progress(self):
        for lease in (None, dataclasses.replace(HELD, owner='')):
            with self.subTest(lease=lease):
                found = self.found(NodeState.READY, state=OperationState.RUNNING, lease=lease)
                self.assertEqual([BLOCKED], list(found))
                self.assertEqual('nobody_works', found[BLOCKED].code)

    def test_a_waiting_operation_is_blocked_with_its_cause(self):
        found = self.found(NodeState.PLANNED, state=OperationState.WAITING, cause=WAITS)
        self.assertEqual({BLOCKED: WAITS}, found)

    def test_dead_nodes_held_by_the_brake_are_blocked_and_degraded(self):
        found = self.found(NodeState.READY, NodeState.UNHEALTHY, NodeState.UNHEALTHY)
        self.assertEqual({BLOCKED, DEGRADED}, set(found))
        self.assertIn('work: the brake holds', found[BLOCKED].message)
        self.assertIn('is unhealthy', found[DEGRADED].message)

    def test_a_dead_node_that_will_be_replaced_is_not_blocked(self):
        found = self.found(*[NodeState.READY] * 2, NodeState.FAILED, cause=WAITS)
        self.assertEqual([DEGRADED], list(found))

    def test_sick_nodes_are_named_with_one_cause_and_the_rest_counted(self):
        found = self.found(*[NodeState.UNKNOWN] * 5, count=5, cause=WAITS)
        self.assertIn('and 2 more are unhealthy', found[DEGRADED].message)
        why = Cause(code='machine_error', message='Its host died.')
        nodes = [node(), node(state=NodeState.UNHEALTHY)]
        nodes[1] = dataclasses.replace(nodes[1], cause=why)
        cluster = Cluster(id='c', name='web', spec=ClusterSpec(name='web'), generation=1, pin=PIN)
        found = {one.kind: one.cause for one in conditions(cluster, nodes, None, NOW)}
        self.assertEqual(why, found[DEGRADED].because)

    def test_too_few_nodes_are_degraded_without_an_operation(self):
        found = self.found(NodeState.READY, state=OperationState.FAILED)
        self.assertIn('1 of 3 in work', found[DEGRADED].message)
        self.assertNotIn(DEGRADED, self.found(NodeState.READY, state=OperationState.RUNNING))

    def test_nodes_of_an_older_spec_have_drifted(self):
        found = self.found(*[NodeState.READY] * 3, made_with={'work': 'new'})
        self.assertEqual({READY: None}, found, 'the spec of an adopted node is unknown')
        nodes = [node(made_with='old'), node(made_with='new'), node(made_with='')]
        self.assertEqual(nodes[:1], [one for one in nodes if outdated(one, 'new')])
        drifted = conditions(
            Cluster(id='c', name='web', spec=ClusterSpec(name='web'), generation=1, pin=PIN),
            nodes, None, NOW, made_with={'work': 'new'},
        )  # fmt: skip
        self.assertEqual([READY, DRIFTED], [one.kind for one in drifted])
        self.assertIn('1 of 3 nodes', drifted[1].cause.message)

    def test_a_cluster_of_its_drivers_own_engine_is_as_its_last_operation_ended(self):
        self.assertEqual({READY: None}, self.found(handle='stack 1'))
        failed = self.found(handle='stack 1', state=OperationState.FAILED, cause=WAITS)
        self.assertEqual({DEGRADED: WAITS}, failed)
        self.assertEqual({DEGRADED: WAITS}, self.found(handle='stack 1', trouble=WAITS))
        running = self.found(handle='stack 1', state=OperationState.RUNNING)
        self.assertEqual({PROGRESSING: None}, running)

    def test_a_paused_cluster_is_not_in_progress(self):
        found = self.found(NodeState.READY, state=OperationState.RUNNING, paused=True, lease=None)
        self.assertEqual({PAUSED: None}, found)
