"""The check operation: polls all machines of a cluster, and reports what has drifted."""

from __future__ import annotations

from kiln.clusters.models import OperationState
from kiln.engine.cluster.operation import NodeOperation
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.diff import outdated
from kiln.engine.plan.lifecycle import ActionKind


class Check(NodeOperation):
    """Waits for one poll, whose result is written like that of any poll."""

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        self._polls = machines.polls

    def step(self) -> bool:
        done = self._machines.polls > self._polls
        if not done and not self._machines.busy:
            self._machines.poll()
        if not done:
            self._tx.wait_for(self._machines.cause)
        return done

    def next_action(self, member: Member) -> ActionKind:
        return ActionKind.REST

    def finish(self) -> None:
        if not self._outputs.current():
            return
        nodes, made_with = self._nodes.nodes(), self._state.desired.made_with
        old = [node for node in nodes if outdated(node, made_with(node.group))]
        self._tx.event(
            'drift',
            f'{len(old)} of {len(nodes)} nodes are made with an older spec',
            facts={'nodes': [node.id for node in old], 'of': len(nodes)},
        )
        cause = self._machines.cause
        self._tx.end(OperationState.FAILED if cause else OperationState.SUCCEEDED, cause)
