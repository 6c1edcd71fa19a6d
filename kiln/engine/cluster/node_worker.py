"""The work on one cluster whose nodes kiln builds: what is next for each of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

from kiln.cluster_drivers.base import NodeClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.clusters.models import Cause, Lease, Node, Operation, OperationKind, OperationState
from kiln.clusters.spec import Place
from kiln.engine.cluster.absent_driver import AbsentDriver
from kiln.engine.cluster.adopt import Adoption
from kiln.engine.cluster.delete import Deletion
from kiln.engine.cluster.hook_gate import HookGate
from kiln.engine.cluster.reasons import why_late, why_undone, why_waiting
from kiln.engine.cluster.resets import Resets
from kiln.engine.cluster.worker import Worker
from kiln.engine.context import Parts
from kiln.engine.health.check_operation import Check
from kiln.engine.health.machine_state import MachinePoller, watched
from kiln.engine.nodes.action import Due, Tools, forget, has_other_place
from kiln.engine.nodes.actions import NodeActions
from kiln.engine.nodes.build_gate import BuildGate
from kiln.engine.nodes.join_key import JoinKey
from kiln.engine.nodes.node_table import Member, NodeTable
from kiln.engine.nodes.transaction import ROLLBACK, Transaction
from kiln.engine.plan import lifecycle
from kiln.engine.plan.conditions import outdated
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.plan.reset_rounds import RESETS
from kiln.engine.results import ActionResult
from kiln.hooks.run import Standing

#: The operations that can lead back to what there was before.
_UNDOING = frozenset({OperationKind.UPDATE, OperationKind.RESIZE, OperationKind.UPGRADE})


class NodeWorker(Worker):
    """Brings one cluster to what is wanted of it."""

    def __init__(
        self,
        parts: Parts,
        lease: Lease,
        driver: NodeClusterDriver,
        tell: Callable[[ActionResult], None],
    ) -> None:
        nodes = parts.store.nodes.of(lease.scope)
        super().__init__(parts, lease, NodeTable(nodes), tell)
        self._backends = {node.backend for node in nodes}
        self._deletion = Deletion(lease.scope, parts.backends, self._nodes, tell)
        self._driver = driver
        self._join_key = JoinKey(parts.store, lease)
        self._actions = NodeActions(
            Tools(
                backends=parts.backends,
                driver=driver,
                table=self._nodes,
                run=parts.run,
                tell=tell,
                settle_s=parts.settings.settle_s,
            )
        )
        self._hooking = HookGate(parts, self._driver, self._nodes, self._context, tell)
        self._desired = self._desired_now()
        self._resets: Resets | None = None
        self._check = Check(lease.scope, MachinePoller(parts.backends), parts.run, tell)
        self._look_at = 0.0
        self._adoption: Adoption | None = None
        #: Why the operation leads back to what there was before, if it does.
        self._undone: Cause | None = None
        self._replan = True
        self._holds: tuple[str, ...] = ()
        self._gate = BuildGate(parts.settings.max_building)
        self.reload()

    @property
    def _under_way(self) -> bool:
        under_way = self._nodes.busy or self._deletion.busy or self._check.busy
        return under_way or (self._adoption is not None and self._adoption.busy)

    def reload(self) -> None:
        """Read what others have written: the operation, the desired state, nodes to remove."""
        store, scope = self._parts.store, self.lease.scope
        found = store.operations.open(scope)
        cluster = store.clusters.get(scope)
        resumed = self._cluster.paused and not cluster.paused
        if resumed:
            # Its deadline was put off when it was resumed, which may be just now.
            found = store.operations.open(scope)
        fresh = found[0] if found else None
        if (
            resumed
            or cluster.generation != self._cluster.generation
            or _id(fresh) != _id(self._operation)
        ):
            for node in store.nodes.of(scope):
                member = self._nodes.get(node.id)
                if member is not None and member.node.doomed != node.doomed:
                    self._nodes.correct(member, doomed=node.doomed)
            self._nodes.touch_all()
            self._replan = True
        # Time alone makes nodes too late, and sick ones to be given up.
        self._replan = self._replan or not self._nodes.at_rest
        self._cluster = cluster
        self._desired = self._desired_now()
        if _id(fresh) != _id(self._operation):
            self._take_up(fresh)
        self._operation = fresh
        self._hooking.reload(fresh, cluster)

    def _take_up(self, operation: Operation | None) -> None:
        """See in the journal how far an operation is of which that must be known."""
        self._resets = self._undone = self._adoption = None
        self._deletion.take_up(operation)
        if operation is not None and operation.kind is OperationKind.ADOPT:
            parts = self._parts
            self._adoption = Adoption(operation, parts.backends, parts.naming, self._tell)
        if operation is None or operation.kind not in RESETS.keys() | _UNDOING:
            return
        steps = self._parts.store.journal.of(operation.id)
        if operation.kind in RESETS:
            self._resets = Resets(operation, steps, self._nodes)
        self._undone = next((step.cause for step in steps if step.kind == ROLLBACK), None)

    # ---- the operation -----------------------------------------------------------

    def _miss(self, tx: Transaction, operation: Operation) -> None:
        if self._deletion.could_end():
            self._bury(tx)
            return
        late = len(list(self._nodes.restless()))
        cause = why_late(
            operation, self._cluster.name,
            f'{late} of {len(self._nodes)} nodes are not what they are to be',
            because=why_waiting(self._nodes, self._holds), undone=self._undone,
        )  # fmt: skip
        if self._undone is None and operation.kind in _UNDOING and operation.args.get('rollback'):
            self._turn_back(tx, operation, cause)
        else:
            tx.end(OperationState.FAILED, cause)

    def _turn_back(self, tx: Transaction, operation: Operation, cause: Cause) -> None:
        """Lead back to what the last operation that succeeded has left, if there was one."""
        former = self._cluster.former
        if former is None:
            tx.end(OperationState.FAILED, cause)
            return
        tx.tell('operation-rollback', f'{operation.kind.value} leads back: {cause.message}')
        # The way back may take as long as the way there.
        deadline_at = tx.now + operation.deadline_at - operation.created_at
        tx.turn_back(former, self._cluster.generation, deadline_at, cause)

    def _has_begun(self, tx: Transaction) -> bool:
        """Begin the operation if it has not; return whether it may go on from there."""
        operation = tx.operation
        assert operation is not None
        if operation.state is OperationState.QUEUED:
            tx.begin()
            if self._resets is not None and (
                cause := self._resets.why_not(self._driver, self._parts.backends)
            ):
                tx.end(OperationState.FAILED, cause)
                return False
        return self._hooking.may_begin(tx)

    def _go_on(self, tx: Transaction, due: list[Member]) -> None:
        if not self._has_begun(tx):
            for member in due:
                self._nodes.touch(member.node.id)
            return
        operation = tx.operation
        assert operation is not None
        seen = self._look(tx, operation)
        if operation.kind is OperationKind.CHECK:
            if seen:
                self._report(tx)
            return
        if self._adoption is not None and not self._adoption.is_done(self._nodes):
            known = self._parts.store.receipts.known
            cause = self._adoption.go_on(tx, self._nodes, self._cluster, self._desired, known)
            if cause is not None:
                tx.end(OperationState.FAILED, cause)
            return
        if self._resets is not None:
            self._resets.go_on(tx, self._cluster)
            self._holds = self._resets.holds
            due += self._nodes.take_due(tx.moment)
        elif self._replan:
            self._plan(tx, operation)
            due += self._nodes.take_due(tx.moment)
        for member in due:
            self._begin(member, tx)
        self._judge(tx, operation)

    def _look(self, tx: Transaction, operation: Operation) -> bool:
        """Take in the last look at machines, and begin one when it is time for it.

        The worker that holds the lease reads the machines itself: no other process can write
        their nodes.
        Return whether something was seen.
        """
        if self._check.apply(tx, self._nodes):
            self._replan = True
            return True
        first = operation.kind is OperationKind.CHECK
        if first or tx.moment >= self._look_at:
            self._look_at = tx.moment + self._parts.settings.watch_s
            nodes = watched(self._nodes.nodes())
            if nodes or first:
                self._check.look(tx, nodes)
        return False

    def _report(self, tx: Transaction) -> None:
        """Tell what a check has found."""
        groups = {node.group for node in self._nodes.nodes()}
        old = outdated(
            self._nodes.nodes(), {group: self._desired.made_with(group) for group in groups}
        )
        tx.tell(
            'drift',
            f'{len(old)} of {len(self._nodes)} nodes are made with an older spec',
            facts={'nodes': [node.id for node in old], 'of': len(self._nodes)},
        )
        cause = self._check.cause
        tx.end(OperationState.FAILED if cause else OperationState.SUCCEEDED, cause)

    def _plan(self, tx: Transaction, operation: Operation) -> None:
        """Say which nodes are to be made and which are to go, as far as may be now."""
        deleted = operation.kind is OperationKind.DELETE
        # Nodes that are removed need no zone, nor a backend that reports one.
        if not deleted and (unknown := self._desired.unknown_zones()):
            self._holds = (f'the zones for {", ".join(unknown)} are not known yet',)
            return
        table = self._nodes
        found = self._desired.next(
            operation, table.nodes(), tx.now, renew=self._undone is not None,
            setbacks=table.setbacks,
        )  # fmt: skip
        for group, turn in found.turns:
            for add in turn.adds:
                self._add(tx, group, add.place)
            for remove in turn.removes:
                member = self._nodes.get(remove.node.id)
                if member is not None:
                    self._doom(tx, member, remove.reason)
        self._holds, self._replan = found.holds, found.more
        self._hooking.control_plane(tx, operation, self._desired)

    def _add(self, tx: Transaction, group: str, place: Place) -> None:
        naming = self._parts.naming
        backend = self._parts.backends.get(self._desired.machine(group).compute_driver).name
        node = Node(
            id=naming.new_id(),
            cluster_id=self._cluster.id,
            group=group,
            name=naming.new_name(self._cluster.name, group, self._nodes.names),
            place=place,
            backend=backend,
            made_with=self._desired.made_with(group),
            created_at=self._nodes.birth(tx.now),
            since=tx.now,
        )
        self._backends.add(backend)
        self._nodes.add(tx, node)

    def _doom(self, tx: Transaction, member: Member, reason: str) -> None:
        member.tries, member.not_before = 0, 0.0
        self._nodes.change(tx, member, doomed=reason)
        self._nodes.touch(member.node.id)
        tx.tell('node-doomed', f'{member.node.name} is to go: {reason}', member.node)

    def _judge(self, tx: Transaction, operation: Operation) -> None:
        """End the operation if all is as wanted; else say why it waits, if it does."""
        if self._resets is not None:
            self._judge_resets(self._resets, tx)
        elif operation.kind is OperationKind.DELETE:
            self._judge_deletion(tx)
        elif not self._nodes.at_rest or self._replan:
            self._say_why(tx)
        elif self._hooking.may_end(tx, self._desired):
            self._arrive(tx, operation)

    def _judge_deletion(self, tx: Transaction) -> None:
        if self._replan or not self._deletion.is_due():
            self._say_why(tx)
        elif not self._deletion.proven:
            if self._deletion.may_look(tx.moment):
                self._deletion.look(tx, self._backends)
        elif self._hooking.may_end(tx, self._desired):
            self._bury(tx)

    def _bury(self, tx: Transaction) -> None:
        tx.end(OperationState.SUCCEEDED)
        driven = not isinstance(self._driver, AbsentDriver)
        self._deletion.bury(tx, self._cluster, driven=driven)

    def _arrive(self, tx: Transaction, operation: Operation) -> None:
        if self._undone is None:
            tx.end(OperationState.SUCCEEDED)
        else:
            cause = why_undone(operation, self._cluster.name, self._undone)
            tx.end(OperationState.ROLLED_BACK, cause)
        cluster = self._cluster
        if cluster.former != cluster.aim or cluster.trouble:
            # What is still wrong is found again by the next look.
            tx.cluster = dataclasses.replace(
                cluster, former=cluster.aim, trouble=None, updated_at=tx.now
            )

    def _judge_resets(self, resets: Resets, tx: Transaction) -> None:
        over, cause = resets.verdict()
        if not over or self._nodes.busy:
            self._say_why(tx)
        elif cause:
            tx.end(OperationState.FAILED, cause)
        elif self._hooking.may_end(tx, self._desired):
            tx.end(OperationState.SUCCEEDED)

    def _say_why(self, tx: Transaction) -> None:
        tx.say(None if self._nodes.busy else why_waiting(self._nodes, self._holds))

    # ---- one node ------------------------------------------------------------------

    def _learn(self, news: Iterable[ActionResult], tx: Transaction) -> None:
        for one in news:
            self._learn_one(one, tx)
        if self._resets is not None:
            self._resets.learn(tx.steps)

    def _learn_one(self, news: ActionResult, tx: Transaction) -> None:
        if news.invocation:
            self._hooking.learn(news, tx)
            return
        if news.node_id is None:
            self._learn_of_all(news, tx)
            return
        if news.act is ActionKind.BUILD:
            waiting = self._gate.leave(news.node_id)
            if waiting is not None:
                self._nodes.touch(waiting)
        member = self._nodes.get(news.node_id)
        if member is None:
            return
        news = self._hooking.ready(news, tx, member)
        if self._actions.result(news, tx, member, self._desired):
            self._replan = True

    def _learn_of_all(self, news: ActionResult, tx: Transaction) -> None:
        if news.act is ActionKind.LOOK:
            self._check.learn(news)
        elif news.act is ActionKind.ADOPT:
            if self._adoption is not None:
                self._adoption.learn(news)
        elif self._deletion.learn(news, tx, settle_s=self._parts.settings.settle_s):
            self._nodes.wake_at(tx.moment + self._parts.settings.settle_s)

    def _begin(self, member: Member, tx: Transaction) -> None:
        """Intend what is next for a node, and have it begun after the commit."""
        if member.busy or self._deletion.gives_up(member):
            return
        elsewhere = has_other_place(member, self._desired)
        reset = self._resets.act(member) if self._resets is not None else None
        act = lifecycle.next_action(
            member.node, elsewhere=elsewhere, reset=reset, forced=self._deletion.forced
        )
        if act is ActionKind.REST:
            return
        if member.not_before > tx.moment:
            self._nodes.wait(member)
            return
        if act is ActionKind.FORGET:
            forget(self._nodes, tx, member)
            self._replan = True
            return
        if (standing := self._hooking.gate(tx, member, act)) is not Standing.PASSED:
            self._replan = self._replan or standing is Standing.FAILED
            return
        if act is ActionKind.BUILD and not self._gate.enter(member.node.id):
            return
        if (state := lifecycle.DURING.get(act)) is not None:
            self._nodes.change(tx, member, state=state)
        if act in lifecycle.CHANGING:
            tx.intend(act, member.node)
        self._nodes.began(member)
        tx.launches.append(functools.partial(self._launch, act, member.node))

    def _launch(self, act: ActionKind, node: Node) -> None:
        machine = self._desired.machine(node.group)
        place = self._desired.place(node)
        hard = self._operation is not None and bool(self._operation.args.get('hard'))
        patience_s = self._desired.startup_timeout_s(node.group)
        context = self._context(self._nodes.nodes())
        due = Due(context, self._cluster, node, machine, place, hard, patience_s)
        self._actions.begin(act, due)

    def _desired_now(self) -> Desired:
        zones, templates = self._parts.backends.zones, self._driver.changed_templates
        return Desired(
            self._cluster, self._context(), zones, templates,
            control_first=self._driver.control_first,
        )  # fmt: skip

    def _context(self, nodes: tuple[Node, ...] = ()) -> Context:
        return Context(
            site=self._parts.site,
            defaults=self._parts.defaults,
            join_key=self._join_key,
            nodes=nodes,
            console=self._actions.console if nodes else _no_console,
        )


def _no_console(node: Node) -> str:
    raise AssertionError(f'nobody asks for the console of {node.name} here')


def _id(operation: Operation | None) -> str | None:
    return operation.id if operation else None
