"""A cluster with what its template says, as one specification that needs no template."""

from __future__ import annotations

import dataclasses

from kiln.cluster_exceptions import InvalidCluster, Problem
from kiln.cluster_spec import ClusterSpec, ClusterTemplate, MachineSpec, effective

_OPEN = MachineSpec()


def combined(template: ClusterTemplate, spec: ClusterSpec) -> ClusterSpec:
    """Return a cluster with everything filled in that it leaves to its template.

    What the cluster says wins. A group of the cluster stands, whole, in the
    place of the template's group of its name; the others of the template stay,
    and groups that only the cluster has follow. Repeating it changes nothing.

    :raises InvalidCluster: neither has a group.
    """
    own = {group.name: group for group in spec.groups}
    theirs = {group.name for group in template.groups}
    groups = (
        *(own.get(group.name, group) for group in template.groups),
        *(group for group in spec.groups if group.name not in theirs),
    )
    if not groups:
        message = f'The cluster has no nodes, and neither has its template {template.name!r}.'
        raise InvalidCluster([Problem(message=message, path='nodegroups')])
    machine = effective(
        template=template.machine, cluster=spec.machine, group=_OPEN, default=_OPEN
    ).machine
    return dataclasses.replace(
        spec,
        coe=template.coe if spec.coe is None else spec.coe,
        driver=template.driver if spec.driver is None else spec.driver,
        machine=machine,
        groups=groups,
    )
