"""Silent backends of settled clusters: reported once, and until they answer again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kiln.clusters.models import MACHINES_SEEN, MACHINES_UNSEEN, Cause, Event, Node
from kiln.engine.context import Parts
from kiln.engine.health.machine_state import watched

LOG = logging.getLogger(__name__)

#: By cluster id, its nodes.
ByCluster = Mapping[str, Sequence[Node]]


class SilentBackends:
    """Writes an event for each cluster whose machines cannot be polled, and one when they can.

    The states of the nodes are left unchanged, so without the event nobody would notice.
    """

    def __init__(self, parts: Parts) -> None:
        self._events = parts.store.events
        self._clock = parts.clock
        #: The backends that do not answer.
        self._silent: set[str] = set()
        #: Clusters and backends whose last event is that the machines cannot be polled.
        self._unseen: set[tuple[str, str]] = set()

    def load(self) -> None:
        """Continue from what another conductor has written."""
        self._unseen.clear()
        for event in reversed(self._events.newest((MACHINES_SEEN, MACHINES_UNSEEN))):
            key = event.cluster_id, str(event.facts.get('backend', ''))
            if event.kind == MACHINES_UNSEEN:
                self._unseen.add(key)
            else:
                self._unseen.discard(key)

    def report(self, clusters: ByCluster, backend: str, cause: Cause | None) -> None:
        """Record that a backend does not answer, or, without a cause, that it does."""
        if cause is None:
            self._write(
                MACHINES_SEEN,
                f'the machines on {backend} can be polled again',
                backend,
                [one for one, name in sorted(self._unseen) if name == backend],
            )
            if backend in self._silent:
                LOG.warning('Backend %s answers the polls of its machines again', backend)
            self._silent.discard(backend)
            return
        self._write(
            MACHINES_UNSEEN,
            f'the machines on {backend} cannot be polled: {cause.message}',
            backend,
            [one for one, nodes in clusters.items() if self._is_new(one, nodes, backend)],
        )
        if backend not in self._silent:
            LOG.warning(
                'Backend %s does not answer the polls of its machines: %s', backend, cause.message
            )
        self._silent.add(backend)

    def _is_new(self, cluster_id: str, nodes: Sequence[Node], backend: str) -> bool:
        if (cluster_id, backend) in self._unseen:
            return False
        return any(node.backend == backend for node in watched(nodes))

    def _write(self, kind: str, message: str, backend: str, cluster_ids: Sequence[str]) -> None:
        if not cluster_ids:
            return
        now, facts = self._clock.time(), {'backend': backend}
        self._events.add(
            *(
                Event(cluster_id=one, kind=kind, message=message, at=now, facts=facts)
                for one in cluster_ids
            )
        )
        keys = {(one, backend) for one in cluster_ids}
        self._unseen = self._unseen | keys if kind == MACHINES_UNSEEN else self._unseen - keys
