"""JSON schema of the cluster file, for editors."""

from __future__ import annotations

from typing import Any

from kiln.cluster_file.fields import CLUSTER, TEMPLATE


def json_schema() -> dict[str, Any]:
    """Return the schema of one document, in draft 2020-12.

    The schema accepts everything that kiln accepts. Mistakes that it cannot express, such
    as wrong sums and duplicate names, are found by ``reading.read``.
    """
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'A cluster of kiln, or a template for clusters',
        'type': 'object',
        'if': {'required': ['template'], 'not': {'required': ['cluster']}},
        'then': TEMPLATE.schema(),
        'else': CLUSTER.schema(),
    }
