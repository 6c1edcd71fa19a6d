"""Rules of a swarm: founding, joining, demotion and removal of nodes.

Pure. **A cluster has one swarm.** Only :func:`why_not_found` allows a node to found a swarm:
the oldest manager of a cluster without any successful operation, if no other node was
ever ready, and each manager that might have joined reports that it is not in a swarm.

Two views of a cluster have the same oldest manager, unless the first view's oldest manager
is gone together with its machine: nodes are created in the order of their times, and a node
is gone when its backend reports that the machine is gone. Therefore a late request of a
process that has lost the cluster reaches the same machine, which is in a swarm by then and
refuses; or it reaches no engine, because a machine that took over the address cannot prove
its identity.

One case remains: a process that sleeps from before the creation of the second manager until the
first manager is reset. Only then can the first manager found a swarm, in the moment between
leaving and joining.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kiln.clusters.models import Cluster, Node, NodeState

from .values import NODE, EngineInfo, Membership, Peer, Role

#: Nodes in these states have never been ready.
_NEW = frozenset(
    {
        NodeState.PLANNED,
        NodeState.BUILDING,
        NodeState.BOOTING,
        NodeState.JOINING,
        NodeState.FAILED,
    }
)
#: Seconds after which a join counts as abandoned if the swarm has no data about its node.
JOIN_S = 120.0
#: Nodes in these states have not been made to join.
_NEVER_ASKED = frozenset({NodeState.PLANNED, NodeState.BUILDING, NodeState.BOOTING})


def by_age(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes, the oldest first."""
    return sorted(nodes, key=lambda node: (node.created_at, node.id))


def why_not_found(
    cluster: Cluster,
    node: Node,
    managers: Sequence[Node],
    nodes: Iterable[Node],
    seen: Mapping[str, EngineInfo],
) -> str:
    """Return why a manager must not found a swarm; empty if it must found the swarm.

    :param managers: All existing managers, including this one.
    :param nodes: All existing nodes.
    :param seen: The reports of the other managers' engines that answer.
    """
    names = {one.id: one.name for one in managers}
    if active := [key for key, info in seen.items() if info.membership is not Membership.INACTIVE]:
        return f'{names[active[0]]} is in a swarm, but cannot admit other nodes now'
    if cluster.former is not None:
        return (
            'no manager of the swarm answers, and kiln does not found a second swarm; '
            'see "kiln x swarm_debian_v1 recover"'
        )
    oldest = by_age(managers)[0]
    if oldest.id != node.id:
        return f'{oldest.name} must found the swarm'
    silent = [
        one.name
        for one in managers
        if one.id not in (node.id, *seen) and one.address and one.state not in _NEVER_ASKED
    ]
    if silent:
        return f'{silent[0]} does not answer, and might be in a swarm'
    if old := [one.name for one in nodes if one.id != node.id and one.state not in _NEW]:
        return f'{old[0]} has been in a swarm, and no manager of that swarm answers'
    return ''


def joins_now(info: EngineInfo, managers: Iterable[Node]) -> bool:
    """Return True if an engine must join: it is in no swarm, or its join can never end.

    A joining engine uses one manager only, and waits forever if that manager disappears.
    """
    if info.membership is not Membership.PENDING:
        return info.membership in (Membership.INACTIVE, Membership.ERROR)
    addresses = {one.address for one in managers}
    return not info.peer_id and bool(info.managers) and addresses.isdisjoint(info.managers)


def majority(count: int) -> int:
    """Return how many of ``count`` managers are a majority."""
    return count // 2 + 1


def why_not_demoted(peers: Iterable[Peer], peer: Peer) -> str:
    """Return why a manager must not be demoted; empty if the others keep a majority."""
    others = [one for one in peers if one.role is Role.MANAGER and one.id != peer.id]
    reached = sum(one.reachable and one.ready for one in others)
    if not others:
        return 'it is the only manager, and the swarm would be lost with it'
    if reached < majority(len(others)):
        return (
            f'without it {reached} of {len(others)} managers could be reached, and '
            f'{majority(len(others))} are needed'
        )
    return ''


def strays(peers: Iterable[Peer], known: Collection[str]) -> list[Peer]:
    """Return the dead nodes of the swarm that are no longer kiln's, workers first.

    :param known: The ids of all existing nodes. A node that is up is not returned, because
        it can be newer than this list; nor is a node that was not joined by kiln.
    """
    there = list(peers)
    up = {one.node_id for one in there if one.ready}
    found = [
        one
        for one in there
        # A node that joined again with an empty disk has left its old entry behind.
        if one.node_id and not one.ready and (one.node_id not in known or one.node_id in up)
    ]
    return sorted(found, key=lambda one: (one.role is Role.MANAGER, one.id))


def unfinished(peers: Iterable[Peer]) -> list[Peer]:
    """Return the entries of running or abandoned joins: they have no description."""
    return [one for one in peers if not one.hostname and not one.ready]


def lingering(peers: Iterable[Peer], known: Collection[str]) -> list[Peer]:
    """Return the nodes that are no longer kiln's but still ready according to the swarm.

    The swarm detects a dead node only after some missing heartbeats.
    """
    return [one for one in peers if one.node_id and one.ready and one.node_id not in known]


def lost_quorum(peers: Iterable[Peer]) -> str:
    """Return a warning if the loss of one more manager would lose the quorum; else empty."""
    managers = [one for one in peers if one.role is Role.MANAGER]
    reached = sum(one.reachable for one in managers)
    if len(managers) > 2 and reached == majority(len(managers)):
        return (
            f'{reached} of {len(managers)} managers are reachable: one more failure loses the '
            f'quorum'
        )
    return ''


def changed_spec(
    peer: Peer, *, role: Role, availability: str, labels: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """Return the desired spec of a node; None if the node has it.

    Labels of others stay; labels that begin with ``kiln.`` are replaced.
    """
    others = {name: value for name, value in peer.labels.items() if not name.startswith(_OURS)}
    every = {**others, **labels}
    if (peer.role, peer.availability, dict(peer.labels)) == (role, availability, every):
        return None
    return {**peer.spec, 'Role': role.value, 'Availability': availability, 'Labels': every}


_OURS = NODE.partition('.')[0] + '.'


def why_not_ready(peer: Peer) -> str:
    """Return why a node is not ready in its swarm; empty if it is ready."""
    if not peer.ready:
        return 'the swarm does not report it as ready'
    if peer.role is Role.MANAGER and not peer.reachable:
        return 'the other managers do not reach it'
    return ''
