"""Leaving of nodes: drain of a node, and removal of dead nodes from the swarm."""

from __future__ import annotations

from collections.abc import Iterable

from kiln.cluster_drivers.values import DRAINED, Drained
from kiln.clusters.models import Node

from . import rules
from .engine import Engine
from .line import Refused
from .values import Peer, Role
from .view import View


def drained(view: View, node: Node) -> Drained:
    """Continue the drain as far as possible now; return done once a node has left the swarm.

    Its tasks move away first. A manager is demoted to worker first, and only if the other
    managers keep a majority. If the whole swarm is deleted, no node has to leave.

    The node is removed from the swarm, and its own engine is not notified: an engine that
    believes that it is in a swarm refuses to found one, until its machine is deleted or it
    joins again.

    :raises NoManager: no manager answers; the node stays as it is.
    :raises Refused: a manager refused, for example because another process was faster.
    """
    if view.ending:
        return DRAINED
    with view.manager(besides=node) as manager:
        peers = manager.peers()
        mine = [one for one in peers if one.node_id == node.id]
        for peer in mine:
            if reason := _still(manager, peers, peer):
                return Drained(done=False, reason=reason)
    return DRAINED


def _still(manager: Engine, peers: Iterable[Peer], peer: Peer) -> str:
    """Return why a node is still in the swarm; empty once it is removed."""
    if peer.role is Role.MANAGER and (reason := rules.why_not_demoted(peers, peer)):
        return f'It stays a manager: {reason}.'
    if (peer.role, peer.availability) != (Role.WORKER, 'drain'):
        manager.change(peer, {**peer.spec, 'Role': 'worker', 'Availability': 'drain'})
    if peer.ready and (busy := sum(task.there for task in manager.tasks(peer))):
        return f'{busy} tasks on it have not stopped.'
    if peer.reachable:
        return 'It is still a manager.'
    manager.remove(peer)
    return ''


def reap(view: View, manager: Engine, peers: Iterable[Peer]) -> list[Peer]:
    """Remove dead nodes that are no longer kiln's, and abandoned joins, from the swarm.

    Return the nodes that are left: demoting a manager takes the swarm a moment, and some
    dead nodes are not detected as dead at once.
    """
    peers, known = tuple(peers), {node.id for node in view.nodes}
    left = rules.lingering(peers, known)
    gone = rules.strays(peers, known)
    if unfinished := rules.unfinished(peers):
        now = manager.info().now
        gone += [one for one in unfinished if now - one.created_at > rules.JOIN_S]
    for peer in gone:
        try:
            if peer.role is Role.MANAGER:
                manager.change(peer, {**peer.spec, 'Role': 'worker'})
            manager.remove(peer)
        except Refused:
            left.append(peer)
    return left
