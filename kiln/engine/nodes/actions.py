"""Node actions of one cluster: the table of all kinds, and what each failure makes of a node."""

from __future__ import annotations

import dataclasses

from kiln.clusters.models import Node, NodeState
from kiln.engine.nodes.action import Due, NodeAction, Tools, forget
from kiln.engine.nodes.build import Build, Find
from kiln.engine.nodes.delete import Delete
from kiln.engine.nodes.drain import Drain, Relieve
from kiln.engine.nodes.look import Look
from kiln.engine.nodes.node_table import Member
from kiln.engine.nodes.ready import AskReady
from kiln.engine.nodes.reset import Reboot, Rebuild
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.nodes.watch import Watch
from kiln.engine.plan import lifecycle
from kiln.engine.plan.desired import Desired
from kiln.engine.plan.lifecycle import ActionKind
from kiln.engine.results import ActionResult
from kiln.exceptions import BuildDiffers, InstanceNotFoundError, InsufficientCapacity

_KINDS: tuple[type[NodeAction], ...] = (
    Build, Find, Watch, AskReady, Drain, Relieve, Reboot, Rebuild, Delete, Look,
)  # fmt: skip


class NodeActions:
    """Begins actions, and applies their results. Nothing here waits."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._nodes = tools.table
        self._actions = {kind.act: kind(tools) for kind in _KINDS}

    def begin(self, act: ActionKind, due: Due) -> None:
        """Begin an action; its result is reported, also where it cannot even begin."""
        try:
            self._actions[act].begin(due)
        # Whatever goes wrong concerns the node, and must not end the round.
        except Exception as exc:
            self._tools.tell(ActionResult(due.node.cluster_id, due.node.id, act, error=exc))

    def result(
        self, news: ActionResult, tx: Transaction, member: Member, desired: Desired
    ) -> bool:
        """Apply one result; return True if the cluster is to be planned again."""
        self._nodes.ended(member)
        if isinstance(news.error, BuildDiffers) and news.error.amphora_id is not None:
            # The key is this attempt's own, so the machine is this node's: it was requested
            # before the spec changed. What it was made with is in the node's row, and an
            # operation that renews nodes replaces it.
            news = dataclasses.replace(news, value=news.error.amphora_id, error=None)
        if news.error is None:
            member.tries, member.not_before = 0, 0.0
            return self._actions[news.act].result(news.value, tx, member, desired)
        missing = isinstance(news.error, InstanceNotFoundError)
        if missing and news.act not in lifecycle.EXPECTING:
            return forget(self._nodes, tx, member)
        if news.act is ActionKind.BUILD and isinstance(news.error, InsufficientCapacity):
            return self._full(news.error, tx, member, desired)
        return self._failed(news.act, news.error, tx, member)

    def console(self, node: Node) -> str:
        """Return what a node wrote on its console; blocks.

        :raises AmphoraComputeError: it cannot be read.
        """
        assert node.compute_id is not None
        return self._tools.backends.get(node.backend).console_log(node.compute_id).result()

    def _failed(
        self, act: ActionKind, error: BaseException, tx: Transaction, member: Member
    ) -> bool:
        member.tries += 1
        node = member.node
        verdict = lifecycle.after_failure(act, node, error, member.tries)
        given_up = verdict.again_s is None
        if given_up and act in lifecycle.CHANGING:
            tx.settle(act, node, verdict.cause)
        if member.tries == 1 or given_up:
            tx.tell(f'{act.value}-failed', f'{node.name}: {error}', node)
        self._nodes.change(tx, member, state=verdict.state, cause=verdict.cause)
        if verdict.again_s is not None:
            member.not_before = tx.moment + verdict.again_s
        return verdict.state is NodeState.FAILED

    def _full(
        self, error: InsufficientCapacity, tx: Transaction, member: Member, desired: Desired
    ) -> bool:
        """Try the next place at once; after the last one wait, and begin with the first."""
        at_once = desired.has_other_places(member.node)
        self._failed(ActionKind.BUILD, error, tx, member)
        if at_once:
            member.not_before = 0.0
        self._nodes.change(tx, member, attempt=member.node.attempt + 1)
        return False
