"""What only the driver of a cluster can do: asked in this process, of the cluster as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.values import Context
from kiln.cluster_drivers.verbs import run_verb
from kiln.cluster_exceptions import ClusterDriverMismatch
from kiln.cluster_models import NodeState
from kiln.cluster_spec import MachineSpec
from kiln.clusters.drivers import SiteDrivers
from kiln.db.store import Store
from kiln.engine.joining import known_key


class Verbs:
    """Runs the verbs of cluster drivers. May be used by several threads at once."""

    def __init__(
        self, store: Store, drivers: SiteDrivers, *, site: str, defaults: MachineSpec
    ) -> None:
        self._store, self._drivers = store, drivers
        self._site, self._defaults = site, defaults

    def run(
        self, driver: str, verb: str, cluster: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Run a verb, and return its answer; blocks as long as the driver takes.

        May be repeated. It enters no operation, so nothing of it is journalled.

        :raises ClusterNotFound: there is no such cluster.
        :raises ClusterDriverMismatch: the cluster belongs to another driver.
        :raises MissingCapability: the driver has no such verb.
        :raises ClusterDriverError: an argument does not fit, or it failed.
        """
        there = self._store.clusters.get(cluster)
        if there.pin.name != driver:
            raise ClusterDriverMismatch(
                f'Cannot run {verb} of {driver}: cluster {there.name!r} belongs to '
                f'{there.pin.name}.'
            )
        nodes = self._store.nodes.of(there.id)
        context = Context(
            site=self._site,
            defaults=self._defaults,
            nodes=tuple(node for node in nodes if node.state is not NodeState.GONE),
            join_key=lambda: known_key(self._store, there.id),
        )
        return run_verb(self._drivers.open(there.pin), verb, context, there, arguments)
