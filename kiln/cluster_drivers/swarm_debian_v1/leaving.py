"""How a node leaves the swarm, and how the list forgets who will never come back."""

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
    """Go as far as it goes now, and return whether a node has left the swarm.

    Its tasks go elsewhere first; a manager becomes a worker first, and only where a
    majority is left. Of a swarm that goes as a whole, nobody has to leave.

    It is taken off the list, and its own engine is not told: one that believes to be in
    a swarm founds none, whoever asks it to, until its machine is away or it joins anew.

    :raises NoManager: there is no manager to do it with; it stays what it is.
    :raises Refused: a manager will not, be it that somebody else was faster.
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
    """Return what keeps a node in the swarm; empty once it is off the list."""
    if peer.role is Role.MANAGER and (reason := rules.why_not_demoted(peers, peer)):
        return f'It stays a manager: {reason}.'
    if (peer.role, peer.availability) != (Role.WORKER, 'drain'):
        manager.change(peer, {**peer.spec, 'Role': 'worker', 'Availability': 'drain'})
    if peer.ready and (busy := sum(task.there for task in manager.tasks(peer))):
        return f'{busy} tasks have not stopped there yet.'
    if peer.reachable:
        return 'It has not stopped being a manager yet.'
    manager.remove(peer)
    return ''


def reap(view: View, manager: Engine, peers: Iterable[Peer]) -> list[Peer]:
    """Take off the list who is dead and no node of kiln's any more, and joins given up.

    Return who is left: a manager is demoted first, which takes the swarm a moment, and
    of some the swarm does not know yet that they are dead.
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
