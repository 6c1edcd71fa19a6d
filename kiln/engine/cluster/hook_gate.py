"""The hooks of an operation: called by rounds, answered through results.

A round checks whether a point is passed. The hook calls that this needs are written in
the round's commit and made after it; each answer is a result for a later round.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Context, Readiness, ReadyState
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import (
    Cause,
    Cluster,
    Node,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
    Step,
)
from kiln.engine.context import Parts
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.results import ActionResult
from kiln.hooks.hook import DRIVER, Hook, Plugin
from kiln.hooks.invocation import STEP_KIND, Call
from kiln.hooks.payload import Occasion
from kiln.hooks.points import Point, after, before
from kiln.hooks.replies import Answer
from kiln.hooks.run import SKIP_EVENT, Advance, HookRun, Skip, Standing

#: Hook methods of the driver, called inside all other hooks; names from the founding note.
_METHODS = {
    Point.PRE_CREATE: 'pre_create_cluster',
    Point.POST_CREATE: 'post_create_cluster',
    Point.PRE_UPDATE: 'pre_update_cluster',
    Point.POST_UPDATE: 'post_update_cluster',
    Point.PRE_DELETE: 'pre_delete_cluster',
    Point.POST_DELETE: 'post_delete_cluster',
}
_INNERMOST = 1_000_000
#: The timeout of a driver's method, and of all its calls together.
_DRIVER_S = 600.0

#: The points before an action for a node.
_GATES = {
    ActionKind.BUILD: (Point.PRE_NODE_BUILD,),
    ActionKind.DRAIN: (Point.PRE_NODE_DELETE,),
    # A node that did no work is not drained, but its hooks are called all the same.
    ActionKind.DELETE: (Point.PRE_NODE_DELETE, Point.PRE_NODE_TERMINATE),
}

_Key = tuple[Point, str | None]


class HookGate:
    """Checks whether the points of an operation are passed; without hooks all of them are."""

    def __init__(
        self,
        parts: Parts,
        driver: ClusterDriver,
        table: NodeTable,
        context: Callable[[tuple[Node, ...]], Context],
        tell: Callable[[ActionResult], None],
    ) -> None:
        self._parts = parts
        self._driver = driver
        self._nodes = table
        self._context = context
        self._tell = tell
        self._cluster: Cluster | None = None
        self._operation_id: str | None = None
        self._retried_at = -math.inf
        self._hooks: Sequence[Hook] = ()
        self._points: frozenset[Point] = frozenset()
        self._journal: dict[str, Step] = {}
        self._skips: list[Skip] = []
        self._last_seen = 0
        self._runs: dict[_Key, HookRun] = {}
        self._passed: set[_Key] = set()
        self._woken: dict[_Key, float] = {}
        # Calls that are under way, and the run each belongs to.
        self._out: dict[str, _Key] = {}

    # ---- what others have written ------------------------------------------------

    def reload(self, operation: Operation | None, cluster: Cluster) -> None:
        """Read the operation under way, and which hooks people chose to skip."""
        self._cluster = cluster
        known = self._operation_id, self._retried_at
        if operation is not None and (operation.id, operation.retried_at) != known:
            self._take_up(operation, cluster)
        if operation is not None and self._runs and self._see_skips():
            for _, node_id in self._runs:
                self._hurry(node_id)

    def _take_up(self, operation: Operation, cluster: Cluster) -> None:
        self._operation_id, self._retried_at = operation.id, operation.retried_at
        self._hooks = (*self._parts.hooks.of(cluster, operation.kind), *self._methods())
        self._points = frozenset(hook.point for hook in self._hooks)
        for known in (self._runs, self._passed, self._woken, self._out, self._journal):
            known.clear()
        self._skips.clear()
        self._last_seen = 0
        if self._hooks:
            steps = self._parts.store.journal.of(operation.id)
            self._journal |= {step.id: step for step in steps if step.kind == STEP_KIND}
            self._see_skips()

    def _methods(self) -> Sequence[Hook]:
        return [
            Hook(
                name=DRIVER,
                point=point,
                target=Plugin(getattr(self._driver, name)),
                order=_INNERMOST,
                timeout_s=_DRIVER_S,
                deadline_s=_DRIVER_S,
                origin=f'driver {self._driver.name}',
            )
            for point, name in _METHODS.items()
            if getattr(type(self._driver), name) is not getattr(ClusterDriver, name)
        ]

    def _see_skips(self) -> bool:
        assert self._cluster is not None
        events = self._parts.store.events.after(
            self._last_seen, cluster_id=self._cluster.id, kind=SKIP_EVENT
        )
        found = [
            Skip(event.facts['hook'], event.facts['reason'])
            for event in events
            if event.operation_id == self._operation_id
        ]
        self._last_seen = events[-1].seq if events else self._last_seen
        self._skips += found
        return bool(found)

    # ---- whether to go on ----------------------------------------------------------

    def ask(self, tx: Transaction, point: Point | None, node: Node | None = None) -> Standing:
        """Return whether a point is passed; start the hook calls that it needs."""
        if point is None or point not in self._points:
            return Standing.PASSED
        key = (point, node.id if node else None)
        if key in self._passed:
            return Standing.PASSED
        if tx.operation is None or tx.operation.id != self._operation_id:
            return Standing.OPEN
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = run = HookRun(
                point, self._hooks, tx.operation, node_id=key[1], journal=self._journal
            )
        self._write(tx, key, run.advance(tx.now, self._skips), node)
        if run.standing is Standing.PASSED:
            del self._runs[key]
            self._passed.add(key)
        else:
            self._wake(tx, key, run.wake_at)
        return run.standing

    def may_begin(self, tx: Transaction) -> bool:
        """Return whether the operation can begin; if not, record why, or end it."""
        assert tx.operation is not None
        return self._lets_pass(tx, self.ask(tx, before(tx.operation.kind)))

    def may_end(self, tx: Transaction, desired: Desired | None = None) -> bool:
        """Return whether the operation, whose work is done, can end; as ``may_begin``.

        :param desired: None if the nodes, and which of them are control nodes, are unknown.
        """
        assert tx.operation is not None
        standing = Standing.PASSED
        if desired is not None:
            standing = self.control_plane(tx, tx.operation, desired)
        if standing is not Standing.OPEN:
            standing = self.ask(tx, after(tx.operation.kind))
        return self._lets_pass(tx, standing)

    def _lets_pass(self, tx: Transaction, standing: Standing) -> bool:
        if standing is Standing.FAILED:
            tx.end(OperationState.FAILED, self.holding)
        elif standing is Standing.OPEN:
            tx.say(self.holding)
        return standing is Standing.PASSED

    def control_plane(self, tx: Transaction, operation: Operation, desired: Desired) -> Standing:
        """Call the hooks of the first ready control node; nothing else waits for them."""
        point = Point.POST_CONTROL_PLANE
        if operation.kind is not OperationKind.CREATE or point not in self._points:
            return Standing.PASSED
        ready = any(
            node.state is NodeState.READY and desired.has_control(node.group)
            for node in self._nodes.nodes()
        )
        return self.ask(tx, point) if ready else Standing.PASSED

    def gate(self, tx: Transaction, member: Member, act: ActionKind) -> Standing:
        """Return whether an action for a node can begin; FAILED if the node failed for it."""
        for point in _GATES.get(act, ()):
            # A build that was sent is past the point, and a node that is kept comes back.
            past = member.node.state is not NodeState.PLANNED
            if past if act is ActionKind.BUILD else not member.node.doomed:
                continue
            standing = self.ask(tx, point, member.node)
            if standing is Standing.PASSED:
                continue
            cause = self.cause(point, member.node.id)
            if standing is Standing.FAILED and act is ActionKind.BUILD:
                self._nodes.change(tx, member, state=NodeState.FAILED, cause=cause)
                return standing
            if member.node.cause != cause:
                self._nodes.change(tx, member, cause=cause)
            # A node that a hook holds stays until someone skips the hook.
            return Standing.OPEN
        return Standing.PASSED

    def cause(self, point: Point | None, node_id: str | None = None) -> Cause | None:
        """Return why a point is not passed."""
        run = self._runs.get((point, node_id)) if point else None
        return run.cause if run else None

    @property
    def holding(self) -> Cause | None:
        """Why the operation itself, and not a node, waits or failed; None if it does not."""
        held = (run.cause for (point, node_id), run in self._runs.items()
                if node_id is None and point is not Point.POST_CONTROL_PLANE)  # fmt: skip
        return next(held, None) or self.cause(Point.POST_CONTROL_PLANE)

    # ---- news ------------------------------------------------------------------------

    def learn(self, news: ActionResult, tx: Transaction) -> None:
        """Take in an answer; the node that waited for it is due."""
        key = self._out.pop(news.invocation, None)
        run = self._runs.get(key) if key else None
        if key is None or run is None:
            return
        member = self._nodes.get(key[1]) if key[1] else None
        advance = run.learn(news.invocation, news.value, tx.now)
        self._write(tx, key, advance, member.node if member else None)
        self._hurry(key[1])

    def ready(self, news: ActionResult, tx: Transaction, member: Member) -> ActionResult:
        """Return the result of a ready node as not ready, while hooks hold it up.

        The node is polled again then, so the final result is always the current one.
        """
        is_ready = news.act is ActionKind.ASK_READY and news.error is None
        if not is_ready or news.value.state is not ReadyState.READY:
            return news
        standing = self.ask(tx, Point.POST_NODE_READY, member.node)
        if standing is Standing.PASSED:
            return news
        cause = self.cause(Point.POST_NODE_READY, member.node.id)
        reason = cause.message if cause else 'The next operation calls its hooks.'
        failed = standing is Standing.FAILED
        value = Readiness.failed(reason) if failed else Readiness.not_yet(reason)
        return dataclasses.replace(news, value=value)

    # ---- how it is done ----------------------------------------------------------------

    def _write(self, tx: Transaction, key: _Key, advance: Advance, node: Node | None) -> None:
        for step in advance.steps.values():
            tx.journal(step)
        for notice in advance.notices:
            tx.tell(notice.kind, notice.message, node, facts=notice.facts)
        for call in advance.calls:
            assert tx.operation is not None
            self._out[call.invocation] = key
            tx.launches.append(functools.partial(self._launch, call, tx.operation, node))

    def _launch(self, call: Call, operation: Operation, node: Node | None) -> None:
        cluster = self._cluster
        assert cluster is not None
        if call.hook.name == DRIVER:
            call = self._bound(call, cluster, operation)

        def tell(answer: Answer) -> None:
            node_id = node.id if node else None
            self._tell(ActionResult(cluster.id, node_id, value=answer, invocation=call.invocation))

        occasion = Occasion(site=self._parts.site, cluster=cluster, operation=operation, node=node)
        self._parts.hooks.begin(call, occasion.document(), tell)

    def _bound(self, call: Call, cluster: Cluster, operation: Operation) -> Call:
        """Return the call of a driver's method with its current arguments."""
        method = getattr(self._driver, _METHODS[call.hook.point])
        context = self._context(self._nodes.nodes())

        def function(_: object) -> Answer | None:
            try:
                method(context=context, cluster=cluster, operation=operation)
            except ClusterDriverError as exc:
                return Answer.later(str(exc)) if exc.retryable else Answer.failed(str(exc))
            return None

        hook = dataclasses.replace(call.hook, target=Plugin(function))
        return dataclasses.replace(call, hook=hook)

    def _wake(self, tx: Transaction, key: _Key, at: float) -> None:
        if math.isfinite(at) and self._woken.get(key) != at:
            self._woken[key] = at
            self._nodes.wake_at(tx.moment + max(0.0, at - tx.now), key[1] or '')

    def _hurry(self, node_id: str | None) -> None:
        member = self._nodes.get(node_id) if node_id else None
        if member is not None:
            member.not_before = 0.0
            self._nodes.touch(member.node.id)
