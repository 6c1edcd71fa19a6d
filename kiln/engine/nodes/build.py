"""Node actions BUILD and FIND: request a machine, and look for one that was requested."""

from __future__ import annotations

from kiln.clusters.models import NodeState
from kiln.engine.context import labels
from kiln.engine.nodes.action import Due, NodeAction, forget
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import build_key
from kiln.models import Amphora, AmphoraType


class Build(NodeAction):
    """Requests the machine of a node; repeated with the same key it finds the first one."""

    act = ActionKind.BUILD

    def begin(self, due: Due) -> None:
        node, machine = due.node, due.machine
        bootstrap = self._tools.driver.bootstrap(due.context, due.cluster, node)
        operation = self._compute(node).build(
            machine.server_type or AmphoraType.VM,
            due.place.flavor or machine.flavor,
            machine.image,
            keys=machine.keys,
            sec_groups=machine.sec_groups,
            network_ids=machine.networks,
            config_drive_files=bootstrap.config_drive_files or None,
            user_data=bootstrap.user_data,
            name=node.name,
            build_key=build_key(node),
            availability_zone=due.place.zone,
            metadata=labels(due.cluster.id, node.group),
            # It is looked for by its key, if not by this process then by the one that took
            # the cluster over; and what that one has adopted must not be removed.
            discard=False,
        )
        self._report_when_done(node, operation)

    def result(self, value: str, tx: Transaction, member: Member, desired: Desired) -> bool:
        self._nodes.change(tx, member, compute_id=value, state=NodeState.BOOTING, cause=None)
        tx.accept(member.node, value)
        tx.settle(ActionKind.BUILD, member.node)
        return False


class Find(NodeAction):
    """Looks for the machine of a node that is removed before its build returned an id."""

    act = ActionKind.FIND

    def begin(self, due: Due) -> None:
        found = self._compute(due.node).find_build(build_key(due.node))
        self._report_when_done(due.node, found)

    def result(
        self, value: Amphora | None, tx: Transaction, member: Member, desired: Desired
    ) -> bool:
        if value is not None:
            self._nodes.change(tx, member, compute_id=value.id, state=NodeState.DELETING)
            tx.accept(member.node, value.id)
            return False
        # What was sent can still be on its way, so absence is believed the second time.
        member.absent += 1
        if member.absent >= 2:
            return forget(self._nodes, tx, member)
        member.not_before = tx.moment + self._tools.settle_s
        return False
