"""The work source that polls the store; enough for one conductor."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kiln.db.store import Store
from kiln.engine.work_sources.base import WorkSource


class DatabaseSource(WorkSource):
    """Returns clusters that have work and no lease holder, according to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wake: Callable[[], None] | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Wake the conductor of this process when work is offered in it."""
        self._wake = wake

    def offer(self, cluster_id: str) -> None:
        """Wake the conductor; those of other processes poll the store by themselves."""
        if self._wake is not None:
            self._wake()

    def take(self, besides: Collection[str] = ()) -> tuple[str, ...]:
        """Read the store; clusters that are worked on or paused are not returned."""
        return self._store.operations.runnable(besides=besides)

    def done(self, cluster_id: str) -> None:
        """Do nothing: the store has the state."""

    def close(self, wait_s: float = 5.0) -> None:
        """Do nothing: the leases have the state."""
