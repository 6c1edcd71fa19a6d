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
from kiln.engine.cluster.delete import Burial
from kiln.engine.cluster.hook_gate import Hooking
from kiln.engine.cluster.reasons import why_late, why_undone, why_waiting
from kiln.engine.cluster.resets import Resets
from kiln.engine.cluster.worker import Work
from kiln.engine.context import Parts
from kiln.engine.health.check_operation import Check
from kiln.engine.health.machine_state import Survey, watched
from kiln.engine.nodes.action import Due, Tools, forget, has_other_place
from kiln.engine.nodes.actions import NodeActions
from kiln.engine.nodes.build_gate import BuildGate
from kiln.engine.nodes.join_key import JoinKey
from kiln.engine.nodes.node_table import Member, Roster
from kiln.engine.nodes.transaction import ROLLBACK, Entry
from kiln.engine.plan import lifecycle
from kiln.engine.plan.conditions import outdated
from kiln.engine.plan.desired import Wishes
from kiln.engine.plan.lifecycle import Act
from kiln.engine.plan.reset_rounds import RESETS
from kiln.engine.results import News
from kiln.hooks.run import Standing

#: The operations that can lead back to what there was before.
_UNDOING = frozenset({OperationKind.UPDATE, OperationKind.RESIZE, OperationKind.UPGRADE})


