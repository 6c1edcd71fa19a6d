"""How a swarm on which nobody works stays as it is wanted."""

from __future__ import annotations

from collections.abc import Iterator

from kiln.cluster_drivers.values import ReadyState
from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Node, NodeState

from . import joining, rules
from .engine import Engine
from .leaving import reap
from .line import Refused, Silent
from .values import Peer
from .view import View


class Unwell(ClusterDriverError):
    """A swarm answers, and is not as it should be."""

    code = 'swarm_unwell'
    remedy = 'See "kiln x swarm_debian_v1 nodes", and replace a node that stays so.'


def tend(view: View) -> None:
    """Take off the list who is dead, and have each node be in it as it is wanted.

    Where all is right that takes three requests; safe to repeat.

    :raises NoManager: no manager can be asked, or they are too few to agree.
    :raises Unwell: some nodes are not in order, and how that is.
    """
    with view.manager() as manager:
        peers = manager.peers()
        reap(view, manager, peers)
        mine = {peer.node_id: peer for peer in peers if peer.ready}
        out = list(_corrected(view, manager, mine))
    # To ask one that has fallen out what is wrong is what brings it back.
    wrong = [reason for node in out if (reason := _why_out(view, node))]
    if warning := rules.lost_quorum(peers):
        wrong.append(warning)
    if wrong:
        raise Unwell(f'{"; ".join(wrong)}.')


def _corrected(view: View, manager: Engine, mine: dict[str, Peer]) -> Iterator[Node]:
    """Give each node the labels and the availability that it is to have; yield who is out."""
    for node in view.nodes:
        if node.doomed or node.state is not NodeState.READY:
            continue
        peer = mine.get(node.id)
        if peer is None or rules.why_not_ready(peer):
            yield node
            continue
        spec = rules.changed_spec(
            peer, role=view.role(node), availability=view.availability(node),
            labels=view.labels(node),
        )  # fmt: skip
        if spec is not None:
            manager.change(peer, spec)


def _why_out(view: View, node: Node) -> str:
    try:
        found = joining.ready(view, node)
    except (Silent, Refused) as exc:
        return f'{node.name}: {exc.reason.rstrip(".")}'
    return '' if found.state is ReadyState.READY else f'{node.name}: {found.reason}'
