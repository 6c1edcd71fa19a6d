"""One at a time for each build key; pure."""

from __future__ import annotations

import collections
from typing import Generic, TypeVar

T = TypeVar('T')


class Turns(Generic[T]):
    """A line for each key, whose first has its turn. The caller holds a lock.

    Two builds of one key at once could make two instances, and the removal of
    one could take what the other just made. So they go one after the other.
    """

    def __init__(self) -> None:
        self._turn: dict[str, T] = {}
        # Few keys are ever asked for twice at once: only those have a line.
        self._lines: dict[str, collections.deque[T]] = {}

    def __len__(self) -> int:
        return len(self._turn)

    def join(self, key: str, item: T) -> bool:
        """Stand in line; return whether it is the item's turn at once."""
        if key not in self._turn:
            self._turn[key] = item
            return True
        self._lines.setdefault(key, collections.deque()).append(item)
        return False

    def hand_over(self, key: str, item: T, heir: T) -> bool:
        """Give an item's place to another; return whether that has its turn."""
        if self._turn[key] == item:
            self._turn[key] = heir
            return True
        line = self._lines[key]
        line[line.index(item)] = heir
        return False

    def leave(self, key: str, item: T) -> T | None:
        """Go; return the item whose turn it is because of that."""
        had_turn = self._turn[key] == item
        line = self._lines.get(key)
        if line is None:
            del self._turn[key]
            return None
        if had_turn:
            self._turn[key] = line.popleft()
        else:
            line.remove(item)
        if not line:
            del self._lines[key]
        return self._turn[key] if had_turn else None
