"""Template merging: a cluster and its template as one complete specification."""

from __future__ import annotations

import dataclasses

from kiln.clusters.exceptions import InvalidCluster, Problem
from kiln.clusters.spec import ClusterSpec, ClusterTemplate, effective


def combined(template: ClusterTemplate, spec: ClusterSpec) -> ClusterSpec:
    """Return a cluster with the values of its template filled in.

    The cluster has precedence. A group of the cluster replaces the template's group of
    the same name as a whole. The other groups of the template are kept, and groups that
    only the cluster has follow. Merging again changes nothing.

    :raises InvalidCluster: neither the cluster nor the template has groups.
    """
    own = {group.name: group for group in spec.groups}
    theirs = {group.name for group in template.groups}
    groups = (
        *(own.get(group.name, group) for group in template.groups),
        *(group for group in spec.groups if group.name not in theirs),
    )
    if not groups:
        message = f'Neither the cluster nor its template {template.name!r} has nodes.'
        raise InvalidCluster([Problem(message=message, path='nodegroups')])
    machine = effective(template=template.machine, cluster=spec.machine).machine
    return dataclasses.replace(
        spec,
        coe=template.coe if spec.coe is None else spec.coe,
        driver=template.driver if spec.driver is None else spec.driver,
        machine=machine,
        groups=groups,
    )
