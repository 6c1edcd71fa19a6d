"""The JSON schema of the file, for editors: the same declaration, in other words."""

from __future__ import annotations

from typing import Any

from kiln.cluster_file.fields import CLUSTER, TEMPLATE


def json_schema() -> dict[str, Any]:
    """Return the schema of one document, of draft 2020-12.

    It refuses nothing that kiln accepts. Sums, names that come twice and the
    like are beyond it; ``reading.read`` finds those.
    """
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'A cluster of kiln, or a template for clusters',
        'type': 'object',
        'if': {'required': ['template'], 'not': {'required': ['cluster']}},
        'then': TEMPLATE.schema(),
        'else': CLUSTER.schema(),
    }
