"""How many requests for builds of one cluster may be out at once."""

from __future__ import annotations

import collections


class BuildGate:
    """Lets so many in, and the others in their order as soon as one has left."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[str] = set()
        self._waiting: collections.deque[str] = collections.deque()

    def enter(self, node_id: str) -> bool:
        """Let a node in if there is room; else it is named when there is."""
        if len(self._inside) >= self._most:
            self._waiting.append(node_id)
            return False
        self._inside.add(node_id)
        return True

    def leave(self, node_id: str) -> str | None:
        """Let a node out; return who may try again, if anybody waits."""
        self._inside.discard(node_id)
        return self._waiting.popleft() if self._waiting else None
