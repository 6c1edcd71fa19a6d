"""A node action: how it is started in a backend, and what its result makes of the node."""

from __future__ import annotations

import abc
import collections
import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kiln.cluster_drivers.calls import call_driver
from kiln.clusters.models import Cause, Node, NodeState
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan import lifecycle
from kiln.engine.plan.lifecycle import ActionKind
from kiln.exceptions import InstanceNotFoundError

if TYPE_CHECKING:
    from kiln.compute.facade import Compute

LOG = logging.getLogger(__name__)

#: The number of causes that are remembered, so that each is logged once.
_LOGGED = 8

_Answer = TypeVar('_Answer')


class NodeAction(abc.ABC):
    """One kind of action. ``start`` returns at once; ``result`` runs in a later round."""

    kind: ClassVar[ActionKind]

    def __init__(self, state: NodeClusterState) -> None:
        self._state = state
        self._tx, self._nodes = state.tx, state.nodes
        #: Causes of delays that were logged last.
        self._logged: collections.deque[Cause] = collections.deque(maxlen=_LOGGED)

    def begin(self, member: Member) -> None:
        """Write the intent, and start the action after the commit."""
        if (during := lifecycle.DURING.get(self.kind)) is not None:
            self._nodes.change(member, state=during)
        if self.kind in lifecycle.CHANGING:
            self._tx.intend(self.kind, member.node)
        self._nodes.began(member)
        self._tx.launches.append(functools.partial(self._launch, member.node))

    @abc.abstractmethod
    def start(self, node: Node) -> Any:
        """Start the action; return the operation of the backend that has its result.

        Without an operation the action itself reports its result. An exception is its
        failure.
        """

    @abc.abstractmethod
    def result(self, member: Member, value: Any) -> None:
        """Apply the result."""

    def take(self, node_id: str, value: Any, error: BaseException | None) -> None:
        """Apply the result or the error, unless the node is gone."""
        member = self._nodes.get(node_id)
        if member is None:
            return
        self._nodes.ended(member)
        self._unhinder(member)
        if error is None:
            member.tries, member.not_before = 0, 0.0
            self.result(member, value)
        elif isinstance(error, InstanceNotFoundError) and self.kind not in lifecycle.EXPECTING:
            self._nodes.forget(member)
        else:
            self.failed(member, error)

    def failed(self, member: Member, error: BaseException) -> None:
        """Apply an error: repeat the action after a pause, or give the node up."""
        member.tries += 1
        node = member.node
        verdict = lifecycle.after_failure(self.kind, node, error, member.tries)
        given_up = verdict.again_s is None
        if given_up and self.kind in lifecycle.CHANGING:
            self._tx.settle(self.kind, node, verdict.cause)
        if member.tries == 1 or given_up:
            self._tx.event(f'{self.kind.value}-failed', f'{node.name}: {error}', node)
        self._nodes.change(member, state=verdict.state, cause=verdict.cause)
        if verdict.again_s is not None:
            member.not_before = self._tx.monotonic + verdict.again_s
        if verdict.state is NodeState.FAILED:
            self._nodes.replan = True

    def _launch(self, node: Node) -> None:
        try:
            operation = self.start(node)
        # Whatever goes wrong concerns the node, and must not end the round.
        except Exception as exc:
            self._report_error(node, exc)
            return
        if operation is not None:
            self._report_delays(node, operation)
            self._state.when_done(operation, functools.partial(self.take, node.id))

    def _report_delays(self, node: Node, operation: Any) -> None:
        """Write whatever delays an operation of a backend, while it is under way."""

        def delayed(error: BaseException | None) -> None:
            self._state.call_soon(functools.partial(self._hinder, node.id, error))

        operation.on_hindrance(delayed)

    def _hinder(self, node_id: str, error: BaseException | None) -> None:
        """Write why the action under way takes longer, so that people see it at once."""
        member = self._nodes.get(node_id)
        if member is None or not member.busy:
            return
        if error is None:
            self._unhinder(member)
            return
        cause = lifecycle.hindrance_of(error)
        if member.node.cause == cause:
            return
        if not member.hindered and cause not in self._logged:
            # Other nodes have the same cause at the same time.
            self._logged.append(cause)
            cluster, node = self._tx.cluster.name, member.node.name
            LOG.warning('Cluster %s: the %s of %s waits: %s',
                        cluster, self.kind.value, node, cause.line)  # fmt: skip
        member.hindered = True
        self._nodes.change(member, cause=cause)

    def _unhinder(self, member: Member) -> None:
        if member.hindered:
            member.hindered = False
            self._nodes.change(member, cause=None)

    # ---- for start ---------------------------------------------------------------

    def _compute(self, node: Node) -> Compute:
        return self._state.parts.backends.get(node.backend)

    def _report_error(self, node: Node, error: BaseException) -> None:
        self._state.call_soon(functools.partial(self.take, node.id, None, error))

    def _report_call(self, node: Node, method: Callable[..., object]) -> None:
        """Call a method of the cluster driver on another thread, and report its result."""
        self._state.call(self._driver_call(node, method), functools.partial(self.take, node.id))

    def _driver_call(self, node: Node, method: Callable[..., _Answer]) -> Callable[[], _Answer]:
        """Return the call of a method of the cluster driver, as the cluster is now."""
        state = self._state
        call = functools.partial(
            method, context=state.context(), cluster=state.tx.cluster, node=node
        )
        return functools.partial(call_driver, state.driver.name, method.__name__, call)

    # ---- for result --------------------------------------------------------------

    def _repeat(self, member: Member, cause: Cause | None) -> None:
        """Repeat the action after a pause."""
        # It is repeated many times; only what is new is written.
        if member.node.cause != cause:
            self._nodes.change(member, cause=cause)
        waited_s = self._tx.now - member.node.since
        pause_s = lifecycle.poll_pause_s(waited_s, len(self._nodes))
        member.not_before = self._tx.monotonic + pause_s
