"""The creation of a cluster of machines that exist: claims each, then builds what is missing."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from kiln.clusters.models import Cause, OperationState
from kiln.engine.cluster.adopt import node_of, untakeable
from kiln.engine.cluster.converge import Converge
from kiln.engine.health.machine_check import MachineCheck
from kiln.engine.nodes.node_cluster_state import NodeClusterState
from kiln.engine.plan.lifecycle import cause_of, pause_s
from kiln.engine.plan.names import build_key_of
from kiln.engine.plan.taken import Taken, taken_in
from kiln.models import Amphora

#: Machines that are claimed at once.
_AT_ONCE = 8


class TakeOver(Converge):
    """Writes a node for each machine that it has claimed, then converges.

    Nothing is planned before: what is not a node so far would be built. The ids of the nodes
    are part of the operation, and a claim has the build key of its node, so the operation is
    safe to repeat after a crash.
    """

    def __init__(self, state: NodeClusterState, machines: MachineCheck) -> None:
        super().__init__(state, machines)
        # Also nodes that are gone: their machines were taken.
        there = {node.id for node in state.parts.store.nodes.of(self._tx.cluster.id)}
        taken = taken_in(self._tx.under_way.args)
        self._open = {one.node: one for one in taken if one.node not in there}
        self._claiming: set[str] = set()
        self._claimed: dict[str, Amphora] = {}
        self._cause: Cause | None = None
        #: Why claims are repeated, how often in a row, and from when on.
        self._waits: Cause | None = None
        self._tries = 0
        self._not_before = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._claiming) or super().busy

    def step(self) -> bool:
        for name, amphora in self._claimed.items():
            self._accept(self._open.pop(name), amphora)
        self._claimed.clear()
        if not self._open:
            return super().step()
        if self._cause is not None:
            if not self._claiming:
                self._tx.end(OperationState.FAILED, self._cause)
            return False
        self._tx.wait_for(self._waits)
        if self._tx.monotonic >= self._not_before:
            self._tx.launches += self._launches()
        else:
            self._nodes.wake_at(self._not_before)
        return False

    def _launches(self) -> Iterator[functools.partial[None]]:
        idle = [name for name in self._open if name not in self._claiming]
        for name in idle[: max(0, _AT_ONCE - len(self._claiming))]:
            self._claiming.add(name)
            claim = functools.partial(self._claim, self._open[name])
            yield functools.partial(self._state.call, claim, functools.partial(self._take, name))

    def _claim(self, one: Taken) -> Amphora | Cause:
        """Make a machine one of this site; return it, or why it cannot be taken; blocks."""
        parts = self._state.parts
        compute = parts.backends.get(self._state.desired.machine(one.group).compute_driver)
        found = compute.get_amphora(amphora_id=one.machine).result()
        owner, known = compute.driver.owner, parts.store.receipts.known(compute.name, 'server')
        if why := untakeable(found, owner, known):
            return Cause(
                code='not_adopted',
                message=f'Cannot take over machine {one.machine} of {compute.name}: {why}.',
                hint='Machines that were taken over before it are nodes of the cluster.',
            )
        # One of this site keeps the build key that it has.
        if not found.owner:
            compute.claim(one.machine, build_key_of(one.node, 1)).result()
        return found

    def _take(self, name: str, found: Amphora | Cause | None, error: BaseException | None) -> None:
        self._claiming.discard(name)
        if isinstance(found, Amphora):
            self._claimed[name] = found
            self._waits, self._tries = None, 0
        elif error is None:
            self._cause = self._cause or found
        elif getattr(error, 'retryable', False):
            self._waits, self._tries = cause_of(error), self._tries + 1
            self._not_before = self._tx.monotonic + pause_s(self._tries)
        else:
            self._cause = self._cause or cause_of(error)

    def _accept(self, one: Taken, amphora: Amphora) -> None:
        group = self._tx.cluster.spec.group(one.group)
        assert group is not None
        node = node_of(self._state, group, amphora, one.node)
        self._nodes.add(node)
        self._tx.accept(node, amphora.id)
        self._tx.event('node-adopted', f'{node.name} is now machine {amphora.id}', node)
        self._nodes.replan = True
