"""How a node comes to be in the swarm, and is known to be: by looks that each go on."""

from __future__ import annotations

from kiln.cluster_drivers.values import READY, Readiness
from kiln.clusters.models import Node

from . import rules
from .engine import Engine
from .leaving import reap
from .line import Refused
from .values import NODE, EngineInfo, Membership, Peer, Role
from .view import NoManager, View

#: Parallel joins make each other's tokens useless, and then there is a new one at once.
_TOKENS = 5


def ready(view: View, node: Node) -> Readiness:
    """Go as far as it goes now, and return whether a node is one of the swarm.

    May be repeated at any moment, after a crash of anybody too: what is next follows
    from what the engines say.

    :raises Silent: an engine does not answer.
    :raises Refused: one will not, be it that somebody else was faster.
    """
    if not node.address:
        return Readiness.not_yet('it has no address yet')
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
    """Have a node join, or found, the swarm; return why that must wait, if it must."""
    role = view.role(node)
    try:
        with view.manager(besides=node) as manager:
            if role is Role.MANAGER:
                # A dead one counts for the quorum until it is off the list.
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
            # With a token that is still good it would be refused again.
            if not left or token == used or manager.swarm().tokens[role] == token:
                raise
            used = token
        else:
            return


def _settle(view: View, node: Node, engine: Engine, info: EngineInfo) -> Readiness:
    """See to it that the swarm has a node as it is wanted, and return whether it has."""
    with view.manager() as manager:
        peers = manager.peers()
        mine = next((one for one in peers if one.id == info.peer_id), None)
        if mine is None and info.manages:
            return Readiness.failed('it manages another swarm than the other managers')
        if mine is None:
            # It was taken off the list. Between the two requests nobody else finds it free.
            engine.leave(force=True)
            _join_through(view.role(node), engine, manager)
            return Readiness.not_yet('the swarm did not know it any more, and it has joined again')
        if mine.labels.get(NODE, node.id) != node.id:
            return Readiness.failed('its engine says that it is another node of the swarm')
        if NODE not in mine.labels:
            _forget_token(manager, view.role(node))
        mine = _as_wanted(view, node, manager, mine)
        if reason := rules.why_not_ready(mine):
            return Readiness.not_yet(reason)
        reap(view, manager, peers)
    return READY


def _forget_token(manager: Engine, role: Role) -> None:
    """Make the token useless with which a node has joined, before anybody relies on it.

    Who has it may have read it anywhere. That this was done is known by the labels, which
    are set after it: so after a crash in between it is done once more.
    """
    used = manager.swarm().tokens[role]
    for left in reversed(range(_TOKENS)):
        swarm = manager.swarm()
        if swarm.tokens[role] != used:
            return
        try:
            manager.rotate_token(swarm, role)
        except Refused:
            # Something else of the swarm was changed in between.
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
