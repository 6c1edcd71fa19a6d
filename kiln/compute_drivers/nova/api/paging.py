"""Adaptive page size for long lists."""

from __future__ import annotations

#: The smallest page: fewer rows would need more requests than a slow service can serve.
_SMALLEST = 20
#: A page that takes less than this part of the timeout could be larger.
_EASY = 1 / 8


class PageSize:
    """Finds a page size that a service can answer in time.

    A page that takes longer than the timeout would fail on every attempt, and
    the list could never be read.
    """

    def __init__(self, largest: int, timeout_s: float) -> None:
        self._largest = largest
        self._timeout_s = timeout_s
        self.rows = largest

    def lost(self) -> None:
        """Shrink the next page: this page did not arrive in time."""
        self.rows = max(min(_SMALLEST, self._largest), self.rows // 4)

    def came(self, rows: int, took_s: float) -> None:
        """Grow the next page if this page was full and arrived quickly."""
        if rows >= self.rows and took_s < self._timeout_s * _EASY:
            self.rows = min(self._largest, self.rows * 2)
