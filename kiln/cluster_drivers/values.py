"""What crosses the contract of cluster drivers: frozen values; no I/O, no client of a cloud."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import hmac
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from kiln.clusters.exceptions import ClusterDriverError
from kiln.clusters.models import Cluster, Node, OperationKind
from kiln.clusters.spec import (
    ClusterTemplate,
    Effective,
    MachineSpec,
    NodeGroupSpec,
    Place,
    Shape,
    effective,
)
from kiln.models import InjectedFile

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Cap(enum.StrEnum):
    """What a cluster driver may lack; it has what it overrides, and says so nowhere else."""

    RESIZE = 'resize'
    UPGRADE = 'upgrade'
    REBUILD = 'rebuild'
    REBOOT = 'reboot'
    NODEGROUPS = 'nodegroups'
    ROTATE_CREDENTIAL = 'rotate_credential'
    ROTATE_CA_CERTIFICATE = 'rotate_ca_certificate'
    MONITOR = 'monitor'


class Secrets(Protocol):
    """Where secrets are kept; clusters and drivers know them by name only."""

    def get(self, name: str) -> str:
        """Return a secret.

        :raises ClusterDriverError: there is none of that name; the text quotes neither.
        """


class NoSecrets:
    """The store of a site that keeps none."""

    def get(self, name: str) -> str:
        """Refuse."""
        raise ClusterDriverError(
            'This site has no store of secrets.', 'Configure one, such as a directory of files.'
        )


def _no_key() -> bytes:
    raise ClusterDriverError('There is no key here that nodes could join with.')


def _no_console(node: Node) -> str:
    raise ClusterDriverError(f'Cannot read the console of node {node.name}: nobody can show it.')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """For whom a driver is called, and what it may know beside the cluster itself.

    It holds no client: a driver that talks to something of its own makes its own,
    with the credentials that are named here.
    """

    #: The kiln site; everything that is made for it carries its name.
    site: str = 'kiln'
    #: The name under which ``secrets`` has the credentials of the cluster's owner.
    credentials: str | None = None
    secrets: Secrets = dataclasses.field(default_factory=NoSecrets, repr=False)
    template: ClusterTemplate | None = None
    #: What holds where group, cluster and template are silent.
    defaults: MachineSpec = dataclasses.field(default_factory=MachineSpec)
    #: All nodes of the cluster that are not gone.
    nodes: tuple[Node, ...] = dataclasses.field(default=(), repr=False)
    #: Returns the key of the cluster, from which the tokens of its nodes are made; made
    #: when it is first asked for, and then the same for ever.
    join_key: Callable[[], bytes] = dataclasses.field(default=_no_key, repr=False)
    #: Returns the end of a node's console log, through the node's compute driver.
    console: Callable[[Node], str] = dataclasses.field(default=_no_console, repr=False)

    def group(self, cluster: Cluster, name: str) -> NodeGroupSpec:
        """Return a group as the cluster declares it, or else its template."""
        declared = cluster.spec.group(name)
        if declared is None and self.template is not None:
            declared = next((one for one in self.template.groups if one.name == name), None)
        # One that is declared no longer still has nodes to be drained.
        return declared or NodeGroupSpec(name=name, shape=Shape(count=0))

    def effective(self, cluster: Cluster, group: str) -> Effective:
        """Return what holds for the machines of a group, and who said so."""
        return effective(
            default=self.defaults,
            template=self.template.machine if self.template else MachineSpec(),
            cluster=cluster.spec.machine,
            group=self.group(cluster, group).machine,
        )


def join_token(context: Context, node: Node) -> str:
    """Return what a node proves with that it is this attempt of this node.

    The same for each call, so a build that is repeated sends the same; another for
    the next attempt, so a stray twin of the last one cannot join.

    :raises ClusterError: the cluster's key cannot be had.
    """
    message = f'{node.cluster_id}\0{node.id}\0{node.attempt}'
    return hmac.new(context.join_key(), message.encode(), hashlib.sha256).hexdigest()


class Progress(enum.StrEnum):
    """How far a foreign engine has come with what it was asked."""

    IN_PROGRESS = 'in_progress'
    COMPLETE = 'complete'
    FAILED = 'failed'
    # Its engine cannot be asked now. Never taken for FAILED, nor for gone.
    UNKNOWN = 'unknown'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StatusReport:
    """What a driver says of a cluster."""

    #: Of a foreign engine; None where kiln's own builds it, and knows.
    progress: Progress | None = None
    #: In the engine's own words, for people.
    reason: str = ''
    #: Kept with the cluster and handed back with it; None leaves what there is.
    driver_handle: str | None = None
    driver_state: Mapping[str, Any] | None = None
    outputs: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PlannedGroup:
    """What is about to be done to the nodes of a group; a replacement is one of each."""

    name: str
    added: tuple[Place, ...] = ()
    removed: tuple[Node, ...] = ()
    #: Out of work for a while, and then back where they were.
    reset: tuple[Node, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PlannedChange:
    """What is about to be done to a cluster."""

    kind: OperationKind
    groups: tuple[PlannedGroup, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """What a machine is given on its way to become a node."""

    user_data: bytes | None = dataclasses.field(default=None, repr=False)
    files: tuple[InjectedFile, ...] = ()
    #: The one with which the node may join once; None where there is nothing to join.
    join_token: str | None = dataclasses.field(default=None, repr=False)

    @property
    def config_drive_files(self) -> Mapping[str, tuple[bytes, int, str]]:
        """The files as a compute driver's build takes them."""
        return {file.path: (file.content, file.mode, file.owner) for file in self.files}


class ReadyState(enum.StrEnum):
    """Whether a node does its work."""

    READY = 'ready'
    NOT_YET = 'not_yet'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a node does its work, and if not, why."""

    state: ReadyState
    reason: str = ''

    @classmethod
    def not_yet(cls, reason: str) -> Readiness:
        """Return that it may still come; it is asked again until its deadline."""
        return cls(ReadyState.NOT_YET, reason)

    @classmethod
    def failed(cls, reason: str) -> Readiness:
        """Return that it never will; the node is given up at once."""
        return cls(ReadyState.FAILED, reason)


READY = Readiness(ReadyState.READY)


@dataclasses.dataclass(frozen=True, slots=True)
class Drained:
    """Whether a node has nothing left to do, and if not, what."""

    done: bool
    reason: str = ''


DRAINED = Drained(done=True)
