"""The state of a cluster whose nodes kiln builds, shared by all that work on it."""

from __future__ import annotations

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Lease, Node
from kiln.engine.context import Parts
from kiln.engine.nodes.cluster_state import CallSoon, ClusterState
from kiln.engine.nodes.hook_gate import HookGate
from kiln.engine.nodes.join_key import JoinKey
from kiln.engine.plan.backend_choice import chosen_by
from kiln.engine.plan.desired import Desired


class NodeClusterState(ClusterState):
    """Adds the desired state, and what drivers of such clusters get in a call."""

    driver: NodeClusterDriver

    def __init__(
        self, parts: Parts, lease: Lease, driver: NodeClusterDriver, call_soon: CallSoon
    ) -> None:
        nodes = parts.store.nodes.of(lease.scope)
        super().__init__(parts, lease.scope, driver, call_soon, nodes)
        self._join_key = JoinKey(parts.store, lease)
        self.hooks = HookGate(self)
        self.refresh_desired()

    def refresh_desired(self) -> None:
        """Compute the desired state of the cluster as it was last read."""
        self.desired = Desired(
            self.tx.cluster, self.context(), self.parts.backends.zones,
            self.driver.changed_templates, control_first=self.driver.control_first,
            backend_of=chosen_by(self.driver, self.tx.cluster),
        )  # fmt: skip

    def context(self) -> Context:
        return Context(
            site=self.parts.site,
            defaults=self.parts.defaults,
            join_key=self._join_key,
            nodes=self.nodes.nodes(),
            console=self._console,
        )

    def _console(self, node: Node) -> str:
        """Return what a node wrote on its console; blocks.

        :raises AmphoraComputeError: it cannot be read.
        """
        assert node.compute_id is not None
        return self.parts.backends.get(node.backend).console_log(node.compute_id).result()
