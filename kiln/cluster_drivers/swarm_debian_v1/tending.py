"""Repair of an idle swarm: dead nodes, labels and availability."""

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
    """A swarm answers, but is not as desired."""

    code = 'swarm_unwell'
    remedy = 'See "kiln x swarm_debian_v1 nodes", and replace a node that stays wrong.'


def tend(view: View) -> None:
    """Remove dead nodes from the swarm, and keep every other node in it as desired.

    If everything is right, it takes three requests. Repeatable.

    :raises NoManager: no manager answers, or the managers have no quorum.
    :raises Unwell: some nodes are wrong; the message has the reasons.
    """
    with view.manager() as manager:
        peers = manager.peers()
        reap(view, manager, peers)
        mine = {peer.node_id: peer for peer in peers if peer.ready}
        out = list(_corrected(view, manager, mine))
    # The readiness poll makes a lost node join again, so polling it also repairs it.
    wrong = [reason for node in out if (reason := _why_out(view, node))]
    if warning := rules.lost_quorum(peers):
        wrong.append(warning)
    if wrong:
        raise Unwell(f'{"; ".join(wrong)}.')


def _corrected(view: View, manager: Engine, mine: dict[str, Peer]) -> Iterator[Node]:
    """Set the desired labels and availability; yield the nodes that are not in the swarm."""
    for node in view.nodes:
        if node.doomed or node.state is not NodeState.READY:
            continue
        peer = mine.get(node.id)
        if peer is None or rules.why_not_ready(peer):
            yield node
            continue
        role, wanted = view.role(node), view.availability(node)
        spec = rules.changed_spec(peer, role=role, availability=wanted, labels=view.labels(node))
        if spec is not None:
            manager.change(peer, spec)


def _why_out(view: View, node: Node) -> str:
    try:
        found = joining.ready(view, node)
    except (Silent, Refused) as exc:
        return f'{node.name}: {exc.reason.rstrip(".")}'
    return '' if found.state is ReadyState.READY else f'{node.name}: {found.reason}'
