"""A limit on concurrent build requests of one cluster."""

from __future__ import annotations

import collections


class BuildGate:
    """Admits a limited number of builds; the others follow in order as builds end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[str] = set()
        self._waiting: collections.deque[str] = collections.deque()

    def enter(self, node_id: str) -> bool:
        """Admit a node if there is room; otherwise queue it, for ``leave`` to return."""
        if len(self._inside) >= self._most:
            self._waiting.append(node_id)
            return False
        self._inside.add(node_id)
        return True

    def leave(self, node_id: str) -> str | None:
        """Release a node; return the id of the next waiting node, if there is one."""
        self._inside.discard(node_id)
        return self._waiting.popleft() if self._waiting else None
