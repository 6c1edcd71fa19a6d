"""The proof that nothing of a deleted cluster is left in any backend."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable

from kiln.clusters.models import OperationKind
from kiln.engine.nodes.cluster_state import ClusterState
from kiln.exceptions import AmphoraComputeError
from kiln.models import Amphora

LOG = logging.getLogger(__name__)

#: Polls in a row that must find nothing: one list can be older than the last delete.
POLLS = 2


class DeletionProof:
    """Polls backends for machines marked with a cluster's id, and deletes unknown ones."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._empty = 0
        self._next_at = 0.0
        #: Polls in a row that proved nothing, and what the last poll found.
        self.failures = 0
        self.left: tuple[tuple[str, str], ...] = ()
        #: True while a poll is under way.
        self.busy = False

    @property
    def complete(self) -> bool:
        """True if nothing is left."""
        return self._empty >= POLLS

    def poll_when_due(self, names: Iterable[str]) -> None:
        """Poll the backends after the commit, if no poll is under way and it is time for one."""
        if not self.busy and self._state.tx.monotonic >= self._next_at:
            self.busy = True
            self._state.tx.launches.append(functools.partial(self._poll, set(names)))

    def take(self, found: tuple[tuple[str, str], ...], error: BaseException | None) -> None:
        """Take in what a poll found, and poll once more after a while.

        What is left is deleted only after the commit, which proves that the lease is still
        held: otherwise it could be a node of another owner by now.
        """
        self.busy = False
        tx, before = self._state.tx, self.left
        if error is None:
            self.left = found
        else:
            LOG.warning('Cannot check what is left of cluster %s: %s', tx.cluster.id, error)
        proved = error is None and not found
        self._empty = self._empty + 1 if proved else 0
        self.failures = 0 if proved else self.failures + 1
        # Deletions take time, and so does the recovery of a backend that did not answer. And
        # the next list must not be as old as this one.
        self._next_at = tx.monotonic + self._state.parts.settings.settle_s
        operation = tx.operation
        if operation is None or operation.cancelled or operation.kind is not OperationKind.DELETE:
            return
        # What only one list has can have gone since with its node.
        for name, amphora_id in (one for one in found if one in before):
            tx.event(
                'stray-deleted',
                f'Machine {amphora_id} on {name} is deleted: it is not recorded, and its cluster '
                f'is being deleted',
            )
            tx.launches.append(functools.partial(self._delete, name, amphora_id))
        if not self.complete:
            self._state.nodes.wake_at(self._next_at)

    def _delete(self, name: str, amphora_id: str) -> None:
        LOG.warning('Deleting machine %s on %s: it is not recorded for cluster %s, which is '
                    'being deleted', amphora_id, name, self._state.tx.cluster.id)  # fmt: skip
        try:
            self._state.parts.backends.get(name).delete(amphora_id)
        except AmphoraComputeError as exc:
            LOG.warning('Cannot delete machine %s now: %s', amphora_id, exc)

    def _poll(self, pending: set[str]) -> None:
        if not pending:
            self._report((), None)
        found: list[tuple[str, str]] = []
        for name in sorted(pending):
            try:
                listing = self._state.parts.backends.get(name).list_amphorae()
            # A backend that cannot be opened cannot be proven empty.
            except Exception as exc:
                pending.clear()
                self._report((), exc)
                return
            self._state.when_done(listing, functools.partial(self._listed, name, pending, found))

    def _report(self, found: tuple[tuple[str, str], ...], error: Exception | None) -> None:
        self._state.call_soon(functools.partial(self.take, found, error))

    def _listed(
        self,
        name: str,
        pending: set[str],
        found: list[tuple[str, str]],
        amphorae: Iterable[Amphora],
        error: BaseException | None,
    ) -> None:
        if name not in pending:
            return
        pending.discard(name)
        if error is not None:
            pending.clear()
            self.take((), error)
            return
        cluster_id = self._state.tx.cluster.id
        found += [(name, one.id) for one in amphorae if one.metadata.get('cluster') == cluster_id]
        if not pending:
            self.take(tuple(found), None)
