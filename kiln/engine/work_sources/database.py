"""The source that asks the store: all that one conductor needs."""

from __future__ import annotations

from collections.abc import Callable, Collection

from kiln.db.store import Store
from kiln.engine.work_sources.base import WorkSource


class DatabaseSource(WorkSource):
    """Clusters that have work and that nobody holds, as the store knows them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wake: Callable[[], None] | None = None

    def start(self, wake: Callable[[], None]) -> None:
        """Have the conductor of this process woken by what is offered in it."""
        self._wake = wake

    def offer(self, cluster_id: str) -> None:
        """Wake the conductor; those of other processes ask the store by themselves."""
        if self._wake is not None:
            self._wake()

    def take(self, besides: Collection[str] = ()) -> tuple[str, ...]:
        """Ask the store; whoever is worked on or paused is not named."""
        return self._store.operations.runnable(besides=besides)

    def done(self, cluster_id: str) -> None:
        """Take it from the store: nothing is kept here."""

    def close(self, wait_s: float = 5.0) -> None:
        """Take it from the leases: nothing is kept here."""
