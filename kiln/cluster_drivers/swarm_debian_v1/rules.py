"""Who founds a swarm, who may leave it, and who is taken off its list; pure.

**There is one swarm.** Only :func:`why_not_found` lets one be founded, and only in a
cluster none of whose operations has succeeded yet, by its oldest manager, where none of
the others was ever ready and each that may have joined says that it is in no swarm. The managers
that are oldest in two views of a cluster are the same, unless the first of them is
gone, and its machine with it: nodes are born in the order of their times, and a node is
gone when its backend says that its machine is. What a process still sends that has
lost the cluster therefore reaches the same machine, which is in a swarm by then and
refuses, or none, since who takes its address cannot prove to be it. What is left is a
process that sleeps from before the second manager was born until the first is reset:
only then is that one, for the moment between leaving and joining, free to found.
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
#: Seconds after which a join is given up whose node the swarm has no description of.
JOIN_S = 120.0
#: Nobody has had them join yet.
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
    """Return why a manager must not found a swarm; empty where it is the one that does.

    :param managers: all that are not gone, itself among them.
    :param nodes: all nodes that are not gone.
    :param seen: what the engines of other managers say, as far as they answer.
    """
    names = {one.id: one.name for one in managers}
    if active := [key for key, info in seen.items() if info.membership is not Membership.INACTIVE]:
        return f'{names[active[0]]} is in a swarm, but cannot take others in now'
    if cluster.former is not None:
        return (
            'no manager of the swarm answers, and kiln founds no second one; '
            'see "kiln x swarm_debian_v1 recover"'
        )
    oldest = by_age(managers)[0]
    if oldest.id != node.id:
        return f'{oldest.name} is to found the swarm'
    silent = [
        one.name
        for one in managers
        if one.id not in (node.id, *seen) and one.address and one.state not in _NEVER_ASKED
    ]
    if silent:
        return f'{silent[0]} does not answer, and may be in a swarm'
    if old := [one.name for one in nodes if one.id != node.id and one.state not in _NEW]:
        return f'{old[0]} has been in a swarm, and no manager of that answers'
    return ''


def joins_now(info: EngineInfo, managers: Iterable[Node]) -> bool:
    """Return whether an engine is to join: it is in no swarm, or waits for a manager in vain.

    An engine that joins keeps to one manager. If that one goes meanwhile, it waits for ever.
    """
    if info.membership is not Membership.PENDING:
        return info.membership in (Membership.INACTIVE, Membership.ERROR)
    addresses = {one.address for one in managers}
    return not info.peer_id and bool(info.managers) and addresses.isdisjoint(info.managers)


def majority(count: int) -> int:
    """Return how many of so many managers must agree."""
    return count // 2 + 1


def why_not_demoted(peers: Iterable[Peer], peer: Peer) -> str:
    """Return why a manager must stay one; empty where the others can do without it."""
    others = [one for one in peers if one.role is Role.MANAGER and one.id != peer.id]
    reached = sum(one.reachable and one.ready for one in others)
    if not others:
        return 'it is the only manager, and the swarm would be lost with it'
    if reached < majority(len(others)):
        return (
            f'without it {reached} of {len(others)} managers could be reached, and '
            f'{majority(len(others))} must'
        )
    return ''


def strays(peers: Iterable[Peer], known: Collection[str]) -> list[Peer]:
    """Return who is on the list and no node of kiln's any more, workers first.

    :param known: the ids of all nodes that are not gone. A node that is up is left
        alone, for it may be younger than this knowledge; so are nodes that somebody
        else has joined.
    """
    there = list(peers)
    up = {one.node_id for one in there if one.ready}
    found = [
        one
        for one in there
        # One that joined anew, with an empty disk, has left its old entry behind.
        if one.node_id and not one.ready and (one.node_id not in known or one.node_id in up)
    ]
    return sorted(found, key=lambda one: (one.role is Role.MANAGER, one.id))


def unfinished(peers: Iterable[Peer]) -> list[Peer]:
    """Return the entries of joins under way, or given up: they have no description."""
    return [one for one in peers if not one.hostname and not one.ready]


def lingering(peers: Iterable[Peer], known: Collection[str]) -> list[Peer]:
    """Return who is no node of kiln's any more, and up as far as the swarm knows.

    It hears of a death only when some heartbeats are missing.
    """
    return [one for one in peers if one.node_id and one.ready and one.node_id not in known]


def lost_quorum(peers: Iterable[Peer]) -> str:
    """Return for people that one more dead manager is one too many; else empty."""
    managers = [one for one in peers if one.role is Role.MANAGER]
    reached = sum(one.reachable for one in managers)
    if len(managers) > 2 and reached == majority(len(managers)):
        return f'{reached} of {len(managers)} managers are reached, and none may fail now'
    return ''


def changed_spec(
    peer: Peer, *, role: Role, availability: str, labels: Mapping[str, str]
) -> Mapping[str, Any] | None:
    """Return the spec that a node is to have; None where it has it.

    Labels that others have set stay, but those of kiln are kiln's.
    """
    others = {name: value for name, value in peer.labels.items() if not name.startswith(_OURS)}
    spec = {
        **peer.spec, 'Role': role.value, 'Availability': availability,
        'Labels': {**others, **labels},
    }  # fmt: skip
    same = (peer.role, peer.availability, dict(peer.labels))
    return None if same == (role, availability, spec['Labels']) else spec


_OURS = NODE.partition('.')[0] + '.'


def why_not_ready(peer: Peer) -> str:
    """Return what is lacking before a node counts as one of its swarm."""
    if not peer.ready:
        return 'the swarm does not see it as ready yet'
    if peer.role is Role.MANAGER and not peer.reachable:
        return 'the other managers do not reach it yet'
    return ''
