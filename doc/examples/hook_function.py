from collections.abc import Mapping
from typing import Any

from kiln.hooks.callers.plugins import hook
from kiln.hooks.replies import Answer


def why_frozen(cluster: str) -> str:
    return 'changes are frozen until Monday' if cluster == 'web' else ''


@hook('pre_update', order=10, timeout_s=5.0)
def freeze(document: Mapping[str, Any]) -> Answer | None:
    if reason := why_frozen(document['cluster']['name']):
        return Answer.later(reason, after_s=300)
    return None


print(freeze.name, freeze.point)  # freeze pre_update
