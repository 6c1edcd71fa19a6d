"""Facts about a cluster driver that only its author knows, for the conformance kit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.cluster_drivers.values import PlannedChange
from kiln.clusters.models import Cluster, Node

#: How many nodes of a role must stay ready: a number, or a function of how many there are.
Least = int | Callable[[int], int]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change of a cluster, which its driver checks before it begins."""

    #: The cluster as it is to be.
    cluster: Cluster
    #: The nodes that it has.
    nodes: Sequence[Node]
    plan: PlannedChange


class Expectations:
    """What a driver's author expects of it; the kit compares the driver with that.

    A driver class names its expectations, as ``bench = '.bench:Pages'`` beside its own module or
    with the full path. A bench that plays machines has the same attributes. Each method is
    about the nodes of one cluster.
    """

    #: The number of nodes of each role, if the driver needs certain ones.
    groups: Mapping[str, int] = MappingProxyType({})
    #: By role: the nodes that must stay ready while others go.
    least: Mapping[str, Least] = MappingProxyType({})
    #: Clusters that the driver refuses, by the nodes of each role.
    refused_groups: Sequence[Mapping[str, int]] = ()
    #: Values of parameters that the driver refuses, each alone.
    refused: Sequence[Mapping[str, Any]] = ()
    #: Values of parameters that the driver takes, each alone.
    accepted: Sequence[Mapping[str, Any]] = ()
    #: Verbs, each with arguments that it refuses without asking a machine.
    refused_arguments: Sequence[tuple[str, Mapping[str, Any]]] = ()

    @staticmethod
    def staying(nodes: Sequence[Node]) -> Collection[Node] | None:
        """Return the nodes that never go, while all others can; None if that is not known."""
        return None

    @staticmethod
    def refused_changes(cluster: Cluster, nodes: Sequence[Node]) -> Sequence[Change]:
        """Return changes that the driver refuses, made from a cluster and its nodes."""
        return ()

    @staticmethod
    def accepted_changes(cluster: Cluster, nodes: Sequence[Node]) -> Sequence[Change]:
        """Return changes that the driver accepts, made from a cluster and its nodes."""
        return ()

    @staticmethod
    def expected_outputs(nodes: Sequence[Node]) -> Mapping[str, Any] | None:
        """Return the outputs of a cluster; None if that is not known."""
        return None

    @staticmethod
    def expected_readings(nodes: Sequence[Node]) -> Mapping[str, float | None] | None:
        """Return what a monitor that asks no machine measures; None if that is not known."""
        return None

    @staticmethod
    def expected_answers(
        nodes: Sequence[Node],
    ) -> Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
        """Return verbs that ask no machine, with arguments, and what they answer."""
        return ()
