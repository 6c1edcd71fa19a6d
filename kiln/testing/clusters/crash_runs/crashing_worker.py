"""A worker process that crashes at a chosen commit, or once a chosen call has been answered."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.clusters.models import Lease
from kiln.compute.facade import Compute
from kiln.db.batch import Batch
from kiln.db.store import Store
from kiln.testing.clusters.simulation.site import Site

#: Each poll costs a third of that in processor time.
_POLL_S = 0.03
_COUNTS = 'moments.json'
#: The parent process gives up earlier.
_LONGEST_S = 120.0
#: The calls that change the backend.
_CHANGES = frozenset({'build', 'delete', 'reboot', 'rebuild'})


class Moment(enum.StrEnum):
    """When a process crashes."""

    BEFORE_COMMIT = 'before commit'
    AFTER_COMMIT = 'after commit'
    #: The backend has done what it was asked to, and nobody has recorded it.
    AFTER_CALL = 'after backend call'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CrashPoint:
    """The moment at which a process crashes, and the faults it meets; can be pickled."""

    moment: Moment = Moment.AFTER_COMMIT
    #: Number of the commit or call at which it gets the signal; 0 is never.
    number: int = 0
    #: SIGSTOP makes a zombie worker: it can be woken, and does not notice the gap.
    by: int = signal.SIGKILL
    #: Faults of the cloud for this process alone, in the syntax of Fault.parse.
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        crash = [f'{self.moment} {self.number}'] if self.number else []
        return ', '.join([*crash, *self.faults]) or 'undisturbed'


class Crash:
    """Sends this process a signal at one moment, and counts them all."""

    def __init__(self, crash_point: CrashPoint) -> None:
        self.counts = collections.Counter[Moment]()
        self._crash_point = crash_point
        self._lock = threading.Lock()

    def at(self, moment: Moment) -> None:
        """Count a moment; the chosen one is the last of this process."""
        with self._lock:
            self.counts[moment] += 1
            number = self.counts[moment]
        if (moment, number) == (self._crash_point.moment, self._crash_point.number):
            # The signal is sent to this thread: with any other receiver this thread would run
            # on for a moment, and could be stopped while it holds a lock of the database.
            signal.pthread_kill(threading.get_ident(), self._crash_point.by)


class CrashingBackend:
    """A backend whose process can crash when a call that changes it has been answered."""

    def __init__(self, compute: Compute, crash: Crash) -> None:
        self._compute = compute
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._compute, name)
        return functools.partial(self._change, method) if name in _CHANGES else method

    def _change(self, method: Callable[..., Any], /, *args: Any, **more: Any) -> Any:
        operation = method(*args, **more)
        # The first callback, so the engine does not know the answer.
        operation.add_done_callback(self._answered)
        return operation

    def _answered(self, operation: Any) -> None:
        if operation.exception() is None:
            self._crash.at(Moment.AFTER_CALL)


class CrashingStore:
    """A store whose process can crash before or after a commit."""

    def __init__(self, store: Store, crash: Crash) -> None:
        self._store = store
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextlib.contextmanager
    def writing(self, lease: Lease) -> Iterator[Batch]:
        """Write as the store does, and crash at the chosen commit."""
        with self._store.writing(lease) as batch:
            yield batch
            self._crash.at(Moment.BEFORE_COMMIT)
        self._crash.at(Moment.AFTER_COMMIT)

    def anything_left(self) -> bool:
        """Return True while an operation is open."""
        clusters = self._store.clusters.list()
        return any(self._store.operations.open(cluster.id) for cluster in clusters)


def work(site: Site, crash_point: CrashPoint) -> int:
    """Work until no operation is open, or until the crash; return an exit status."""
    end = time.monotonic() + _LONGEST_S
    crash = Crash(crash_point)
    with site.open_store() as opened:
        store = CrashingStore(opened, crash)

        def open_backend() -> Any:
            return CrashingBackend(site.open_backend(crash_point.faults), crash)

        with site.conducting(store, open_backend):
            while store.anything_left():
                if time.monotonic() > end:
                    return 1
                time.sleep(_POLL_S)
    (site.folder / _COUNTS).write_text(json.dumps(crash.counts))
    return 0


def counted(folder: Path) -> Mapping[str, int]:
    """Return how many of each moment the last process had that came to its end."""
    counts: Mapping[str, int] = json.loads((folder / _COUNTS).read_text())
    return counts
