"""Joining of nodes: each poll continues until the node is in the swarm."""

from __future__ import annotations

from kiln.cluster_drivers.values import READY, Readiness
from kiln.clusters.models import Node

from . import rules
from .engine import Engine
from .leaving import reap
from .line import Refused
from .values import NODE, EngineInfo, Membership, Peer, Role
from .view import NoManager, View

#: Parallel joins invalidate each other's tokens; a new token is available at once.
_TOKENS = 5


def ready(view: View, node: Node) -> Readiness:
    """Continue the join as far as possible now; return READY once a node is in the swarm.

    Repeatable at any time, also after a crash of any process: the next action follows from
    the state that the engines report.

    :raises Silent: an engine does not answer.
    :raises Refused: an engine refused, for example because another process was faster.
    """
    if not node.address:
        return Readiness.not_yet('it has no address')
    with view.engine(node) as engine:
        info = engine.info()
        if rules.joins_now(info, view.managers):
            if reason := _join(view, node, engine, info):
                return Readiness.not_yet(reason)
            info = engine.info()
        if not info.peer_id:
            why = f': {info.error}' if info.error else ''
            return Readiness.not_yet(f'its engine is {info.membership} in the swarm{why}')
        return _settle(view, node, engine, info)


def _join(view: View, node: Node, engine: Engine, info: EngineInfo) -> str:
    """Make a node join or found the swarm; return the reason if that must wait."""
    role = view.role(node)
    try:
        with view.manager(besides=node) as manager:
            if role is Role.MANAGER:
                # A dead manager counts for the quorum until it is removed from the swarm.
                reap(view, manager, manager.peers())
            if info.membership is not Membership.INACTIVE:
                engine.leave(force=True)
            _join_through(view.role(node), engine, manager)
            return ''
    except NoManager as exc:
        if role is Role.WORKER:
            return exc.reason
        seen = exc.seen
    if info.membership is not Membership.INACTIVE:
        return f'its engine could not join: {info.error or "its manager is gone"}'
    if reason := rules.why_not_found(view.cluster, node, view.managers, view.nodes, seen):
        return reason
    engine.found()
    return ''


def _join_through(role: Role, engine: Engine, manager: Engine) -> None:
    used = ''
    for left in reversed(range(_TOKENS)):
        token = manager.swarm().tokens[role]
        try:
            engine.join(manager, token)
        except Refused:
            # With a token that is still valid, the engine would refuse again.
            if not left or token == used or manager.swarm().tokens[role] == token:
                raise
            used = token
        else:
            return


def _settle(view: View, node: Node, engine: Engine, info: EngineInfo) -> Readiness:
    """Bring a joined node to its desired role and labels; return READY once it has them."""
    with view.manager() as manager:
        peers = manager.peers()
        mine = next((one for one in peers if one.id == info.peer_id), None)
        if mine is None and info.manages:
            return Readiness.failed('it manages another swarm than the other managers')
        if mine is None:
            # It was removed from the swarm. Both requests follow at once, so that no other process
            # finds the engine outside a swarm.
            engine.leave(force=True)
            _join_through(view.role(node), engine, manager)
            return Readiness.not_yet('it was no longer in the swarm, and has joined again')
        if mine.labels.get(NODE, node.id) != node.id:
            return Readiness.failed('its engine is labelled as another node of the swarm')
        if NODE not in mine.labels:
            _forget_token(manager, view.role(node))
        mine = _as_wanted(view, node, manager, mine)
        if reason := rules.why_not_ready(mine):
            return Readiness.not_yet(reason)
        reap(view, manager, peers)
    return READY


def _forget_token(manager: Engine, role: Role) -> None:
    """Rotate the token with which a node has joined, because others might have read it.

    The labels are set after the rotation, and mark it as done: after a crash in between,
    the token is rotated once more.
    """
    used = manager.swarm().tokens[role]
    for left in reversed(range(_TOKENS)):
        swarm = manager.swarm()
        if swarm.tokens[role] != used:
            return
        try:
            manager.rotate_token(swarm, role)
        except Refused:
            # The swarm was changed in between.
            if not left:
                raise


def _as_wanted(view: View, node: Node, manager: Engine, mine: Peer) -> Peer:
    spec = rules.changed_spec(
        mine, role=view.role(node), availability=view.availability(node), labels=view.labels(node)
    )
    if spec is None:
        return mine
    manager.change(mine, spec)
    return next(one for one in manager.peers() if one.id == mine.id)
