"""The work on one cluster whose nodes kiln builds: what is next for each of them."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.clusters.models import Cause, Operation, OperationKind
from kiln.engine.cluster.adopt import Adopt
from kiln.engine.cluster.check import Check
from kiln.engine.cluster.converge import Converge
from kiln.engine.cluster.delete import Delete
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.operation import NodeOperation
from kiln.engine.cluster.reset import Reset
from kiln.engine.cluster.rotate import Rotate
from kiln.engine.cluster.take_over import TakeOver
from kiln.engine.cluster.worker import Worker
from kiln.engine.context import Parts
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.build import Build, Find
from kiln.engine.nodes.cluster_state import CallSoon
from kiln.engine.nodes.delete import DeleteMachine
from kiln.engine.nodes.drain import Drain, Relieve
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.read_state import ReadState
from kiln.engine.nodes.ready import AskReady
from kiln.engine.nodes.reset import Reboot, Rebuild
from kiln.engine.nodes.watch import Watch
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.taken import taken_in

#: All other kinds lead to the desired state.
_OPERATIONS: dict[OperationKind, type[NodeOperation]] = {
    OperationKind.ADOPT: Adopt,
    OperationKind.CHECK: Check,
    OperationKind.DELETE: Delete,
    OperationKind.REBOOT: Reset,
    OperationKind.REBUILD: Reset,
    OperationKind.ROTATE: Rotate,
}
_ACTIONS: tuple[type[NodeAction], ...] = (
    Build, Find, Watch, AskReady, ReadState,
    Drain, Relieve, Reboot, Rebuild, DeleteMachine,
)  # fmt: skip


class NodeWorker(Worker):
    """Brings one cluster to its desired state."""

    def __init__(
        self, parts: Parts, held: HeldLease, driver: NodeClusterDriver, call_soon: CallSoon
    ) -> None:
        self._state = state = NodeClusterState(parts, held.lease, driver, call_soon)
        self._actions = {action.kind: action(state) for action in _ACTIONS}
        self._machines = MachineCheck(state)
        #: The operation under way.
        self._work: NodeOperation | None = None
        super().__init__(state, held, state.hooks)

    @property
    def _busy(self) -> bool:
        work_busy = self._work is not None and self._work.busy
        return self._nodes.busy or self._machines.busy or work_busy

    def reload(self) -> None:
        store, tx, nodes, scope = self._parts.store, self._tx, self._nodes, self._tx.cluster.id
        found = store.operations.open(scope)
        cluster = store.clusters.get(scope)
        resumed = tx.cluster.paused and not cluster.paused
        if resumed:
            # Its deadline was put off when it was resumed, possibly just now.
            found = store.operations.open(scope)
        operation = found[0] if found else None
        another = _id(operation) != _id(tx.operation)
        if resumed or another or cluster.generation != tx.cluster.generation:
            for node in store.nodes.of(scope):
                member = nodes.get(node.id)
                if member is not None and member.node.doomed != node.doomed:
                    nodes.correct(member, doomed=node.doomed)
            nodes.touch_all()
            nodes.replan = True
        # Time alone makes nodes too late, and sick ones to be given up.
        nodes.replan |= not nodes.at_rest
        tx.load(cluster, operation)
        self._state.refresh_desired()
        if another:
            self._state.refusal = None
        if operation is None:
            self._work = None
        elif another:
            kind = _OPERATIONS.get(operation.kind, Converge)
            takes = operation.kind is OperationKind.CREATE and taken_in(operation.args)
            self._work = (TakeOver if takes else kind)(self._state, self._machines)
        self._hooks.reload()

    def _refusal(self) -> Cause | None:
        assert self._work is not None
        return self._work.refusal()

    def _miss(self) -> None:
        assert self._work is not None
        self._work.miss()

    def _go_on(self) -> None:
        work = self._work
        assert work is not None
        refusal, self._state.refusal = self._state.refusal, None
        if refusal is not None:
            work.fail(refusal)
            return
        if not work.step():
            return
        for member in self._nodes.take_due():
            self._begin(work, member)
        work.finish()

    def _begin(self, work: NodeOperation, member: Member) -> None:
        """Begin the next action of a node."""
        kind = ActionKind.REST if member.busy else work.next_action(member)
        if kind is ActionKind.REST:
            return
        if member.not_before > self._tx.monotonic:
            self._nodes.wait(member)
        elif kind is ActionKind.FORGET:
            self._nodes.forget(member)
        elif self._hooks.may_act(member, kind):
            self._actions[kind].begin(member)


def _id(operation: Operation | None) -> str | None:
    return operation.id if operation else None
