"""A worker process that crashes at a chosen commit of the store."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from kiln.clusters.models import Lease
from kiln.db.batch import Batch
from kiln.db.store import Store
from kiln.testing.clusters.simulation.site import Site

_POLL_S = 0.01
#: The parent process gives up earlier.
_LONGEST_S = 120.0
BEFORE, AFTER = 'before', 'after'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CrashPoint:
    """The commit at which a process crashes, and the faults it meets; can be pickled."""

    #: Number of the commit before or after which it gets the signal; 0 is never.
    where: str = AFTER
    number: int = 0
    #: SIGSTOP makes a zombie worker: it can be woken, and does not notice the gap.
    by: int = signal.SIGKILL
    #: Faults of the cloud for this process alone, in the syntax of Fault.parse.
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        crash = [f'{self.where} commit {self.number}'] if self.number else []
        return ', '.join([*crash, *self.faults]) or 'undisturbed'


class CrashingStore:
    """A store that sends its process a signal before or after one commit."""

    def __init__(self, store: Store, crash_point: CrashPoint) -> None:
        self._store = store
        self._crash_point = crash_point
        self._left = crash_point.number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextlib.contextmanager
    def writing(self, lease: Lease) -> Iterator[Batch]:
        """Write as the store does, and crash at the chosen commit."""
        self._left -= 1
        last = self._left == 0
        with self._store.writing(lease) as batch:
            yield batch
            if last and self._crash_point.where == BEFORE:
                self._crash()
        if last and self._crash_point.where == AFTER:
            self._crash()

    def anything_left(self) -> bool:
        """Return True while an operation is open."""
        clusters = self._store.clusters.list()
        return any(self._store.operations.open(cluster.id) for cluster in clusters)

    def _crash(self) -> None:
        # The signal is sent to this thread: with any other receiver this thread would run on for
        # a moment, and could be stopped while it holds a lock of the database.
        signal.pthread_kill(threading.get_ident(), self._crash_point.by)


def work(site: Site, crash_point: CrashPoint) -> int:
    """Work until no operation is open, or until the crash; return an exit status."""
    end = time.monotonic() + _LONGEST_S
    with site.open_store() as opened:
        store = CrashingStore(opened, crash_point)
        with site.conducting(store, crash_point.faults):
            while store.anything_left():
                if time.monotonic() > end:
                    return 1
                time.sleep(_POLL_S)
    return 0
