"""What the conformance kit is to expect of this driver; nothing else imports it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kiln.cluster_drivers.expectations import Expectations
from kiln.clusters.models import Node, NodeState


class Pages(Expectations):
    """Pages at the port by default, and the oldest node that stays."""

    refused = ({'port': 0}, {'port': 65_536})
    refused_groups = ({'control': 0, 'worker': 0},)

    @staticmethod
    def staying(nodes: Sequence[Node]) -> Collection[Node]:
        """Return the node with the state."""
        return sorted(nodes, key=lambda node: node.created_at)[:1]

    @staticmethod
    def expected_readings(nodes: Sequence[Node]) -> Mapping[str, float | None]:
        """Return the share of ready nodes, and the number of all."""
        return {'nodes': len(nodes), 'ready': len(_ready(nodes)) / len(nodes)}

    @staticmethod
    def expected_outputs(nodes: Sequence[Node]) -> Mapping[str, Any]:
        """Return the pages of ready nodes."""
        return {'pages': [_page(node) for node in _ready(nodes)]}

    @staticmethod
    def expected_answers(
        nodes: Sequence[Node],
    ) -> Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
        """Return the pages of all nodes with an address, and those of one group."""
        pages = {node.name: _page(node) for node in nodes if node.address}
        of_group = {node.name: pages[node.name] for node in nodes if node.group == 'control'}
        return [('pages', {}, pages), ('pages', {'group': 'control'}, of_group)]


def _ready(nodes: Sequence[Node]) -> Sequence[Node]:
    return [node for node in nodes if node.state is NodeState.READY]


def _page(node: Node) -> str:
    return f'http://{node.host}:8080/'
