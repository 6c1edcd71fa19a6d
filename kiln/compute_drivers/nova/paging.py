"""How many rows of a list to ask for at once."""

from __future__ import annotations

#: However slow a service is: fewer rows would be more requests than it could take.
_SMALLEST = 20
#: A page that takes less than this part of the time it may take could be larger.
_EASY = 1 / 8


class PageSize:
    """Finds a size of pages that a service answers in time.

    A list that takes longer than a request may is lost each time it is asked
    for, and who asks for it would never see anything again.
    """

    def __init__(self, largest: int, timeout_s: float) -> None:
        self._largest = largest
        self._timeout_s = timeout_s
        self.rows = largest

    def lost(self) -> None:
        """Note that a page did not come in time: the next is to be smaller."""
        self.rows = max(min(_SMALLEST, self._largest), self.rows // 4)

    def came(self, rows: int, took_s: float) -> None:
        """Note that a page came: if it was full and came easily, the next may be larger."""
        if rows >= self.rows and took_s < self._timeout_s * _EASY:
            self.rows = min(self._largest, self.rows * 2)
