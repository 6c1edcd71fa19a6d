"""Queue for each build key: one operation of a key runs at a time; pure."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar('T')


class PerKeyQueue(Generic[T]):
    """A queue for each key, whose first item runs. The caller holds a lock.

    Two concurrent builds of one key could make two machines, and a concurrent removal
    could delete what a build just made. So they run one after another.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[T]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def join(self, key: str, item: T) -> bool:
        """Add an item; return True if it can run at once."""
        line = self._lines.setdefault(key, [])
        line.append(item)
        return len(line) == 1

    def hand_over(self, key: str, item: T, heir: T) -> bool:
        """Replace an item in its place by another; return True if that can run at once."""
        line = self._lines[key]
        place = line.index(item)
        line[place] = heir
        return place == 0

    def leave(self, key: str, item: T) -> T | None:
        """Remove an item; return the item that can run because of that."""
        line = self._lines[key]
        place = line.index(item)
        del line[place]
        if not line:
            del self._lines[key]
            return None
        return line[0] if place == 0 else None
