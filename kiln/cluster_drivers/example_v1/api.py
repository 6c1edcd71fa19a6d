"""Verbs of this driver: ``kiln x example_v1 pages``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context
from kiln.cluster_drivers.verbs import Verb
from kiln.clusters.models import Cluster

from .template_def import ExampleTemplateDefinition


def pages(context: Context, cluster: Cluster, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the address of each page."""
    definition = ExampleTemplateDefinition()
    found = {}
    for node in context.nodes:
        if node.address and arguments['group'] in (None, node.group):
            port = definition.get_params(context, cluster, node)['port']
            found[node.name] = f'http://{node.host}:{port}/'
    return found


verbs = {
    'pages': Verb(
        run=pages,
        help='Show the addresses of the pages.',
        parameters=(Parameter(name='group', help='Show only nodes of this group.'),),
    )
}
