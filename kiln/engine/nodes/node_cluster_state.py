"""The state of a cluster whose nodes kiln builds, shared by all that work on it."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cause, Lease
from kiln.engine.context import Parts
from kiln.engine.nodes.cluster_state import CallSoon, ClusterState
from kiln.engine.nodes.hook_gate import HookGate
from kiln.engine.plan.backend_choice import chosen_by
from kiln.engine.plan.desired import Desired


class NodeClusterState(ClusterState):
    """Adds the desired state, and what drivers of such clusters get in a call."""

    driver: NodeClusterDriver

    def __init__(
        self, parts: Parts, lease: Lease, driver: NodeClusterDriver, call_soon: CallSoon
    ) -> None:
        nodes = parts.store.nodes.of(lease.scope)
        super().__init__(parts, lease, driver, call_soon, nodes)
        self.hooks = HookGate(self)
        #: Why the operation cannot be completed, found by an action of a node; None if it can.
        self.refusal: Cause | None = None
        self.refresh_desired()

    def refresh_desired(self) -> None:
        """Compute the desired state of the cluster as it was last read."""
        self._template = self._contexts.template(self.tx.cluster)
        self.desired = Desired(
            self.tx.cluster, self.context(), self.parts.backends.zones,
            self.driver.changed_templates, control_first=self.driver.control_first,
            backend_of=chosen_by(self.driver, self.tx.cluster),
        )  # fmt: skip

    def context(self) -> Context:
        # Called for each poll of each node, so it reads nothing.
        operation = self.tx.operation
        return self._contexts.context(
            self.tx.cluster,
            nodes=self.nodes.nodes(),
            join_key=self._join_key,
            template=self._template,
            operation=operation.id if operation else None,
        )
