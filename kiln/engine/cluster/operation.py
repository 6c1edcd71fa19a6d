"""One operation on a cluster whose nodes kiln builds; each kind has a module of its own."""

from __future__ import annotations

import abc

from kiln.clusters.models import Cause, NodeState, OperationState
from kiln.engine.cluster.outputs import OutputRequest
from kiln.engine.cluster.reasons import why_late, why_waiting
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan import lifecycle
from kiln.engine.plan.lifecycle import ActionKind


class NodeOperation(abc.ABC):
    """What one kind of operation does in each round, from beginning to end.

    A round calls ``step``, begins the ``next_action`` of each node that is due, and calls
    ``finish``. After a crash the next worker makes the same operation from the store.
    """

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        self._state = state
        self._tx, self._nodes = state.tx, state.nodes
        self._machines = machines
        self._forced = state.tx.under_way.forced
        self._outputs = OutputRequest(state)
        #: Why nodes wait, for people.
        self._holds: tuple[str, ...] = ()

    @property
    def busy(self) -> bool:
        """True if something was started, not for a single node, that will report a result."""
        return self._outputs.busy

    def refusal(self) -> Cause | None:
        """Return why the operation cannot begin; None if it can."""
        return None

    @abc.abstractmethod
    def step(self) -> bool:
        """Decide what is next for the cluster; return whether actions of nodes can begin."""

    def next_action(self, member: Member) -> ActionKind:
        """Return the next action of a node that is due."""
        node = member.node
        return lifecycle.next_action(
            node,
            sought=member.sought,
            elsewhere=node.state is NodeState.FAILED and self._state.desired.moves_elsewhere(node),
            reset=self._reset_action(member),
            forced=self._forced,
        )

    @abc.abstractmethod
    def finish(self) -> None:
        """End the operation if its work is done; else record why it waits."""

    def miss(self) -> None:
        """End the operation, which is not done by its deadline."""
        self.fail(self._late())

    def fail(self, cause: Cause) -> None:
        """End the operation, which cannot be completed."""
        self._tx.end(OperationState.FAILED, cause)

    # ---- for all kinds ---------------------------------------------------------------

    def _reset_action(self, member: Member) -> ActionKind | None:
        """Return the next action of a node that the operation resets."""
        return None

    def _wait(self) -> None:
        """Record why nothing is under way."""
        self._tx.wait_for(None if self._nodes.busy else why_waiting(self._nodes, self._holds))

    def _left(self, late: int) -> str:
        """Return what is still to be done."""
        if late:
            return f'{late} of {len(self._nodes)} nodes are not in their desired state'
        if self._outputs.busy:
            return 'its driver has not reported the outputs'
        return 'its hooks are not done' if self._state.hooks.holding else 'it has not begun'

    def _late(self, undone: Cause | None = None) -> Cause:
        late = len(list(self._nodes.restless()))
        return why_late(
            self._tx.under_way, self._tx.cluster.name, self._left(late),
            because=why_waiting(self._nodes, self._holds), undone=undone,
        )  # fmt: skip
