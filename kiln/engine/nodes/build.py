"""Node actions BUILD and FIND: request a machine, and search for one that was requested."""

from __future__ import annotations

import collections
import functools
from typing import Any

from kiln.cluster_drivers.values import Bootstrap
from kiln.clusters.exceptions import LeaseLost, StoreError
from kiln.clusters.models import Cause, Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan import lifecycle
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


class _Making(NodeAction):
    """An action whose result can be the machine of a build."""

    def _built(self, member: Member, amphora_id: str) -> None:
        """Write the machine of a build."""
        self._nodes.change(member, compute_id=amphora_id, state=NodeState.BOOTING, cause=None)
        self._tx.accept(member.node, amphora_id)
        self._tx.settle(ActionKind.BUILD, member.node)


class Build(_Making):
    """Requests the machine of a node; repeated with the same key it finds the first one."""

    kind = ActionKind.BUILD

    def __init__(self, state: NodeClusterState) -> None:
        super().__init__(state)
        self._gate = BuildGate(state.parts.settings.max_building)
        #: By node: what its machine is given, until the build is sent.
        self._bootstraps: dict[str, Bootstrap] = {}

    def begin(self, member: Member) -> None:
        """Call the driver for what to send; a node is BUILDING once that is known."""
        if self._gate.enter(member.node.id):
            self._nodes.began(member)
            self._tx.launches.append(functools.partial(self._call_driver, member.node))

    def _call_driver(self, node: Node) -> None:
        self._state.call(
            self._driver_call(node, self._state.driver.bootstrap),
            functools.partial(self._take_bootstrap, node.id, self._aim),
        )

    @property
    def _aim(self) -> tuple[str | None, int]:
        """What the cluster is being brought to; a rollback has another generation."""
        operation = self._tx.operation
        return operation.id if operation else None, self._tx.cluster.generation

    def _take_bootstrap(
        self,
        node_id: str,
        aim: tuple[str | None, int],
        bootstrap: Bootstrap,
        error: BaseException | None,
    ) -> None:
        """Write the intent, and send the build after the commit."""
        member = self._nodes.get(node_id)
        if member is not None and error is None and self._still_wanted(member, aim):
            member.resent = member.node.state is NodeState.BUILDING
            self._nodes.change(member, state=NodeState.BUILDING)
            self._tx.intend(self.kind, member.node)
            self._bootstraps[node_id] = bootstrap
            self._tx.launches.append(functools.partial(self._launch, member.node))
            return
        self._leave(node_id)
        if member is not None:
            self._nodes.ended(member)
            if error is not None and self._still_wanted(member, aim):
                self._refused(member, error)

    def _still_wanted(self, member: Member, aim: tuple[str | None, int]) -> bool:
        """Return whether the operation that began the build still wants the machine."""
        tx, operation = self._tx, self._tx.operation
        if operation is None or aim != self._aim or tx.ended:
            return False
        late = operation.deadline_at and tx.now >= operation.deadline_at
        stopped = operation.cancelled or tx.cluster.paused or self._state.refusal is not None
        return not (late or stopped or member.node.doomed)

    def _refused(self, member: Member, error: BaseException) -> None:
        """Repeat the call later, or have the operation fail: nothing was sent."""
        node, cause = member.node, lifecycle.cause_of(error)
        member.tries += 1
        if member.tries == 1:
            self._tx.event('build-failed', f'{node.name}: {error}', node)
        self._nodes.change(member, cause=cause)
        # Neither a store that is away nor another owner of the cluster is the driver's refusal.
        passing = isinstance(error, StoreError | LeaseLost)
        if passing or getattr(error, 'retryable', False):
            member.not_before = self._tx.monotonic + lifecycle.pause_after(error, member.tries)
        else:
            message = f'Cannot build node {node.name}: its driver does not say what it is given.'
            self._state.refusal = Cause(code='no_bootstrap', message=message, because=cause)

    def start(self, node: Node) -> Any:
        bootstrap = self._bootstraps.pop(node.id)
        state, cluster = self._state, self._tx.cluster
        machine, place = state.desired.machine(node.group), state.desired.place(node)
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

    def _leave(self, node_id: str) -> None:
        if (waiting := self._gate.leave(node_id)) is not None:
            self._nodes.touch(waiting)

    def take(self, node_id: str, value: Any, error: BaseException | None) -> None:
        self._leave(node_id)
        if isinstance(error, BuildDiffers) and error.amphora_id is not None:
            # The key is this attempt's own, so the machine is this node's: it was requested
            # before the spec changed. What it was made with is in the node's row, and an
            # operation that renews nodes replaces it.
            value, error = error.amphora_id, None
        super().take(node_id, value, error)

    def result(self, member: Member, value: str) -> None:
        self._built(member, value)

    def failed(self, member: Member, error: BaseException) -> None:
        """Without capacity, try the next place at once; after the last one wait, then restart."""
        if member.resent and lifecycle.made_nothing(error):
            member.sought, member.absent = True, 0
            self._nodes.change(member, cause=lifecycle.cause_of(error))
            return
        super().failed(member, error)
        if isinstance(error, InsufficientCapacity):
            if self._state.desired.has_other_places(member.node):
                member.not_before = 0.0
            self._nodes.change(member, attempt=member.node.attempt + 1)
        elif lifecycle.refused_for_good(error):
            message = f'Cannot build node {member.node.name}: its backend refuses the request.'
            cause = lifecycle.cause_of(error)
            self._state.refusal = Cause(code=cause.code, message=message, because=cause)


class Find(_Making):
    """Searches for the machine of a build that returned no id.

    Its node is removed; or a repeat of the build was refused, which does not tell what the first
    request did.
    """

    kind = ActionKind.FIND

    def start(self, node: Node) -> Any:
        return self._compute(node).find_build(build_key(node))

    def result(self, member: Member, value: Amphora | None) -> None:
        doomed = bool(member.node.doomed)
        if value is not None:
            member.sought = False
            if doomed:
                self._nodes.change(member, compute_id=value.id, state=NodeState.DELETING)
                self._tx.accept(member.node, value.id)
            else:
                self._built(member, value.id)
            return
        # What was sent can still be on its way, so absence is believed the second time.
        member.absent += 1
        if member.absent < 2:
            member.not_before = self._tx.monotonic + self._state.parts.settings.settle_s
        elif doomed:
            self._nodes.forget(member)
        else:
            member.sought = False
            # Sent once more, and a refusal is certain then.
            self._nodes.change(member, state=NodeState.PLANNED)
