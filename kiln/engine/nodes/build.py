"""Node actions BUILD and FIND: request a machine, and search for one that was requested."""

from __future__ import annotations

import collections
from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import build_key
from kiln.exceptions import BuildDiffers, InsufficientCapacity
from kiln.models import Amphora, AmphoraType


class BuildGate:
    """Admits a limited number of builds; the others follow in order as builds end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[str] = set()
        self._waiting: collections.deque[str] = collections.deque()

    def enter(self, node_id: str) -> bool:
        """Admit a node if there is room; otherwise queue it, for ``leave`` to return."""
        if len(self._inside) >= self._most:
            self._waiting.append(node_id)
            return False
        self._inside.add(node_id)
        return True

    def leave(self, node_id: str) -> str | None:
        """Release a node; return the id of the next waiting node, if there is one."""
        self._inside.discard(node_id)
        return self._waiting.popleft() if self._waiting else None


class Build(NodeAction):
    """Requests the machine of a node; repeated with the same key it finds the first one."""

    kind = ActionKind.BUILD

    def __init__(self, state: NodeClusterState) -> None:
        super().__init__(state)
        self._gate = BuildGate(state.parts.settings.max_building)

    def begin(self, member: Member) -> None:
        if self._gate.enter(member.node.id):
            super().begin(member)

    def start(self, node: Node) -> Any:
        state, cluster = self._state, self._tx.cluster
        machine, place = state.desired.machine(node.group), state.desired.place(node)
        bootstrap = state.driver.bootstrap(context=state.context(), cluster=cluster, node=node)
        return self._compute(node).build(
            machine.server_type or AmphoraType.VM,
            place.flavor or machine.flavor,
            machine.image,
            keys=machine.keys,
            sec_groups=machine.sec_groups,
            network_ids=machine.networks,
            config_drive_files=bootstrap.config_drive_files or None,
            user_data=bootstrap.user_data,
            name=node.name,
            build_key=build_key(node),
            availability_zone=place.zone,
            # For people, and for the proof that a deleted cluster left no machine.
            metadata={'cluster': cluster.id, 'group': node.group},
            # The engine finds it by its key, in this process or in the one that takes the
            # cluster over; and what that one has adopted must not be removed.
            discard=False,
        )

    def take(self, node_id: str, value: Any, error: BaseException | None) -> None:
        if (waiting := self._gate.leave(node_id)) is not None:
            self._nodes.touch(waiting)
        if isinstance(error, BuildDiffers) and error.amphora_id is not None:
            # The key is this attempt's own, so the machine is this node's: it was requested
            # before the spec changed. What it was made with is in the node's row, and an
            # operation that renews nodes replaces it.
            value, error = error.amphora_id, None
        super().take(node_id, value, error)

    def result(self, member: Member, value: str) -> None:
        self._nodes.change(member, compute_id=value, state=NodeState.BOOTING, cause=None)
        self._tx.accept(member.node, value)
        self._tx.settle(ActionKind.BUILD, member.node)

    def failed(self, member: Member, error: BaseException) -> None:
        """Without capacity, try the next place at once; after the last one wait, then restart."""
        super().failed(member, error)
        if isinstance(error, InsufficientCapacity):
            if self._state.desired.has_other_places(member.node):
                member.not_before = 0.0
            self._nodes.change(member, attempt=member.node.attempt + 1)


class Find(NodeAction):
    """Searches for the machine of a node that is removed before its build returned an id."""

    kind = ActionKind.FIND

    def start(self, node: Node) -> Any:
        return self._compute(node).find_build(build_key(node))

    def result(self, member: Member, value: Amphora | None) -> None:
        if value is not None:
            self._nodes.change(member, compute_id=value.id, state=NodeState.DELETING)
            self._tx.accept(member.node, value.id)
            return
        # What was sent can still be on its way, so absence is believed the second time.
        member.absent += 1
        if member.absent >= 2:
            self._nodes.forget(member)
        else:
            member.not_before = self._tx.monotonic + self._state.parts.settings.settle_s
