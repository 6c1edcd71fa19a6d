"""Cluster declared from machines that exist: groups, flavors, images, zones and networks; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from kiln.clusters.spec import ClusterSpec, MachineSpec, NodeGroupSpec, Shape, ZoneRule, Zones
from kiln.models import Amphora

_LONGEST = 32


def spec_of(name: str, groups: Mapping[str, Sequence[Amphora]]) -> ClusterSpec:
    """Return the cluster whose nodes some machines can be, by group.

    Values that all machines of a group have are those of the group; of images and networks that
    differ, those that most of its machines have.
    """
    plain = re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')
    return ClusterSpec(
        name=plain[:_LONGEST].strip('-') or 'adopted',
        coe='nodes',
        groups=tuple(_group(group, machines) for group, machines in groups.items()),
    )


def _group(name: str, machines: Sequence[Amphora]) -> NodeGroupSpec:
    flavors = Counter(one.flavor for one in machines if one.flavor)
    zones = Counter(one.availability_zone for one in machines if one.availability_zone)
    networks = Counter(_networks(one) for one in machines)
    images = Counter(one.image_id for one in machines)
    whole = len(machines)
    mixed = dict(sorted(flavors.items())) if len(flavors) > 1 else {}
    placed = sum(zones.values()) == whole
    return NodeGroupSpec(
        name=name,
        shape=Shape(
            count=whole,
            flavors=mixed if sum(mixed.values()) == whole else {},
            zones=Zones(rule=ZoneRule.COUNTS, counts=dict(sorted(zones.items())))
            if placed
            else Zones(),
        ),
        machine=MachineSpec(
            image=images.most_common(1)[0][0],
            flavor=None if mixed else next(iter(flavors), None),
            networks=networks.most_common(1)[0][0] or None,
        ),
    )


def _networks(machine: Amphora) -> tuple[str, ...]:
    """Return the networks of a machine in order, each once."""
    return tuple(dict.fromkeys(one.network_id for one in machine.addresses if one.network_id))
