"""What is told to the engine: the outcomes of what it began."""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.engine.plan.lifecycle import Act


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """What became of something that was begun; without a node, of the whole cluster."""

    cluster_id: str
    node_id: str | None = None
    act: Act = Act.REST
    value: Any = None
    error: BaseException | None = None
    #: The key of the call, where it is a hook's answer.
    invocation: str = ''
