"""A process that works on clusters until a commit, and then no more."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from kiln.cluster_models import Lease
from kiln.db.batch import Batch
from kiln.db.store import Store
from kiln.testing.clusters.site import Site

_POLL_S = 0.01
#: Whoever started it gives up before.
_LONGEST_S = 120.0
BEFORE, AFTER = 'before', 'after'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fate:
    """What becomes of a process, and of what it asks of the cloud; can be pickled."""

    #: Before or after which of its commits it is struck; 0 is never.
    where: str = AFTER
    number: int = 0
    #: SIGSTOP makes a zombie of it: it may be woken, and knows nothing of that.
    by: int = signal.SIGKILL
    #: What the cloud does to this process alone, as Fault.parse reads it.
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = [f'{self.where} commit {self.number}'] if self.number else []
        return ', '.join([*told, *self.faults]) or 'undisturbed'


class MortalStore:
    """A store in which a commit is the last thing that is done, or would have been."""

    def __init__(self, store: Store, fate: Fate) -> None:
        self._store = store
        self._fate = fate
        self._left = fate.number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextlib.contextmanager
    def writing(self, lease: Lease) -> Iterator[Batch]:
        """Write as the store does, and strike where it is time."""
        self._left -= 1
        last = self._left == 0
        with self._store.writing(lease) as batch:
            yield batch
            if last and self._fate.where == BEFORE:
                self._strike()
        if last and self._fate.where == AFTER:
            self._strike()

    def anything_left(self) -> bool:
        """Whether there is anything to be done."""
        clusters = self._store.clusters.list()
        return any(self._store.operations.open(cluster.id) for cluster in clusters)

    def _strike(self) -> None:
        # This thread and no other takes the signal: it would go on for a moment, and
        # might be stopped with a lock of the database in its hands.
        signal.pthread_kill(threading.get_ident(), self._fate.by)


def live(site: Site, fate: Fate) -> int:
    """Work until nothing is to be done, or until struck; return an exit status."""
    end = time.monotonic() + _LONGEST_S
    with contextlib.closing(site.open_store()) as store:
        mortal = MortalStore(store, fate)
        with site.conducting(mortal, fate.faults):
            while mortal.anything_left():
                if time.monotonic() > end:
                    return 1
                time.sleep(_POLL_S)
    return 0
