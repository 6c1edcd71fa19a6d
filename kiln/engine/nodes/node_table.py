"""The nodes of one cluster in memory, and which of them are due."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.repair import Setback


@dataclasses.dataclass(slots=True)
class Member:
    """A node, and its state in memory that is not written."""

    node: Node
    #: True while an action is under way for it that will report a result.
    busy: bool = False
    #: Failures in a row.
    tries: int = 0
    #: True if its cause is an error after which the action under way repeats a call.
    hindered: bool = False
    #: True if it has been drained, and is to come back.
    relieved: bool = False
    #: True if its reset has ended, in the operation under way.
    settled: bool = False
    #: True if the build under way repeats a request whose answer nobody has seen.
    resent: bool = False
    #: True if that repeat was refused: the earlier request might have made the machine.
    sought: bool = False
    #: How often a poll for its build found nothing.
    absent: int = 0
    #: Nothing is done for it before this time, by the monotonic clock.
    not_before: float = 0.0


class NodeTable:
    """All nodes that are not gone. The cost of a round grows only with its changes."""

    def __init__(self, tx: Transaction, nodes: Iterable[Node] = ()) -> None:
        self._tx = tx
        #: True if the cluster is to be planned again.
        self.replan = True
        self._members: dict[str, Member] = {}
        #: Every name that the cluster ever had, and every backend that it had nodes in.
        self.names: set[str] = set()
        self.backends: set[str] = set()
        #: Nodes that are not in their desired state.
        self._restless: set[str] = set()
        self._busy = 0
        #: Ids of nodes that are due.
        self._touched: set[str] = set()
        self._timers: list[tuple[float, str]] = []
        #: By group, the failures since a node of it was last ready. Not written: a conductor that
        #: takes over begins without pauses.
        self.setbacks: dict[str, Setback] = {}
        self._all: tuple[Node, ...] | None = None
        self._last_birth = 0.0
        #: The wall clock at the last round.
        self._seen_at = math.inf
        for node in nodes:
            self._note_names(node)
            if node.state is not NodeState.GONE:
                self._enter(node)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._members

    def get(self, node_id: str) -> Member | None:
        """Return a member; None for one that is gone."""
        return self._members.get(node_id)

    def members(self) -> list[Member]:
        """Return all members, with their state in memory."""
        return list(self._members.values())

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes; the same tuple until one changes, so it is cheap to pass on."""
        if self._all is None:
            self._all = tuple(member.node for member in self._members.values())
        return self._all

    def birth(self) -> float:
        """Return the creation time of a node that is created now.

        It is later than that of any existing node, whatever the clocks show: cluster drivers
        can choose the oldest node for what only one node must do.
        """
        return max(self._tx.now, math.nextafter(self._last_birth, math.inf))

    def restless(self) -> Iterator[Node]:
        """Yield the nodes that are not in their desired state."""
        return (self._members[node_id].node for node_id in sorted(self._restless))

    @property
    def at_rest(self) -> bool:
        """True if all are in their desired state and nothing is under way."""
        return not self._restless and not self._busy

    @property
    def busy(self) -> bool:
        """True if an action is under way for any of them."""
        return self._busy > 0

    # ---- changes -------------------------------------------------------------

    def add(self, node: Node) -> None:
        """Add a new node."""
        self._note_names(node)
        self._enter(node)
        self._tx.nodes[node.id] = node

    def change(self, member: Member, **changes: Any) -> None:
        """Change a node and write it."""
        state = changes.get('state', member.node.state)
        if state is not member.node.state:
            changes['since'] = self._tx.now
            self._count_failures(member.node.group, state)
        self.correct(member, **changes)
        self._tx.nodes[member.node.id] = member.node

    def _count_failures(self, group: str, state: NodeState) -> None:
        if state is NodeState.FAILED:
            before = self.setbacks.get(group)
            self.setbacks[group] = Setback(before.count + 1 if before else 1, self._tx.now)
        elif state is NodeState.READY:
            self.setbacks.pop(group, None)

    def correct(self, member: Member, **changes: Any) -> None:
        """Change a node in memory only, as others have written it."""
        member.node = node = dataclasses.replace(member.node, **changes)
        self._all = None
        if node.state is NodeState.READY and not node.doomed:
            self._restless.discard(node.id)
        else:
            self._restless.add(node.id)

    def forget(self, member: Member) -> None:
        """Remove a node that no backend has, and write that."""
        node = member.node
        self._tx.confirm_gone(node)
        self._tx.settle(ActionKind.DELETE, node)
        self._tx.event('node-gone', f'{node.name} is gone', node)
        self.change(member, state=NodeState.GONE, cause=None)
        del self._members[node.id]
        self._all = None
        self._restless.discard(node.id)
        self.replan = True

    def renew(self) -> None:
        """Reset the failures of all nodes."""
        for member in self._members.values():
            member.tries, member.not_before = 0, 0.0

    def began(self, member: Member) -> None:
        """Record that an action is under way for a node."""
        member.busy = True
        self._busy += 1

    def ended(self, member: Member) -> None:
        """Record that the action has ended; the node is due."""
        member.busy = False
        self._busy -= 1
        self.touch(member.node.id)

    def _enter(self, node: Node) -> None:
        self._members[node.id] = member = Member(node)
        self._last_birth = max(self._last_birth, node.created_at)
        self.correct(member)
        self.touch(node.id)

    def _note_names(self, node: Node) -> None:
        self.names.add(node.name)
        self.backends.add(node.backend)

    def follow_clock(self) -> None:
        """Let states begin now that begin later, because the clock was set back.

        All that a node waits for would otherwise take longer: its start, its drain, its end.
        """
        now, self._seen_at, before = self._tx.now, self._tx.now, self._seen_at
        if now >= before:
            return
        for member in self._members.values():
            if member.node.since > now:
                self.change(member, since=now)
                self.touch(member.node.id)

    # ---- due nodes -------------------------------------------------------------

    def touch(self, node_id: str) -> None:
        """Mark a node as due."""
        self._touched.add(node_id)

    def touch_all(self) -> None:
        """Mark every node as due."""
        self._touched.update(self._members)

    def wait(self, member: Member) -> None:
        """Mark a node as due once its pause is over."""
        self.wake_at(member.not_before, member.node.id)

    def wake_at(self, monotonic: float, node_id: str = '') -> None:
        """Run a round at a time, with the node due if one is given."""
        heapq.heappush(self._timers, (monotonic, node_id))

    @property
    def next_at(self) -> float:
        """The time at which a node is due again."""
        return self._timers[0][0] if self._timers else math.inf

    def expire_timers(self) -> None:
        """Mark the nodes as due whose time has come."""
        while self._timers and self._timers[0][0] <= self._tx.monotonic:
            self._touched.add(heapq.heappop(self._timers)[1])

    def take_due(self) -> list[Member]:
        """Return the members that are due now, in a stable order."""
        due = [self._members[one] for one in sorted(self._touched) if one in self._members]
        self._touched.clear()
        return due
