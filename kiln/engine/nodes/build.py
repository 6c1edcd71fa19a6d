"""Node actions BUILD and FIND: request a machine, and look for one that was requested."""

from __future__ import annotations

from kiln.clusters.models import NodeState
from kiln.engine.context import labels
from kiln.engine.nodes.action import Due, NodeAction, forget
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.transaction import Entry
from kiln.engine.plan.desired import Wishes
from kiln.engine.plan.lifecycle import Act
from kiln.engine.plan.names import build_key
from kiln.models import Amphora, AmphoraType


class Build(NodeAction):
    """Requests the machine of a node; repeated with the same key it finds the first one."""

    act = Act.BUILD

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

    def result(self, value: str, entry: Entry, member: Member, wishes: Wishes) -> bool:
        self._roster.change(entry, member, compute_id=value, state=NodeState.BOOTING, cause=None)
        entry.accept(member.node, value)
        entry.settle(Act.BUILD, member.node)
        return False


class Find(NodeAction):
    """Looks for the machine of a node that is removed before its build returned an id."""

    act = Act.FIND

    def begin(self, due: Due) -> None:
        found = self._compute(due.node).find_build(build_key(due.node))
        self._report_when_done(due.node, found)

    def result(self, value: Amphora | None, entry: Entry, member: Member, wishes: Wishes) -> bool:
        if value is not None:
            self._roster.change(entry, member, compute_id=value.id, state=NodeState.DELETING)
            entry.accept(member.node, value.id)
            return False
        # What was sent can still be on its way, so absence is believed the second time.
        member.absent += 1
        if member.absent >= 2:
            return forget(self._roster, entry, member)
        member.not_before = entry.moment + self._tools.settle_s
        return False