class ClusterWork(Work):
    """Brings one cluster to what is wanted of it."""

    def __init__(
        self,
        parts: Parts,
        lease: Lease,
        driver: NodeClusterDriver,
        tell: Callable[[News], None],
    ) -> None:
        nodes = parts.store.nodes.of(lease.scope)
        super().__init__(parts, lease, Roster(nodes), tell)
        self._backends = {node.backend for node in nodes}
        self._burial = Burial(lease.scope, parts.backends, self._roster, tell)
        self._driver = driver
        self._join_key = JoinKey(parts.store, lease)
        self._actions = NodeActions(
            Tools(
                backends=parts.backends,
                driver=driver,
                roster=self._roster,
                run=parts.run,
                tell=tell,
                settle_s=parts.settings.settle_s,
            )
        )
        self._hooking = Hooking(parts, self._driver, self._roster, self._context, tell)
        self._wishes = self._wishes_now()
        self._resets: Resets | None = None
        self._check = Check(lease.scope, Survey(parts.backends), parts.run, tell)
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
        under_way = self._roster.busy or self._burial.busy or self._check.busy
        return under_way or (self._adoption is not None and self._adoption.busy)

    def reload(self) -> None:
        """See what others have written: what is asked for, what is wanted, who is to go."""
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
                member = self._roster.get(node.id)
                if member is not None and member.node.doomed != node.doomed:
                    self._roster.correct(member, doomed=node.doomed)
            self._roster.touch_all()
            self._replan = True
        # Time alone makes nodes too late, and sick ones to be given up.
        self._replan = self._replan or not self._roster.at_rest
        self._cluster = cluster
        self._wishes = self._wishes_now()
        if _id(fresh) != _id(self._operation):
            self._take_up(fresh)
        self._operation = fresh
        self._hooking.reload(fresh, cluster)

    def _take_up(self, operation: Operation | None) -> None:
        """See in the journal how far an operation is of which that must be known."""
        self._resets = self._undone = self._adoption = None
        self._burial.take_up(operation)
        if operation is not None and operation.kind is OperationKind.ADOPT:
            parts = self._parts
            self._adoption = Adoption(operation, parts.backends, parts.naming, self._tell)
        if operation is None or operation.kind not in RESETS.keys() | _UNDOING:
            return
        steps = self._parts.store.journal.of(operation.id)
        if operation.kind in RESETS:
            self._resets = Resets(operation, steps, self._roster)
        self._undone = next((step.cause for step in steps if step.kind == ROLLBACK), None)

    # ---- the operation -----------------------------------------------------------

    def _miss(self, entry: Entry, operation: Operation) -> None:
        if self._burial.could_end():
            self._bury(entry)
            return
        late = len(list(self._roster.restless()))
        cause = why_late(
            operation, self._cluster.name,
            f'{late} of {len(self._roster)} nodes are not what they are to be',
            because=why_waiting(self._roster, self._holds), undone=self._undone,
        )  # fmt: skip
        if self._undone is None and operation.kind in _UNDOING and operation.args.get('rollback'):
            self._turn_back(entry, operation, cause)
        else:
            entry.end(OperationState.FAILED, cause)

    def _turn_back(self, entry: Entry, operation: Operation, cause: Cause) -> None:
        """Lead back to what the last operation that succeeded has left, if there was one."""
        former = self._cluster.former
        if former is None:
            entry.end(OperationState.FAILED, cause)
            return
        entry.tell('operation-rollback', f'{operation.kind.value} leads back: {cause.message}')
        # The way back may take as long as the way there.
        deadline_at = entry.now + operation.deadline_at - operation.created_at
        entry.turn_back(former, self._cluster.generation, deadline_at, cause)

    def _has_begun(self, entry: Entry) -> bool:
        """Begin the operation if it has not; return whether it may go on from there."""
        operation = entry.operation
        assert operation is not None
        if operation.state is OperationState.QUEUED:
            entry.begin()
            if self._resets is not None and (
                cause := self._resets.why_not(self._driver, self._parts.backends)
            ):
                entry.end(OperationState.FAILED, cause)
                return False
        return self._hooking.may_begin(entry)

    def _go_on(self, entry: Entry, due: list[Member]) -> None:
        if not self._has_begun(entry):
            for member in due:
                self._roster.touch(member.node.id)
            return
        operation = entry.operation
        assert operation is not None
        seen = self._look(entry, operation)
        if operation.kind is OperationKind.CHECK:
            if seen:
                self._report(entry)
            return
        if self._adoption is not None and not self._adoption.is_done(self._roster):
            known = self._parts.store.receipts.known
            cause = self._adoption.go_on(entry, self._roster, self._cluster, self._wishes, known)
            if cause is not None:
                entry.end(OperationState.FAILED, cause)
            return
        if self._resets is not None:
            self._resets.go_on(entry, self._cluster)
            self._holds = self._resets.holds
            due += self._roster.take_due(entry.moment)
        elif self._replan:
            self._plan(entry, operation)
            due += self._roster.take_due(entry.moment)
        for member in due:
            self._begin(member, entry)
        self._judge(entry, operation)

    def _look(self, entry: Entry, operation: Operation) -> bool:
        """Take in the last look at machines, and begin one when it is time for it.

        The worker that holds the lease reads the machines itself: no other process can write
        their nodes.
        Return whether something was seen.
        """
        if self._check.apply(entry, self._roster):
            self._replan = True
            return True
        first = operation.kind is OperationKind.CHECK
        if first or entry.moment >= self._look_at:
            self._look_at = entry.moment + self._parts.settings.watch_s
            nodes = watched(self._roster.nodes())
            if nodes or first:
                self._check.look(entry, nodes)
        return False

    def _report(self, entry: Entry) -> None:
        """Tell what a check has found."""
        groups = {node.group for node in self._roster.nodes()}
        old = outdated(
            self._roster.nodes(), {group: self._wishes.made_with(group) for group in groups}
        )
        entry.tell(
            'drift',
            f'{len(old)} of {len(self._roster)} nodes are made with an older spec',
            facts={'nodes': [node.id for node in old], 'of': len(self._roster)},
        )
        cause = self._check.cause
        entry.end(OperationState.FAILED if cause else OperationState.SUCCEEDED, cause)

    def _plan(self, entry: Entry, operation: Operation) -> None:
        """Say which nodes are to be made and which are to go, as far as may be now."""
        deleted = operation.kind is OperationKind.DELETE
        # Nodes that are removed need no zone, nor a backend that reports one.
        if not deleted and (unknown := self._wishes.unknown_zones()):
            self._holds = (f'the zones for {", ".join(unknown)} are not known yet',)
            return
        roster = self._roster
        found = self._wishes.next(
            operation, roster.nodes(), entry.now, renew=self._undone is not None,
            setbacks=roster.setbacks,
        )  # fmt: skip
        for group, turn in found.turns:
            for add in turn.adds:
                self._add(entry, group, add.place)
            for remove in turn.removes:
                member = self._roster.get(remove.node.id)
                if member is not None:
                    self._doom(entry, member, remove.reason)
        self._holds, self._replan = found.holds, found.more
        self._hooking.control_plane(entry, operation, self._wishes)

    def _add(self, entry: Entry, group: str, place: Place) -> None:
        naming = self._parts.naming
        backend = self._parts.backends.get(self._wishes.machine(group).compute_driver).name
        node = Node(
            id=naming.new_id(),
            cluster_id=self._cluster.id,
            group=group,
            name=naming.new_name(self._cluster.name, group, self._roster.names),
            place=place,
            backend=backend,
            made_with=self._wishes.made_with(group),
            created_at=self._roster.birth(entry.now),
            since=entry.now,
        )
        self._backends.add(backend)
        self._roster.add(entry, node)

    def _doom(self, entry: Entry, member: Member, reason: str) -> None:
        member.tries, member.not_before = 0, 0.0
        self._roster.change(entry, member, doomed=reason)
        self._roster.touch(member.node.id)
        entry.tell('node-doomed', f'{member.node.name} is to go: {reason}', member.node)

    def _judge(self, entry: Entry, operation: Operation) -> None:
        """End the operation if all is as wanted; else say why it waits, if it does."""
        if self._resets is not None:
            self._judge_resets(self._resets, entry)
        elif operation.kind is OperationKind.DELETE:
            self._judge_deletion(entry)
        elif not self._roster.at_rest or self._replan:
            self._say_why(entry)
        elif self._hooking.may_end(entry, self._wishes):
            self._arrive(entry, operation)

    def _judge_deletion(self, entry: Entry) -> None:
        if self._replan or not self._burial.is_due():
            self._say_why(entry)
        elif not self._burial.proven:
            if self._burial.may_look(entry.moment):
                self._burial.look(entry, self._backends)
        elif self._hooking.may_end(entry, self._wishes):
            self._bury(entry)

    def _bury(self, entry: Entry) -> None:
        entry.end(OperationState.SUCCEEDED)
        driven = not isinstance(self._driver, AbsentDriver)
        self._burial.bury(entry, self._cluster, driven=driven)

    def _arrive(self, entry: Entry, operation: Operation) -> None:
        if self._undone is None:
            entry.end(OperationState.SUCCEEDED)
        else:
            cause = why_undone(operation, self._cluster.name, self._undone)
            entry.end(OperationState.ROLLED_BACK, cause)
        cluster = self._cluster
        if cluster.former != cluster.aim or cluster.trouble:
            # What is still wrong is found again by the next look.
            entry.cluster = dataclasses.replace(
                cluster, former=cluster.aim, trouble=None, updated_at=entry.now
            )

    def _judge_resets(self, resets: Resets, entry: Entry) -> None:
        over, cause = resets.verdict()
        if not over or self._roster.busy:
            self._say_why(entry)
        elif cause:
            entry.end(OperationState.FAILED, cause)
        elif self._hooking.may_end(entry, self._wishes):
            entry.end(OperationState.SUCCEEDED)

    def _say_why(self, entry: Entry) -> None:
        entry.say(None if self._roster.busy else why_waiting(self._roster, self._holds))

    # ---- one node ------------------------------------------------------------------

    def _learn(self, news: Iterable[News], entry: Entry) -> None:
        for one in news:
            self._learn_one(one, entry)
        if self._resets is not None:
            self._resets.learn(entry.steps)

    def _learn_one(self, news: News, entry: Entry) -> None:
        if news.invocation:
            self._hooking.learn(news, entry)
            return
        if news.node_id is None:
            self._learn_of_all(news, entry)
            return
        if news.act is Act.BUILD:
            waiting = self._gate.leave(news.node_id)
            if waiting is not None:
                self._roster.touch(waiting)
        member = self._roster.get(news.node_id)
        if member is None:
            return
        news = self._hooking.ready(news, entry, member)
        if self._actions.result(news, entry, member, self._wishes):
            self._replan = True

    def _learn_of_all(self, news: News, entry: Entry) -> None:
        if news.act is Act.LOOK:
            self._check.learn(news)
        elif news.act is Act.ADOPT:
            if self._adoption is not None:
                self._adoption.learn(news)
        elif self._burial.learn(news, entry, settle_s=self._parts.settings.settle_s):
            self._roster.wake_at(entry.moment + self._parts.settings.settle_s)

    def _begin(self, member: Member, entry: Entry) -> None:
        """Intend what is next for a node, and have it begun after the commit."""
        if member.busy or self._burial.gives_up(member):
            return
        elsewhere = has_other_place(member, self._wishes)
        reset = self._resets.act(member) if self._resets is not None else None
        act = lifecycle.next_act(
            member.node, elsewhere=elsewhere, reset=reset, forced=self._burial.forced
        )
        if act is Act.REST:
            return
        if member.not_before > entry.moment:
            self._roster.wait(member)
            return
        if act is Act.FORGET:
            forget(self._roster, entry, member)
            self._replan = True
            return
        if (standing := self._hooking.gate(entry, member, act)) is not Standing.PASSED:
            self._replan = self._replan or standing is Standing.FAILED
            return
        if act is Act.BUILD and not self._gate.enter(member.node.id):
            return
        if (state := lifecycle.DURING.get(act)) is not None:
            self._roster.change(entry, member, state=state)
        if act in lifecycle.CHANGING:
            entry.intend(act, member.node)
        self._roster.began(member)
        entry.launches.append(functools.partial(self._launch, act, member.node))

    def _launch(self, act: Act, node: Node) -> None:
        machine = self._wishes.machine(node.group)
        place = self._wishes.place(node)
        hard = self._operation is not None and bool(self._operation.args.get('hard'))
        patience_s = self._wishes.startup_timeout_s(node.group)
        context = self._context(self._roster.nodes())
        due = Due(context, self._cluster, node, machine, place, hard, patience_s)
        self._actions.begin(act, due)

    def _wishes_now(self) -> Wishes:
        zones, templates = self._parts.backends.zones, self._driver.changed_templates
        return Wishes(
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
