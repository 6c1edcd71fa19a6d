"""A cluster that this process holds: its lease, its worker, and what its next round takes in."""

from __future__ import annotations

import collections
import enum
import logging
import math
from collections.abc import Callable, Iterable

from kiln.clusters.exceptions import ClusterNotFound, LeaseLost, StoreBroken, StoreError
from kiln.engine.cluster.held_lease import HeldLease
from kiln.engine.cluster.worker import Worker
from kiln.engine.failures import Failures

LOG = logging.getLogger(__name__)

Result = Callable[[], object]

#: The most results that one round takes in; others wait for the next one.
RESULTS = 1000


class RoundEnd(enum.Enum):
    """What becomes of a cluster after a round."""

    GOES_ON = enum.auto()
    #: Nothing is left to do.
    DONE = enum.auto()
    #: There is work left, which begins again from the store.
    BEGINS_AGAIN = enum.auto()
    #: The cluster was deleted.
    GONE = enum.auto()
    #: Another conductor has the lease.
    LOST = enum.auto()
    #: It cannot be worked on in this process.
    SHUNNED = enum.auto()


class HeldCluster:
    """Used by the conductor's thread, except ``run_round``, which runs on any thread.

    While a round is under way, the conductor only adds to it what the next one takes in.
    """

    def __init__(
        self,
        held: HeldLease,
        start: Callable[[HeldLease], Worker],
        not_before: float,
        failures: Failures,
    ) -> None:
        self.held = held
        self._start = start
        self._failures = failures
        #: When the first round begins: requests of a former owner can be in flight.
        self._not_before = not_before
        self._worker: Worker | None = None
        self._results: collections.deque[Result] = collections.deque()
        #: True if the next round reads first what others have written.
        self.reads = False
        #: True while a round is under way, or waits for a thread.
        self.running = False

    @property
    def due(self) -> float:
        """The monotonic time of the next round; infinite while one is under way."""
        if self.running:
            return math.inf
        if self._worker is None:
            return self._not_before
        return -math.inf if self._results or self.reads else self._worker.due

    def add(self, result: Result) -> None:
        """Add a result of something that was started under this lease."""
        self._results.append(result)

    def run_round(self) -> RoundEnd:
        """Run the next round.

        :raises StoreBroken: nothing can go on with the store.
        """
        scope = self.held.lease.scope
        what = f'Work on cluster {scope} failed, and begins again from the store'
        try:
            worker = self._ready_worker()
            if worker is None:
                return RoundEnd.SHUNNED
            worker.run_round(self._taken())
        except LeaseLost as exc:
            # The end of the conductor is an ordinary reason.
            LOG.log(logging.INFO if self.held.given_up else logging.WARNING, '%s', exc)
            return RoundEnd.LOST
        except ClusterNotFound:
            return RoundEnd.GONE
        except StoreBroken:
            raise
        # Whatever failed, nothing that was not written has happened: the next round begins
        # with what is in the store.
        except Exception as exc:
            self._failures.failed(what, exc)
            return RoundEnd.BEGINS_AGAIN
        self._failures.succeeded(what)
        if worker.idle:
            return RoundEnd.DONE
        return RoundEnd.BEGINS_AGAIN if worker.moved else RoundEnd.GOES_ON

    def _ready_worker(self) -> Worker | None:
        """Return the worker, as of what others have written; None if there can be none here."""
        reads, self.reads = self.reads, False
        if self._worker is not None:
            if reads:
                self._worker.reload()
            return self._worker
        try:
            self._worker = self._start(self.held)
        except (ClusterNotFound, LeaseLost, StoreError):
            raise
        # Its driver can be missing here and installed on another host.
        except Exception as exc:
            self._failures.failed(f'Cannot work on cluster {self.held.lease.scope} here', exc)
        return self._worker

    def _taken(self) -> Iterable[Result]:
        for _ in range(min(RESULTS, len(self._results))):
            yield self._results.popleft()
