"""What a cluster is wanted to be: frozen values, checked by who reads them; no I/O.

The narrower scope wins: a node group over its cluster, a cluster over its
template. What a scope leaves open is None.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kiln.models import AmphoraType

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MachineSpec:
    """How the machines of a scope are made."""

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

    #: The backend chooses, and kiln does not ask where.
    ANY = 'any'
    #: Evenly over all zones that the backend has.
    SPREAD = 'spread'
    #: Evenly over the zones that are named.
    EVEN = 'even'
    #: As many in each zone as is written.
    COUNTS = 'counts'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Zones:
    """Where the nodes of a group go."""

    rule: ZoneRule = ZoneRule.ANY
    names: tuple[str, ...] = ()
    counts: Mapping[str, int] = dataclasses.field(default_factory=lambda: _NO_COUNTS)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Place:
    """A flavor in a zone; what is None is for the backend to choose."""

    flavor: str | None = None
    zone: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How many nodes, of which flavors, in which zones.

    ``flavors`` is empty where all are of the machine's flavor; else its counts
    add up to ``count``. So do those of the zones where there are any, and
    ``placements``, which say both at once and leave neither open.
    """

    count: int
    flavors: Mapping[str, int] = dataclasses.field(default_factory=lambda: _NO_COUNTS)
    zones: Zones = Zones()
    placements: Mapping[Place, int] = dataclasses.field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Portion:
    """So many, or so many of a hundred."""

    amount: int
    percent: bool = False

    def of(self, whole: int) -> int:
        """Return how many that is; a portion of a hundred is rounded down."""
        return math.floor(self.amount * whole / 100) if self.percent else self.amount

    def __str__(self) -> str:
        return f'{self.amount}%' if self.percent else str(self.amount)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """How nodes are replaced, rebooted and rebuilt while the cluster works."""

    max_surge: Portion = Portion(1)
    max_unavailable: Portion = Portion(0)
    #: Nodes at most under way at once; None is as many as the backend takes.
    batch: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fallback:
    """What is tried, in this order, where there is no room or no quota."""

    flavors: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """When a node is given up, and when too many are to be given up at all."""

    startup_timeout_s: float = 600.0
    unhealthy_after_s: float = 300.0
    #: The brake: with more than these unhealthy, none is replaced.
    max_unhealthy: Portion = Portion(40, percent=True)
    #: Replacements under way at once.
    max_in_flight: int = 1


class VictimRule(enum.StrEnum):
    """Who goes first when a group shrinks."""

    EXPLICIT = 'explicit'
    FAILED = 'failed'
    UNHEALTHY = 'unhealthy'
    ZONE_BALANCE = 'zone_balance'
    YOUNGEST = 'youngest'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NodeGroupSpec:
    """Nodes of one role that are made alike."""

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
    """What clusters have in common, under a name."""

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

    def group(self, name: str) -> NodeGroupSpec | None:
        """Return the group of a name."""
        return next((group for group in self.groups if group.name == name), None)


class Scope(enum.StrEnum):
    """Where a value was written."""

    GROUP = 'group'
    CLUSTER = 'cluster'
    TEMPLATE = 'template'
    DEFAULT = 'default'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Effective:
    """A machine with nothing left open, and where each of its values was written."""

    machine: MachineSpec
    #: By field; a parameter's is under ``parameters.NAME``.
    origins: Mapping[str, Scope]


def effective(
    *, template: MachineSpec, cluster: MachineSpec, group: MachineSpec, default: MachineSpec
) -> Effective:
    """Return what holds for a group: of each value the narrowest scope's."""
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
        for name, value in _given(machine):
            values[name], origins[name] = value, scope
        for name, value in machine.parameters.items():
            parameters[name], origins[f'parameters.{name}'] = value, scope
    machine = MachineSpec(**values, parameters=MappingProxyType(parameters))
    return Effective(machine=machine, origins=MappingProxyType(origins))


def _given(machine: MachineSpec) -> Iterable[tuple[str, Any]]:
    for field in dataclasses.fields(machine):
        if field.name != 'parameters' and (value := getattr(machine, field.name)) is not None:
            yield field.name, value
