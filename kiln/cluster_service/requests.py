"""What people ask of clusters: frozen values; clusters and nodes by name or id."""

from __future__ import annotations

import dataclasses

from kiln.clusters.spec import ClusterSpec, ClusterTemplate, MachineSpec

_SAME = MachineSpec()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declare:
    """A cluster is to be as it is declared: made, or changed, whatever that takes."""

    spec: ClusterSpec
    #: Those that came with it; others are looked for in the store.
    templates: tuple[ClusterTemplate, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resize:
    """A group is to have another count, and the nodes that are named go for it."""

    cluster: str
    #: May be left out where all that is removed is of one group.
    group: str | None = None
    #: None is as many fewer as are removed.
    count: int | None = None
    remove: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Replace:
    """Other nodes are to be made for some."""

    cluster: str
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Upgrade:
    """All nodes are to be made of something else: a few at a time, others in their place."""

    cluster: str
    #: What changes; what is None stays, and parameters are merged key by key.
    machine: MachineSpec = _SAME
    #: Empty is all.
    groups: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MoveDriver:
    """A cluster is to belong to another cluster driver, or another version of its own."""

    cluster: str
    #: 'name' or 'name==1.2.*'; None is the newest of its own.
    driver: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GoBack:
    """A cluster is to be again what it was after the last operation that succeeded."""

    cluster: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reboot:
    """Nodes are to be rebooted, a few at a time."""

    cluster: str
    #: Empty is all.
    nodes: tuple[str, ...] = ()
    hard: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rebuild:
    """Nodes are to be made anew in their places, a few at a time."""

    cluster: str
    #: Empty is all.
    nodes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Adopt:
    """A machine that the site has made is to be a node of a group, which is one larger then."""

    cluster: str
    group: str
    amphora_id: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """The nodes are to be looked at, and compared with what is wanted; nothing is changed."""

    cluster: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Delete:
    """A cluster is to go, with all that was made for it."""

    cluster: str
    #: What does not go is given up: it stays where it is, and is on the receipt.
    force: bool = False


Request = (
    Declare
    | Resize
    | Replace
    | Upgrade
    | MoveDriver
    | GoBack
    | Reboot
    | Rebuild
    | Adopt
    | Check
    | Delete
)
