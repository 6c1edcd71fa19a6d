"""The hooks of an operation: called by rounds, answered through results.

A round checks whether a point is passed. The hook calls that this needs are written in
the round's commit and made after it; each answer is a result for a later round.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import (
    Cause,
    Node,
    NodeState,
    Operation,
    OperationKind,
    OperationState,
    Step,
)
from kiln.engine.nodes.cluster_state import ClusterState
from kiln.engine.nodes.node_table import Member
from kiln.engine.plan.diff import is_control
from kiln.engine.plan.lifecycle import ActionKind
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

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._tx, self._nodes = state.tx, state.nodes
        self._operation_id: str | None = None
        self._retried_at = -math.inf
        self._hooks: Sequence[Hook] = ()
        self._points: frozenset[Point] = frozenset()
        self._journal: dict[str, Step] = {}
        self._skips: list[Skip] = []
        self._last_seen = 0
        self._runs: dict[_Key, HookRun] = {}
        self._passed: set[_Key] = set()
        # By run, the time at which it is due, and the monotonic time of the round for it.
        self._woken: dict[_Key, tuple[float, float]] = {}
        # Calls that are under way, and the run each belongs to.
        self._out: dict[str, _Key] = {}

    # ---- what others have written ------------------------------------------------

    def reload(self) -> None:
        """Read the hooks of the operation under way, and which of them people chose to skip."""
        operation = self._tx.operation
        if operation is None:
            return
        if (operation.id, operation.retried_at) != (self._operation_id, self._retried_at):
            self._load(operation)
        if self._runs and self._read_skips():
            for _, node_id in self._runs:
                self._hurry(node_id)

    def _load(self, operation: Operation) -> None:
        parts = self._state.parts
        self._operation_id, self._retried_at = operation.id, operation.retried_at
        self._hooks = (*parts.hooks.of(self._tx.cluster, operation.kind), *self._methods())
        self._points = frozenset(hook.point for hook in self._hooks)
        for known in (self._runs, self._passed, self._woken, self._out, self._journal):
            known.clear()
        self._skips.clear()
        self._last_seen = 0
        if self._hooks:
            steps = parts.store.journal.of(operation.id)
            self._journal |= {step.id: step for step in steps if step.kind == STEP_KIND}
            self._read_skips()

    def _methods(self) -> Sequence[Hook]:
        driver = self._state.driver
        return [
            Hook(
                name=DRIVER,
                point=point,
                target=Plugin(getattr(driver, name)),
                order=_INNERMOST,
                timeout_s=_DRIVER_S,
                deadline_s=_DRIVER_S,
                origin=f'driver {driver.name}',
            )
            for point, name in _METHODS.items()
            if getattr(type(driver), name) is not getattr(ClusterDriver, name)
        ]

    def _read_skips(self) -> bool:
        events = self._state.parts.store.events.after(
            self._last_seen, cluster_id=self._tx.cluster.id, kind=SKIP_EVENT
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

    def check(self, point: Point | None, node: Node | None = None) -> Standing:
        """Return whether a point is passed; start the hook calls that it needs."""
        if point is None or point not in self._points:
            return Standing.PASSED
        key = (point, node.id if node else None)
        if key in self._passed:
            return Standing.PASSED
        operation = self._tx.operation
        if operation is None or operation.id != self._operation_id:
            return Standing.OPEN
        run = self._runs.get(key)
        if run is None:
            self._runs[key] = run = HookRun(
                point, self._hooks, operation, node_id=key[1], journal=self._journal
            )
        self._write(key, run.advance(self._tx.now, self._skips), node)
        if run.standing is Standing.PASSED:
            del self._runs[key]
            self._passed.add(key)
        else:
            self._wake(key, run.wake_at)
        return run.standing

    def may_begin(self, operation: Operation) -> bool:
        """Return whether the operation can begin; if not, record why, or end it."""
        return self._lets_pass(self.check(before(operation.kind)))

    def may_end(self) -> bool:
        """Return whether the operation, whose work is done, can end; as ``may_begin``."""
        standing = self.control_plane()
        if standing is not Standing.OPEN:
            standing = self.check(after(self._tx.under_way.kind))
        return self._lets_pass(standing)

    def _lets_pass(self, standing: Standing) -> bool:
        if standing is Standing.FAILED:
            self._tx.end(OperationState.FAILED, self.holding)
        elif standing is Standing.OPEN:
            self._tx.wait_for(self.holding)
        return standing is Standing.PASSED

    def control_plane(self) -> Standing:
        """Call the hooks of the first ready control node; nothing else waits for them."""
        point = Point.POST_CONTROL_PLANE
        if point not in self._points or self._tx.under_way.kind is not OperationKind.CREATE:
            return Standing.PASSED
        ready = any(
            node.state is NodeState.READY and is_control(self._tx.cluster.spec, node.group)
            for node in self._nodes.nodes()
        )
        return self.check(point) if ready else Standing.PASSED

    def may_act(self, member: Member, kind: ActionKind) -> bool:
        """Return whether an action for a node can begin; if not, record why in the node."""
        for point in _GATES.get(kind, ()):
            # A build that was sent is past the point, and a node that is kept comes back.
            past = member.node.state is not NodeState.PLANNED
            if past if kind is ActionKind.BUILD else not member.node.doomed:
                continue
            standing = self.check(point, member.node)
            if standing is Standing.PASSED:
                continue
            cause = self.cause(point, member.node.id)
            if standing is Standing.FAILED and kind is ActionKind.BUILD:
                self._nodes.change(member, state=NodeState.FAILED, cause=cause)
                self._nodes.replan = True
            # A node that a hook holds stays until someone skips the hook.
            elif member.node.cause != cause:
                self._nodes.change(member, cause=cause)
            return False
        return True

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

    # ---- calls and answers -----------------------------------------------------------

    def _write(self, key: _Key, advance: Advance, node: Node | None) -> None:
        for step in advance.steps.values():
            self._tx.journal(step)
        for notice in advance.notices:
            self._tx.event(notice.kind, notice.message, node, facts=notice.facts)
        for call in advance.calls:
            self._out[call.invocation] = key
            launch = functools.partial(self._launch, call, self._tx.under_way, node)
            self._tx.launches.append(launch)

    def _launch(self, call: Call, operation: Operation, node: Node | None) -> None:
        state = self._state
        if call.hook.name == DRIVER:
            call = self._bound(call, operation)

        def answered(answer: Answer) -> None:
            state.call_soon(functools.partial(self._take, call.invocation, answer))

        occasion = Occasion(
            site=state.parts.site, cluster=self._tx.cluster, operation=operation, node=node
        )
        state.parts.hooks.begin(self._tx.cluster.id, call, occasion.document(), answered)

    def _take(self, invocation: str, answer: Answer) -> None:
        """Apply an answer; the node that waited for it is due."""
        key = self._out.pop(invocation, None)
        run = self._runs.get(key) if key else None
        if key is None or run is None:
            return
        member = self._nodes.get(key[1]) if key[1] else None
        advance = run.learn(invocation, answer, self._tx.now)
        self._write(key, advance, member.node if member else None)
        self._hurry(key[1])

    def _bound(self, call: Call, operation: Operation) -> Call:
        """Return the call of a driver's method with its current arguments."""
        driver, name = self._state.driver, _METHODS[call.hook.point]
        method = functools.partial(
            getattr(driver, name),
            context=self._state.context(),
            cluster=self._tx.cluster,
            operation=operation,
        )

        def function(_: object) -> Answer | None:
            try:
                call_driver(driver.name, name, method)
            except ClusterDriverError as exc:
                return Answer.later(str(exc)) if exc.retryable else Answer.failed(str(exc))
            return None

        hook = dataclasses.replace(call.hook, target=Plugin(function))
        return dataclasses.replace(call, hook=hook)

    def _wake(self, key: _Key, at: float) -> None:
        if not math.isfinite(at):
            return
        known_at, round_at = self._woken.get(key, (math.nan, -math.inf))
        # A round that came too early, because the clock was set back, is followed by another.
        if known_at != at or round_at < self._tx.monotonic:
            round_at = self._tx.monotonic + max(0.0, at - self._tx.now)
            self._woken[key] = at, round_at
            self._nodes.wake_at(round_at, key[1] or '')

    def _hurry(self, node_id: str | None) -> None:
        member = self._nodes.get(node_id) if node_id else None
        if member is not None:
            member.not_before = 0.0
            self._nodes.touch(member.node.id)
