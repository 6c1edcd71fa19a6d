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
        self._lines: dict[str, collections.deque[T]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def join(self, key: str, item: T) -> bool:
        """Stand in line; return whether it is the item's turn at once."""
        line = self._lines.setdefault(key, collections.deque())
        line.append(item)
        return len(line) == 1

    def hand_over(self, key: str, item: T, heir: T) -> bool:
        """Give an item's place to another; return whether that has its turn."""
        line = self._lines[key]
        line[line.index(item)] = heir
        return line[0] == heir

    def leave(self, key: str, item: T) -> T | None:
        """Go; return the item whose turn it is because of that."""
        line = self._lines[key]
        had_turn = line[0] == item
        line.remove(item)
        if not line:
            del self._lines[key]
            return None
        return line[0] if had_turn else None
