"""What users may ask of this driver alone: ``kiln x elder_v1 pages``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context
from kiln.cluster_drivers.verbs import Verb
from kiln.cluster_models import Cluster

from .template_def import ExampleTemplateDefinition


def pages(context: Context, cluster: Cluster, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the address of each page."""
    definition = ExampleTemplateDefinition()
    found = {}
    for node in context.nodes:
        if node.address and arguments['group'] in (None, node.group):
            port = definition.get_params(context, cluster, node)['port']
            found[node.name] = f'http://{node.address}:{port}/'
    return found


verbs = {
    'pages': Verb(
        run=pages,
        help='Show where the pages are.',
        parameters=(Parameter(name='group', help='Only nodes of this group.'),),
    )
}
