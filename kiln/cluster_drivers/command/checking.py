"""Check of the values of a cluster against the parameters that a driver declares; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kiln.cluster_drivers.parameters import Parameter
from kiln.cluster_drivers.values import Context
from kiln.clusters.exceptions import ClusterDriverError, Problem
from kiln.clusters.models import Cluster
from kiln.clusters.spec import Scope


def value_problems(
    context: Context, cluster: Cluster, parameters: Mapping[str, Parameter]
) -> Iterator[Problem]:
    """Yield what is wrong with the parameters of each group, with its place in the file.

    A mistake in the cluster's own parameters is yielded for each group.
    """
    for group in cluster.spec.groups:
        found = context.effective(cluster, group.name)
        place = f'nodegroups[{group.name}]'
        for name, value in found.machine.parameters.items():
            own = found.origins[f'parameters.{name}'] is Scope.GROUP
            if message := _wrong(context, parameters, name, value):
                path = f'parameters.{name}'
                yield Problem(message=message, path=f'{place}.{path}' if own else path)
        for name, one in parameters.items():
            if one.required and found.machine.parameters.get(name) is None:
                yield Problem(message=f'the driver needs parameter {name}', path=place)


def _wrong(context: Context, parameters: Mapping[str, Parameter], name: str, value: Any) -> str:
    one = parameters.get(name)
    if one is None:
        return f'the driver has no such parameter; it has {", ".join(parameters) or "none"}'
    if value is None:
        return ''
    if (wrong := one.wrong(value)) or not one.secret:
        return wrong
    try:
        context.secrets.get(value)
    except ClusterDriverError as exc:
        return str(exc)
    return ''
