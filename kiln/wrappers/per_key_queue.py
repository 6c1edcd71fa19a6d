"""A queue for each build key, so that one operation of a key runs at a time; pure."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar('T')


class PerKeyQueue(Generic[T]):
    """A line for each key, whose first item has its turn. The caller holds a lock.

    Two builds of one key at once could make two instances, and the removal of
    one could take what the other just made. So they go one after the other.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[T]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def join(self, key: str, item: T) -> bool:
        """Add an item; return True if it has its turn at once."""
        line = self._lines.setdefault(key, [])
        line.append(item)
        return len(line) == 1

    def hand_over(self, key: str, item: T, heir: T) -> bool:
        """Give an item's place to another; return True if that has its turn."""
        line = self._lines[key]
        place = line.index(item)
        line[place] = heir
        return place == 0

    def leave(self, key: str, item: T) -> T | None:
        """Remove an item; return the item that has its turn because of that."""
        line = self._lines[key]
        place = line.index(item)
        del line[place]
        if not line:
            del self._lines[key]
            return None
        return line[0] if place == 0 else None
