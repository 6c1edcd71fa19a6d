"""What the worker of a cluster shares with its hooks, its operation and its node actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Lease, Node
from kiln.engine.context import Parts
from kiln.engine.driver_context import existing
from kiln.engine.nodes.join_key import JoinKey
from kiln.engine.nodes.node_table import NodeTable
from kiln.engine.nodes.transaction import Transaction

#: Runs a function in the next round of the cluster; any thread can call it.
CallSoon = Callable[[Callable[[], object]], None]
#: Takes in, in a round, the value or the error of a call.
TakeResult = Callable[[Any, BaseException | None], object]


class ClusterState:
    """A cluster whose lease this process holds. Used by one thread, except ``call_soon``."""

    def __init__(
        self,
        parts: Parts,
        lease: Lease,
        driver: ClusterDriver,
        call_soon: CallSoon,
        nodes: Iterable[Node] = (),
    ) -> None:
        self.parts = parts
        self.driver = driver
        self.call_soon = call_soon
        self.tx = Transaction(parts.store.clusters.get(lease.scope), parts.clock)
        self.nodes = NodeTable(self.tx, nodes)
        self._contexts = parts.contexts
        self._join_key = JoinKey(parts.store, lease)

    def context(self) -> Context:
        """Return what the driver is allowed to use in a call."""
        cluster, operation = self.tx.cluster, self.tx.operation
        return self._contexts.context(
            cluster,
            # A cluster that another driver built before can have nodes that kiln knows.
            nodes=existing(self.parts.store.nodes.of(cluster.id)),
            join_key=self._join_key,
            template=self._contexts.template(cluster),
            operation=operation.id if operation else None,
        )

    def call(self, function: Callable[[], object], take: TakeResult) -> None:
        """Make a call that can block on another thread; ``take`` gets its result in a round.

        The threads are shared with other clusters. A driver that is slow, or does not return,
        leaves most of them to the others.
        """

        def run() -> None:
            try:
                value = function()
            # Whatever fails, the round must receive a result, so that it stops waiting.
            except BaseException as exc:
                self.call_soon(functools.partial(take, None, exc))
            else:
                self.call_soon(functools.partial(take, value, None))

        self.parts.run(self.tx.cluster.id, run)

    def when_done(self, operation: Any, take: TakeResult) -> None:
        """Pass the result of an operation of a backend to ``take``, in a round."""

        def done(operation: Any) -> None:
            error = operation.exception()
            value = None if error is not None else operation.result()
            self.call_soon(functools.partial(take, value, error))

        operation.add_done_callback(done)
