"""Cluster file of the kit: groups of two roles, as a user writes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kiln.cluster_drivers.base import ClusterDriver
from kiln.cluster_drivers.discovery.manifest import from_class
from kiln.cluster_drivers.records import WILDCARD
from kiln.cluster_file.reading import read
from kiln.cluster_file.writing import dump
from kiln.clusters.spec import ClusterSpec, Health, MachineSpec, Strategy
from kiln.testing.clusters import samples

#: The name of the cluster of the kit.
CLUSTER = 'kit'
#: Seconds of virtual time that an operation can take.
LONGEST_S = 600.0
#: Seconds of virtual time that the drain of a node can take.
DRAIN_S = 60.0
#: Seconds of virtual time after which a node that does not become ready is given up.
STARTUP_S = 120.0


def cluster_file(
    driver_class: type[ClusterDriver], machine: MachineSpec, counts: Mapping[str, int]
) -> str:
    """Return the text of a file that declares a cluster.

    :param counts: The number of nodes of each role.
    """
    system = (from_class(driver_class).provides or ())[0].os
    named = driver_class.name if system == WILDCARD else f'{driver_class.name}:{system}'
    strategy, health = Strategy(drain_timeout_s=DRAIN_S), Health(startup_timeout_s=STARTUP_S)
    groups = tuple(
        dataclasses.replace(one, strategy=strategy, health=health)
        for one in samples.groups(counts)
    )
    spec = ClusterSpec(
        name=CLUSTER, driver=named, groups=groups, machine=machine,
        create_timeout_s=LONGEST_S,
    )  # fmt: skip
    return dump(spec)


def declared(text: str) -> ClusterSpec:
    """Return the cluster that a file declares, as ``kiln up`` reads it."""
    (spec,) = read(text, 'kit.yaml').clusters
    return spec
