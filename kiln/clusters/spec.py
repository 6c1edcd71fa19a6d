"""Cluster, group and template specs: frozen values without I/O.

The narrower scope wins: a node group over its cluster, a cluster over its template. A
value that a scope leaves open is None.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kiln.models import AmphoraType

#: The most nodes of a group: what plans it is to remain quick.
MOST_NODES = 10_000
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MachineSpec:
    """How the machines of a scope are built."""

    compute_driver: str | None = None
    server_type: AmphoraType | None = None
    image: str | None = None
    flavor: str | None = None
    keys: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    sec_groups: tuple[str, ...] | None = None
    #: For the templates of the cluster driver; merged key by key.
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)


class ZoneRule(enum.StrEnum):
    """How the nodes of a group are spread over zones."""

    #: The backend chooses, and kiln does not read where.
    ANY = 'any'
    #: Evenly over all zones of the backend.
    SPREAD = 'spread'
    #: Evenly over the named zones.
    EVEN = 'even'
    #: An explicit number in each zone.
    COUNTS = 'counts'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Zones:
    """The zones of the nodes of a group."""

    rule: ZoneRule = ZoneRule.ANY
    names: tuple[str, ...] = ()
    counts: Mapping[str, int] = dataclasses.field(default_factory=lambda: _NO_COUNTS)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Place:
    """A flavor in a zone; the backend chooses what is None."""

    flavor: str | None = None
    zone: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The number of nodes, their flavors and their zones.

    ``flavors`` is empty if all nodes have the machine's flavor; otherwise its counts add up
    to ``count``. So do the counts of the zones, if there are any, and ``placements``, which
    set flavor and zone together.
    """

    count: int
    flavors: Mapping[str, int] = dataclasses.field(default_factory=lambda: _NO_COUNTS)
    zones: Zones = Zones()
    placements: Mapping[Place, int] = dataclasses.field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Portion:
    """A number, or a percentage."""

    amount: int
    percent: bool = False

    def of(self, whole: int) -> int:
        """Return the number for a whole; a percentage is rounded down."""
        return math.floor(self.amount * whole / 100) if self.percent else self.amount

    def __str__(self) -> str:
        return f'{self.amount}%' if self.percent else str(self.amount)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """How nodes are replaced, rebooted and rebuilt while the cluster works."""

    max_surge: Portion = Portion(1)
    max_unavailable: Portion = Portion(0)
    #: The most nodes under way at once; None: as many as the backend takes.
    batch: int | None = None
    #: How long a node that goes can be drained; None: until the operation's deadline.
    drain_timeout_s: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fallback:
    """What to try, in this order, if room or quota is lacking."""

    flavors: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """When a node is given up, and when too many are unhealthy to give any up."""

    startup_timeout_s: float = 600.0
    unhealthy_after_s: float = 300.0
    #: The brake: if more than this are unhealthy, no node is replaced.
    max_unhealthy: Portion = Portion(40, percent=True)
    #: Replacements under way at once.
    max_in_flight: int = 1


class VictimRule(enum.StrEnum):
    """A rule for which nodes are removed first when a group shrinks."""

    EXPLICIT = 'explicit'
    FAILED = 'failed'
    UNHEALTHY = 'unhealthy'
    ZONE_BALANCE = 'zone_balance'
    YOUNGEST = 'youngest'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeGroupSpec:
    """Nodes of one role that are built alike."""

    name: str
    shape: Shape
    role: str = 'worker'
    machine: MachineSpec = MachineSpec()
    min_count: int = 0
    max_count: int | None = None
    strategy: Strategy = Strategy()
    fallback: Fallback = Fallback()
    health: Health = Health()
    deletion: tuple[VictimRule, ...] = tuple(VictimRule)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterTemplate:
    """Values that clusters share, under a name."""

    name: str
    coe: str | None = None
    #: 'name', 'name==1.2.*' or 'name:os'.
    driver: str | None = None
    machine: MachineSpec = MachineSpec()
    groups: tuple[NodeGroupSpec, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSpec:
    """One cluster, as its owner declares it."""

    name: str
    template: str | None = None
    coe: str | None = None
    driver: str | None = None
    machine: MachineSpec = MachineSpec()
    groups: tuple[NodeGroupSpec, ...] = ()
    create_timeout_s: float = 3600.0
    #: The name of the secret with the credentials of its owner, for its driver.
    credentials: str | None = None

    @property
    def count(self) -> int:
        """The number of nodes of all groups."""
        return sum(group.shape.count for group in self.groups)

    def group(self, name: str) -> NodeGroupSpec | None:
        """Return the group with a name; None if it does not exist."""
        return next((group for group in self.groups if group.name == name), None)


_OPEN = MachineSpec()


class Scope(enum.StrEnum):
    """The scope in which a value was written."""

    GROUP = 'group'
    CLUSTER = 'cluster'
    TEMPLATE = 'template'
    DEFAULT = 'default'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Effective:
    """A machine with all defaults filled in, and the scope of each value."""

    machine: MachineSpec
    #: By field; a parameter is under ``parameters.NAME``.
    origins: Mapping[str, Scope]


def effective(
    *,
    template: MachineSpec = _OPEN,
    cluster: MachineSpec = _OPEN,
    group: MachineSpec = _OPEN,
    default: MachineSpec = _OPEN,
) -> Effective:
    """Return the machine of a group: each value from the narrowest scope that has it."""
    scopes = (
        (Scope.DEFAULT, default),
        (Scope.TEMPLATE, template),
        (Scope.CLUSTER, cluster),
        (Scope.GROUP, group),
    )
    values: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    origins: dict[str, Scope] = {}
    for scope, machine in scopes:
        for name, value in given(machine):
            values[name], origins[name] = value, scope
        for name, value in machine.parameters.items():
            parameters[name], origins[f'parameters.{name}'] = value, scope
    machine = MachineSpec(**values, parameters=MappingProxyType(parameters))
    return Effective(machine=machine, origins=MappingProxyType(origins))


def given(machine: MachineSpec) -> Iterable[tuple[str, Any]]:
    """Yield the name and value of each field that a machine sets, except parameters."""
    for field in dataclasses.fields(machine):
        if field.name != 'parameters' and (value := getattr(machine, field.name)) is not None:
            yield field.name, value
