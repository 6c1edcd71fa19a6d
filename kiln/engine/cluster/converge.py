"""The operations that lead to the desired state: create, update, resize, upgrade, replace."""

from __future__ import annotations

import dataclasses

from kiln.clusters.models import Node, OperationState
from kiln.clusters.spec import Place
from kiln.engine.cluster.operation import NodeOperation
from kiln.engine.cluster.reasons import why_undone
from kiln.engine.cluster.release import Release
from kiln.engine.cluster.rollback import leads_back, rollback_of
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.nodes.node_table import Member


class Converge(NodeOperation):
    """Builds and removes nodes until all are as desired."""

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        operation = self._tx.under_way
        back = rollback_of(operation, state.parts.store.journal.of(operation.id))
        #: Why the operation is rolled back, if it is.
        self._undone = back.cause if back else None
        self._release = Release(state)

    @property
    def busy(self) -> bool:
        return self._release.busy

    def step(self) -> bool:
        self._machines.poll_when_due()
        if self._nodes.replan:
            self._plan()
        return True

    def finish(self) -> None:
        if not self._nodes.at_rest or self._nodes.replan:
            if not self._release.busy:
                self._wait()
        elif self._state.hooks.may_end():
            self._arrive()

    def miss(self) -> None:
        """End the operation, or roll it back."""
        cause = self._late(self._undone)
        if self._undone is not None or not leads_back(self._tx, cause):
            self._tx.end(OperationState.FAILED, cause)

    def _plan(self) -> None:
        """Decide which nodes are to be built and which removed, as far as possible now."""
        choice, current = self._release.take_answer()
        found = self._state.desired.next(
            self._tx.under_way, self._nodes.nodes(), self._tx.now,
            renew=self._undone is not None, setbacks=self._nodes.setbacks, choice=choice,
        )  # fmt: skip
        self._release.ask(found.questions)
        for group, changes in found.rounds:
            for add in changes.adds:
                self._add(group, add.place)
            for remove in changes.removes:
                member = self._nodes.get(remove.node.id)
                if member is not None:
                    self._remove(member, remove.reason)
                    self._release.progressed()
        if current or not found.questions:
            self._holds = found.holds
        elif self._release.holds:
            self._holds = self._release.holds
        self._nodes.replan = found.more
        self._state.hooks.control_plane()

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
