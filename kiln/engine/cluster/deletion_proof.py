"""The proof that nothing of a deleted cluster is left in any backend."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from kiln.clusters.models import OperationKind
from kiln.engine.context import Backends
from kiln.engine.nodes.transaction import Transaction
from kiln.engine.results import ActionResult
from kiln.exceptions import AmphoraComputeError

LOG = logging.getLogger(__name__)

#: Polls in a row that must find nothing: one list can be older than the last delete.
LOOKS = 2


class DeletionProof:
    """Polls backends for machines marked with a cluster's id, and deletes unknown ones."""

    def __init__(
        self, cluster_id: str, backends: Backends, tell: Callable[[ActionResult], None]
    ) -> None:
        self._cluster_id = cluster_id
        self._backends = backends
        self._tell = tell
        self._empty = 0
        #: Polls in a row that proved nothing, and what the last poll found.
        self.in_vain = 0
        self.left: tuple[tuple[str, str], ...] = ()
        #: True while a poll is under way.
        self.busy = False

    @property
    def proven(self) -> bool:
        """True if nothing is left."""
        return self._empty >= LOOKS

    def look(self, names: Iterable[str]) -> None:
        """Start a poll of the backends; what it finds is reported as a result."""
        self.busy = True
        pending = set(names)
        if not pending:
            self._tell(ActionResult(self._cluster_id, value=()))
            return
        found: list[tuple[str, str]] = []
        for name in sorted(pending):
            try:
                listing = self._backends.get(name).list_amphorae()
            # A backend that cannot be opened cannot be proven empty.
            except Exception as exc:
                self._tell(ActionResult(self._cluster_id, error=exc))
                return
            listing.add_done_callback(functools.partial(self._listed, name, pending, found))

    def learn(self, news: ActionResult, tx: Transaction) -> bool:
        """Take in what was found; return whether to poll once more, later.

        What is left is deleted only after the commit, which proves that the lease is still
        held: otherwise it could be a node of another owner by now.
        """
        self.busy = False
        if news.error is not None:
            LOG.warning('Cannot check what is left of cluster %s: %s',
                        self._cluster_id, news.error)  # fmt: skip
            self._empty, self.in_vain = 0, self.in_vain + 1
            return True
        self.left = news.value
        self._empty = 0 if news.value else self._empty + 1
        self.in_vain = self.in_vain + 1 if news.value else 0
        operation = tx.operation
        if operation is None or operation.cancelled or operation.kind is not OperationKind.DELETE:
            return False
        for name, amphora_id in news.value:
            tx.tell(
                'stray-deleted',
                f'Machine {amphora_id} on {name} is deleted: it is not recorded, and its cluster '
                f'is being deleted',
            )
            tx.launches.append(functools.partial(self._delete, name, amphora_id))
        return not self.proven

    def _delete(self, name: str, amphora_id: str) -> None:
        LOG.warning('Deleting machine %s on %s: it is not recorded for cluster %s, which is '
                    'being deleted', amphora_id, name, self._cluster_id)  # fmt: skip
        try:
            self._backends.get(name).delete(amphora_id)
        except AmphoraComputeError as exc:
            LOG.warning('Cannot delete machine %s now: %s', amphora_id, exc)

    def _listed(
        self, name: str, pending: set[str], found: list[tuple[str, str]], listing: Any
    ) -> None:
        if name not in pending:
            return
        pending.discard(name)
        if (error := listing.exception()) is not None:
            pending.clear()
            self._tell(ActionResult(self._cluster_id, error=error))
            return
        found += [
            (name, amphora.id)
            for amphora in listing.result()
            if amphora.metadata.get('cluster') == self._cluster_id
        ]
        if not pending:
            self._tell(ActionResult(self._cluster_id, value=tuple(found)))
