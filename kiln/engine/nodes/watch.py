"""Node action WATCH: wait until a machine is active, and read its address."""

from __future__ import annotations

import functools
from typing import Any

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.action import NodeAction
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.names import machine_id
from kiln.fairness.turns import on_behalf_of
from kiln.models import Amphora


class Watch(NodeAction):
    """Waits for a machine that is being built, or that comes back."""

    kind = ActionKind.WATCH

    def start(self, node: Node) -> None:
        def active(watch: Any) -> None:
            if (error := watch.exception()) is not None:
                self._report_error(node, error)
                return
            try:
                # This is a thread of the backend's, which serves all clusters.
                with on_behalf_of(node.cluster_id):
                    machine = self._compute(node).get_amphora(amphora_id=machine_id(node))
                self._report_delays(node, machine)
                self._state.when_done(machine, functools.partial(self.take, node.id))
            # Whatever fails, the round must receive a result, so that it stops waiting.
            except Exception as exc:
                self._report_error(node, exc)

        watch = self._compute(node).watch(machine_id(node))
        self._report_delays(node, watch)
        watch.add_done_callback(active)

    def result(self, member: Member, value: Amphora) -> None:
        self._nodes.change(
            member, state=NodeState.JOINING, address=value.address,
            addresses=tuple(one.address for one in value.addresses),
            found_zone=value.availability_zone, cause=None,
        )  # fmt: skip
