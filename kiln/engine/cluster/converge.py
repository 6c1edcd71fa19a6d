"""The operations that lead to the desired state: create, update, resize, upgrade, replace."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator

from kiln.clusters.models import Cause, Node, OperationState
from kiln.clusters.spec import Place
from kiln.engine.cluster.operation import NodeOperation
from kiln.engine.cluster.reasons import why_undone
from kiln.engine.cluster.release import Release
from kiln.engine.cluster.rollback import leads_back, rollback_of
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.changes import Add, Remove
from kiln.engine.plan.rollout import GroupRound

#: After a plan the next one waits for this many times as long as the plan took: planning takes
#: the processor from other clusters, the longer the larger the cluster is.
PAUSES = 4


class Converge(NodeOperation):
    """Builds and removes nodes until all are as desired."""

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        operation = self._tx.under_way
        back = rollback_of(operation, state.parts.store.journal.of(operation.id))
        #: Why the operation is rolled back, if it is.
        self._undone = back.cause if back else None
        self._release = Release(state)
        self._plan_at = -math.inf

    @property
    def busy(self) -> bool:
        return super().busy or self._release.busy

    def step(self) -> bool:
        self._machines.poll_when_due()
        if self._nodes.replan and self._tx.monotonic >= self._plan_at:
            self._plan()
        elif self._nodes.replan:
            self._nodes.wake_at(self._plan_at)
        return True

    def finish(self) -> None:
        if not self._nodes.at_rest or self._nodes.replan:
            if not self._release.busy:
                self._wait()
        elif self._outputs.current() and self._state.hooks.may_end():
            self._arrive()

    def miss(self) -> None:
        self.fail(self._late(self._undone))

    def _left(self, late: int) -> str:
        if not late and self._nodes.replan and self._plan_at > -math.inf:
            return 'changes to its nodes are still to be made'
        return super()._left(late)

    def fail(self, cause: Cause) -> None:
        """End the operation, or roll it back."""
        if self._undone is not None or not leads_back(self._tx, cause):
            self._tx.end(OperationState.FAILED, cause)

    def _plan(self) -> None:
        """Decide which nodes are to be built and which removed, as far as possible now."""
        clock = self._state.parts.clock
        began = clock.monotonic()
        choice, current = self._release.take_answer()
        found = self._state.desired.next(
            self._tx.under_way, self._nodes.nodes(), self._tx.now,
            renew=self._undone is not None, setbacks=self._nodes.setbacks, choice=choice,
        )  # fmt: skip
        self._release.ask(found.questions)
        left = self._begin_changes(found.rounds)
        if current or not found.questions:
            self._holds = found.holds
        elif self._release.holds:
            self._holds = self._release.holds
        self._nodes.replan = found.more or left
        self._state.hooks.control_plane()
        ended = clock.monotonic()
        self._plan_at = ended + PAUSES * (ended - began)
        if left:
            self._nodes.wake_at(self._plan_at)

    def _begin_changes(self, rounds: Iterable[tuple[str, GroupRound]]) -> bool:
        """Begin a portion of the changes; return True if some are left for the next plan."""
        changes = _changes(rounds)
        for group, change in itertools.islice(changes, self._state.parts.settings.portion):
            if isinstance(change, Add):
                self._add(group, change.place)
            elif (member := self._nodes.get(change.node.id)) is not None:
                self._remove(member, change.reason)
                self._release.progressed()
        return next(changes, None) is not None

    def _add(self, group: str, place: Place) -> None:
        parts, desired, cluster = self._state.parts, self._state.desired, self._tx.cluster
        node = Node(
            id=parts.naming.new_id(),
            cluster_id=cluster.id,
            group=group,
            name=parts.naming.new_name(cluster.name, group, self._nodes.names),
            place=place,
            backend=parts.backends.get(desired.machine(group).compute_driver).name,
            made_with=desired.made_with(group),
            created_at=self._nodes.birth(),
            since=self._tx.now,
        )
        self._nodes.add(node)

    def _remove(self, member: Member, reason: str) -> None:
        member.tries, member.not_before = 0, 0.0
        self._nodes.change(member, doomed=reason)
        self._nodes.touch(member.node.id)
        self._tx.event('node-doomed', f'{member.node.name} is to go: {reason}', member.node)

    def _arrive(self) -> None:
        tx, cluster = self._tx, self._tx.cluster
        if self._undone is None:
            tx.end(OperationState.SUCCEEDED)
        else:
            cause = why_undone(self._tx.under_way, cluster.name, self._undone)
            tx.end(OperationState.ROLLED_BACK, cause)
        if cluster.former != cluster.aim or cluster.trouble:
            # What is still wrong is found again by the next poll.
            tx.cluster = dataclasses.replace(
                cluster, former=cluster.aim, trouble=None, updated_at=tx.now
            )


def _changes(rounds: Iterable[tuple[str, GroupRound]]) -> Iterator[tuple[str, Add | Remove]]:
    for group, begun in rounds:
        for add in begun.adds:
            yield group, add
        for remove in begun.removes:
            yield group, remove
