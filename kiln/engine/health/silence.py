"""Silent backends of settled clusters: reported once, and until they answer again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.clusters.models import MACHINES_SEEN, MACHINES_UNSEEN, Cause, Event, Node
from kiln.engine.context import Parts
from kiln.engine.health.machine_state import watched

#: By cluster id, its nodes.
ByCluster = Mapping[str, Sequence[Node]]


class SilentBackends:
    """Writes an event for each cluster whose machines cannot be polled, and one when they can.

    The states of the nodes are left unchanged, so without the event nobody would notice.
    """

    def __init__(self, parts: Parts) -> None:
        self._events = parts.store.events
        self._clock = parts.clock
        self._log = parts.outages
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
            self._log.report(backend, None)
            return
        self._write(
            MACHINES_UNSEEN,
            unseen(backend, cause).message,
            backend,
            [one for one, nodes in clusters.items() if self._is_new(one, nodes, backend)],
        )
        self._log.report(backend, cause)

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


def unseen(backend: str, cause: Cause) -> Cause:
    """Return why the machines on a backend cannot be polled; the inner cause only if it adds."""
    message = f'the machines on {backend} cannot be polled: {cause.message}'
    inner = cause.because
    if inner is not None and inner.message in message:
        inner = None
    return Cause(code='not_seen', message=message, because=inner)
