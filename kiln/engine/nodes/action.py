"""A node action: how it is begun in a backend, and what its result makes of the node."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cause, Cluster, Node
from kiln.clusters.spec import MachineSpec, Place
from kiln.compute.facade import Compute
from kiln.engine.context import Backends
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan import lifecycle
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.results import ActionResult
from kiln.exceptions import InsufficientCapacity

Tell = Callable[[ActionResult], None]
Run = Callable[[Callable[[], None]], Any]


class Due(NamedTuple):
    """A node that an action is due for, and all that the action needs."""

    context: Context
    cluster: Cluster
    node: Node
    machine: MachineSpec
    place: Place
    #: A reboot is one by the power switch.
    hard: bool = False
    #: Seconds that a machine can take to come back.
    patience_s: float | None = None

    @property
    def compute_id(self) -> str:
        """The id of the machine; actions that need one are due only where it is known."""
        assert self.node.compute_id is not None
        return self.node.compute_id


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tools:
    """What all actions for the nodes of one cluster share."""

    backends: Backends
    driver: NodeClusterDriver
    table: NodeTable
    run: Run
    tell: Tell
    #: Seconds until a request that was sent is surely carried out.
    settle_s: float


class NodeAction(abc.ABC):
    """One kind of action. ``begin`` returns at once; ``result`` runs in a later round."""

    act: ClassVar[ActionKind]

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._nodes = tools.table

    @abc.abstractmethod
    def begin(self, due: Due) -> None:
        """Begin the action. Its result is reported later; an exception is its failure."""

    @abc.abstractmethod
    def result(self, value: Any, tx: Transaction, member: Member, desired: Desired) -> bool:
        """Apply the result; return True if the cluster is to be planned again."""

    # ---- for begin ---------------------------------------------------------------

    def _compute(self, node: Node) -> Compute:
        return self._tools.backends.get(node.backend)

    def _report_when_done(self, node: Node, operation: Any) -> None:
        def report(operation: Any) -> None:
            error = operation.exception()
            value = None if error is not None else operation.result()
            self._report(node, value, error)

        operation.add_done_callback(report)

    def _report_call(self, node: Node, call: Callable[[], object]) -> None:
        """Report what a call to the cluster driver returns; made on another thread."""

        def report() -> None:
            try:
                value = call()
            # The author of a driver can let through anything; it concerns this node alone.
            except Exception as exc:
                self._report(node, None, exc)
            else:
                self._report(node, value)

        self._tools.run(report)

    def _report(self, node: Node, value: object, error: BaseException | None = None) -> None:
        self._tools.tell(ActionResult(node.cluster_id, node.id, self.act, value, error))

    # ---- for result --------------------------------------------------------------

    def _repeat(self, tx: Transaction, member: Member, cause: Cause | None) -> bool:
        """Ask again after a pause."""
        # It is asked again and again; only what is new is written.
        if member.node.cause != cause:
            self._nodes.change(tx, member, cause=cause)
        waited_s = tx.now - member.node.since
        member.not_before = tx.moment + lifecycle.look_pause_s(waited_s, len(self._nodes))
        return False


def forget(table: NodeTable, tx: Transaction, member: Member) -> bool:
    """Remove a node that no backend has."""
    node = member.node
    tx.confirm_gone(node)
    tx.settle(ActionKind.DELETE, node)
    tx.tell('node-gone', f'{node.name} is gone', node)
    table.drop(tx, member)
    return True


def has_other_place(member: Member, desired: Desired) -> bool:
    """Return True if a node that found no room is to be tried at another place."""
    node = member.node
    full = node.cause is not None and node.cause.code == InsufficientCapacity.code
    return full and not node.doomed and desired.has_other_places(node)
