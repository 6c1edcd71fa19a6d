"""Changes to the desired state of a cluster; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, effective, given


def with_groups(spec: ClusterSpec, changed: Iterable[NodeGroupSpec]) -> ClusterSpec:
    """Return a cluster with groups of the same names replaced."""
    by_name = {group.name: group for group in changed}
    groups = tuple(by_name.get(group.name, group) for group in spec.groups)
    return dataclasses.replace(spec, groups=groups)


def over(machine: MachineSpec, change: MachineSpec) -> MachineSpec:
    """Return a machine with a change applied."""
    return effective(cluster=machine, group=change).machine


def without(machine: MachineSpec, change: MachineSpec) -> MachineSpec:
    """Return a machine without the values that a change sets."""
    unset: dict[str, Any] = dict.fromkeys(name for name, _ in given(change))
    parameters = {
        name: value for name, value in machine.parameters.items() if name not in change.parameters
    }
    return dataclasses.replace(machine, parameters=parameters, **unset)
