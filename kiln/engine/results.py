"""The results of actions that the engine started."""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.engine.plan.lifecycle import ActionKind


@dataclasses.dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action; without a node, of the whole cluster."""

    cluster_id: str
    node_id: str | None = None
    act: ActionKind = ActionKind.REST
    value: Any = None
    error: BaseException | None = None
    #: The key of the call, if it is the answer of a hook.
    invocation: str = ''
