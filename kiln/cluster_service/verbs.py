"""Driver verbs: commands of a cluster's driver, run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.values import Context
from kiln.cluster_service.drivers import SiteDrivers
from kiln.clusters.exceptions import ClusterDriverError, ClusterDriverMismatch, MissingCapability
from kiln.clusters.models import Cluster, NodeState
from kiln.clusters.spec import MachineSpec
from kiln.db.store import Store
from kiln.engine.nodes.join_key import known_key


class Verbs:
    """Runs the verbs of cluster drivers. Can be used by several threads at once."""

    def __init__(
        self, store: Store, drivers: SiteDrivers, *, site: str, defaults: MachineSpec
    ) -> None:
        self._store, self._drivers = store, drivers
        self._site, self._defaults = site, defaults

    def run(
        self, driver: str, verb: str, cluster: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Run a verb, and return its answer; blocks as long as the driver takes.

        Can be repeated. It submits no operation, so nothing of it is journalled.

        :raises ClusterNotFound: the cluster does not exist.
        :raises ClusterDriverMismatch: the cluster belongs to another driver.
        :raises MissingCapability: the driver does not have the verb.
        :raises ClusterDriverError: an argument does not fit, or the verb failed.
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


def run_verb(
    driver: ClusterDriver, verb: str, context: Context, cluster: Cluster, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Run an operation of a driver with arguments that fit it; return what it answers.

    :raises MissingCapability: the driver has no such verb.
    :raises ClusterDriverError: an argument does not fit, or the verb failed.
    """
    if verb not in driver.verbs:
        known = ', '.join(sorted(driver.verbs)) or 'none'
        raise MissingCapability(
            f'Cluster driver {driver.name} has no verb {verb!r}.', f'It has: {known}.'
        )
    parameters = {one.name: one for one in driver.verbs[verb].parameters}
    arguments = {name: one.default for name, one in parameters.items()}
    wrong = [f'there is no {name}' for name in given if name not in parameters]
    for name, one in parameters.items():
        if given.get(name) is None:
            wrong += [f'{name} is missing'] if one.required else []
            continue
        arguments[name] = given[name]
        wrong += [f'{name}: {message}'] if (message := one.wrong(given[name])) else []
    if wrong:
        raise ClusterDriverError(
            f'Cannot run {verb} of cluster driver {driver.name}: {"; ".join(wrong)}.'
        )
    return driver.verbs[verb].run(context=context, cluster=cluster, arguments=arguments)
