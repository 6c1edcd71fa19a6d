"""Values of a site for its metrics, read from the store and from the conductor of a process."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kiln.clock import SYSTEM_CLOCK, Clock
from kiln.clusters.models import NodeState, OperationKind, OperationState
from kiln.clusters.status import ClusterStatus
from kiln.db.records.census import Census
from kiln.db.store import Store
from kiln.db.tables.schema import REVISION
from kiln.engine.conductor import Conductor
from kiln.exceptions import KilnError

LOG = logging.getLogger(__name__)

#: By metric: the values by its labels.
Values = Mapping[str, Mapping[tuple[str, ...], float]]
_NODES = tuple(state for state in NodeState if state is not NodeState.GONE)
_OPEN = tuple(state for state in OperationState if not state.ended)


class SharedCensus:
    """A census that scrapes share for a few seconds; a store that hangs blocks none of them.

    Each census is taken on a thread of its own, and while one is under way no other begins.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock = SYSTEM_CLOCK,
        *,
        keep_s: float = 5.0,
        wait_s: float = 2.0,
    ) -> None:
        """Take the store.

        :param keep_s: seconds until the next census is taken.
        :param wait_s: seconds that a caller waits for one.
        """
        self._store = store
        self._clock = clock
        self._keep_s, self._wait_s = keep_s, wait_s
        self._changed = threading.Condition()
        self._under_way = False
        self._taken: Census | None = None
        self._error: Exception | None = None
        self._begun_at = self._ended_at = -keep_s
        #: How long the last one took.
        self.took_s = 0.0

    def take(self) -> Census:
        """Return a census that is at most a few seconds old.

        :raises KilnError: the store cannot be read.
        :raises TimeoutError: it has not answered in time.
        """
        give_up = self._clock.monotonic() + self._wait_s
        with self._changed:
            if not self._under_way and self._clock.monotonic() >= self._ended_at + self._keep_s:
                self._under_way, self._begun_at = True, self._clock.monotonic()
                threading.Thread(target=self._run, name='kiln-census', daemon=True).start()
            while self._under_way and (left_s := give_up - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left_s)
            if self._under_way:
                silent_s = self._clock.monotonic() - self._begun_at
                raise TimeoutError(f'The store has not answered for {silent_s:.0f} s.')
            if self._error is not None:
                raise self._error
            assert self._taken is not None
            return self._taken

    def _run(self) -> None:
        taken: Census | None = None
        error: Exception | None = None
        try:
            taken = self._store.censuses.take()
        except KilnError as exc:
            error = exc
        # A defect must not leave a census under way for ever.
        except Exception as exc:
            LOG.exception('Cannot count the records of the store')
            error = exc
        with self._changed:
            self._ended_at = self._clock.monotonic()
            self.took_s = self._ended_at - self._begun_at
            self._taken, self._error, self._under_way = taken, error, False
            self._changed.notify_all()


class SiteMetrics:
    """The values of a site's metrics, as its store and a conductor have them now."""

    def __init__(self, census: SharedCensus, conductor: Callable[[], Conductor | None]) -> None:
        self._census = census
        self._conductor = conductor

    def values(self) -> Values:
        """Return the values by metric; those of a store that cannot be read are absent."""
        found: dict[str, Mapping[tuple[str, ...], float]] = {'kiln_store_up': {(): 0.0}}
        if (conductor := self._conductor()) is not None:
            found['kiln_conductor_clusters'] = {(): conductor.clusters}
            if (polled_at := conductor.watch.polled_at) is not None:
                found['kiln_last_poll_timestamp_seconds'] = {(): polled_at}
        try:
            census = self._census.take()
        # The metric reports it, and the conductor logs it.
        except Exception:
            return found
        return {**found, **_of(census), 'kiln_store_census_seconds': {(): self._census.took_s}}


def _of(census: Census) -> Values:
    kinds_and_states = itertools.product(OperationKind, _OPEN)
    return {
        'kiln_store_up': {(): 1.0},
        'kiln_store_size_bytes': {(): census.size_bytes},
        'kiln_store_schema_info': {(census.revision, REVISION): 1.0},
        'kiln_store_schema_current': {(): float(census.revision == REVISION)},
        'kiln_clusters': _counts(((one,) for one in ClusterStatus), _single(census.clusters)),
        'kiln_nodes': _counts(((one,) for one in _NODES), _single(census.nodes)),
        'kiln_operations_open': _counts(kinds_and_states, census.operations),
        'kiln_leases': {('held',): census.leases_held, ('expired',): census.leases_expired},
        'kiln_work_waiting': {(): census.work_waiting},
    }


def _single(counts: Mapping[Any, int]) -> Mapping[tuple[Any, ...], int]:
    return {(key,): count for key, count in counts.items()}


def _counts(
    labels: Iterable[tuple[Any, ...]], counts: Mapping[tuple[Any, ...], int]
) -> Mapping[tuple[str, ...], float]:
    """Return a value for all labels, so that none is born with its first record."""
    return {tuple(map(str, one)): float(counts.get(one, 0)) for one in labels}
