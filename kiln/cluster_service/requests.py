"""Requests for clusters: frozen values that name clusters and nodes by name or id."""

from __future__ import annotations

import dataclasses
import enum

from kiln.clusters.spec import ClusterSpec, ClusterTemplate, MachineSpec

_SAME = MachineSpec()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Root of all requests; :class:`~kiln.cluster_service.planning.Planning` plans each."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declare(Request):
    """Create the cluster that is declared, or change it to what is declared."""

    spec: ClusterSpec
    #: Templates declared with it; others are read from the store.
    templates: tuple[ClusterTemplate, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class AdoptExisting(Declare):
    """Create the cluster that is declared from what exists in the engine of its driver."""

    #: What users call it, such as the name or the id of a stack.
    existing: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TakeOver(Declare):
    """Create the cluster that is declared from machines that exist."""

    #: The group of each machine, and its id in the backend of the group.
    machines: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resize(Request):
    """Change the count of a group, and remove the named nodes for it."""

    cluster: str
    #: Can be left out if all removed nodes belong to one group.
    group: str | None = None
    #: None reduces the count by the number of removed nodes.
    count: int | None = None
    remove: tuple[str, ...] = ()
    #: Remove the named nodes even if the cluster's driver does not let them go.
    force: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Replace(Request):
    """Replace some nodes by new ones."""

    cluster: str
    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Upgrade(Request):
    """Replace all nodes by nodes of another machine spec, a few at a time."""

    cluster: str
    #: What changes; None leaves a value as it is, and parameters are merged key by key.
    machine: MachineSpec = _SAME
    #: Empty means all.
    groups: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MoveDriver(Request):
    """Move a cluster to another cluster driver, or to another version of its own."""

    cluster: str
    #: 'name' or 'name==1.2.*'; None is the newest version of its own.
    driver: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GoBack(Request):
    """Return a cluster to its state after the last operation that succeeded."""

    cluster: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reboot(Request):
    """Reboot nodes, a few at a time."""

    cluster: str
    #: Empty means all.
    nodes: tuple[str, ...] = ()
    hard: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rebuild(Request):
    """Rebuild nodes in their places, a few at a time."""

    cluster: str
    #: Empty means all.
    nodes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Adopt(Request):
    """Take a machine of the site into a group as a node; the count grows by one."""

    cluster: str
    group: str
    amphora_id: str


class Rotated(enum.StrEnum):
    """What a rotation renews."""

    CREDENTIAL = 'credential'
    CA_CERTIFICATE = 'ca_certificate'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rotate(Request):
    """Give a cluster new credentials for the cloud, or a new certificate authority."""

    cluster: str
    what: Rotated


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Check(Request):
    """Compare the nodes with the desired state; nothing is changed."""

    cluster: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Delete(Request):
    """Delete a cluster, and everything that was created for it."""

    cluster: str
    #: Abandon what cannot be deleted: it stays, and is listed on the receipt.
    force: bool = False
