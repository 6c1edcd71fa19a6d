"""Check of the arguments of a driver verb, and its run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kiln.cluster_drivers.answers import plain_mapping
from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.calls import call_driver
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, MissingCapability
from kiln.clusters.models import Cluster


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
    run, method = driver.verbs[verb].run, f'verb {verb}'
    answer = call_driver(
        driver.name, method, lambda: run(context=context, cluster=cluster, arguments=arguments)
    )
    return plain_mapping(driver.name, method, answer)
