"""Values of the cluster driver contract: frozen, without I/O or cloud clients."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
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


class Cap(enum.StrEnum):
    """Optional capabilities of a cluster driver; overriding the methods declares them."""

    RESIZE = 'resize'
    UPGRADE = 'upgrade'
    REBUILD = 'rebuild'
    REBOOT = 'reboot'
    ROTATE_CREDENTIAL = 'rotate_credential'
    ROTATE_CA_CERTIFICATE = 'rotate_ca_certificate'
    MONITOR = 'monitor'


#: The method that a driver must override for a capability.
METHODS: Mapping[Cap, str] = {
    Cap.RESIZE: 'resize_cluster',
    Cap.UPGRADE: 'upgrade_cluster',
    Cap.REBUILD: 'rebuild_cluster',
    Cap.REBOOT: 'reboot_cluster',
    Cap.ROTATE_CREDENTIAL: 'rotate_credential',
    Cap.ROTATE_CA_CERTIFICATE: 'rotate_ca_certificate',
    Cap.MONITOR: 'get_monitor',
}


class Secrets(Protocol):
    """Store of secrets; clusters and drivers refer to secrets by name only."""

    def get(self, name: str) -> str:
        """Return a secret.

        :raises ClusterDriverError: no secret has that name; the message quotes neither
            the name nor a secret.
        """


class NoSecrets:
    """The store of a site without secrets."""

    def get(self, name: str) -> str:
        """Raise: this site has no store of secrets."""
        raise ClusterDriverError(
            'This site has no store of secrets.',
            'Set option [secrets] directory, and store the secret in a file of its name there.',
        )


def _no_key() -> bytes:
    raise ClusterDriverError('This site has no key for the join tokens of nodes.')


def _no_console(node: Node) -> str:
    raise ClusterDriverError(
        f'Cannot read the console of node {node.name}: no compute driver shows it here.'
    )


def _no_readings() -> Mapping[str, float | None]:
    return {}


def _no_poll() -> None:
    pass


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """What a driver is allowed to use in a call, beside the cluster itself.

    It holds no client: a driver with a backend of its own creates its own client, with
    the credentials that are named here.
    """

    #: The name of the kiln site; all resources of the site carry it.
    site: str = 'kiln'
    #: The name of the secret with the credentials of the cluster's owner: ``credentials``
    #: of the cluster file, or else of the site; None if neither names any: a driver that needs
    #: some raises ClusterDriverError then.
    credentials: str | None = None
    #: The store of secrets of the site.
    secrets: Secrets = dataclasses.field(default_factory=NoSecrets, repr=False)
    #: The template that the cluster names, as it is saved now; None without one. What the
    #: cluster took from it when it was last declared is part of ``cluster.spec``.
    template: ClusterTemplate | None = None
    #: The id of the operation that the call is made for: the same when the call is repeated, and
    #: while its progress is polled; None outside of operations, such as for a plan.
    operation: str | None = None
    #: The values where group, cluster and template set none.
    defaults: MachineSpec = dataclasses.field(default_factory=MachineSpec)
    #: All existing nodes of the cluster; kiln has no record of the nodes that a driver
    #: with an engine of its own builds.
    nodes: tuple[Node, ...] = dataclasses.field(default=(), repr=False)
    #: Returns the key of the cluster, from which the tokens of its nodes are derived;
    #: created on the first call, and never changed. The check of a cluster that has none gets
    #: a key that is thrown away.
    join_key: Callable[[], bytes] = dataclasses.field(default=_no_key, repr=False)
    #: Returns the end of a node's console log, through the node's compute driver.
    console: Callable[[Node], str] = dataclasses.field(default=_no_console, repr=False)
    #: For scale managers: returns the current values of the driver's monitor by name, None for
    #: an unknown value; empty without a monitor. Blocks up to a deadline and never fails.
    readings: Callable[[], Mapping[str, float | None]] = dataclasses.field(
        default=_no_readings, repr=False
    )
    #: For drivers with an engine of their own: has the driver polled soon, as there is something
    #: to report; otherwise it is polled every 5 seconds. Any thread can call it, at any time
    #: after the call, even when the operation is over.
    poll_soon: Callable[[], None] = dataclasses.field(default=_no_poll, repr=False)

    def group(self, cluster: Cluster, name: str) -> NodeGroupSpec:
        """Return a group as the cluster declares it; an empty one if it does not."""
        # A group that is no longer declared can still have nodes to drain.
        return cluster.spec.group(name) or NodeGroupSpec(name=name, shape=Shape(count=0))

    def effective(self, cluster: Cluster, group: str) -> Effective:
        """Return the effective machine values of a group, each with its origin.

        Values of the template are the cluster's own since it was declared: a later change
        of the template affects the cluster when it is declared again.
        """
        return effective(
            default=self.defaults,
            cluster=cluster.spec.machine,
            group=self.group(cluster, group).machine,
        )


def join_token(context: Context, node: Node) -> str:
    """Return the token that proves that a machine is this attempt of this node.

    The same for each call, so a repeated build sends the same token; different for each
    attempt, so a leftover machine of the last attempt cannot join.

    :raises ClusterError: the cluster's key is not available.
    """
    message = f'{node.cluster_id}\0{node.id}\0{node.attempt}'
    return hmac.new(context.join_key(), message.encode(), hashlib.sha256).hexdigest()


class Loss(str):
    """A line of a preview, by which what is on nodes is lost: users confirm it."""

    __slots__ = ()


class Progress(enum.StrEnum):
    """Progress of an operation in the driver's own engine."""

    IN_PROGRESS = 'in_progress'
    COMPLETE = 'complete'
    FAILED = 'failed'
    # The engine does not answer now. Never treated as FAILED, nor as gone.
    UNKNOWN = 'unknown'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StatusReport:
    """Report of a driver about a cluster."""

    #: Progress of the driver's own engine; None where kiln's engine builds the cluster.
    progress: Progress | None = None
    #: The engine's own text, for people; FAILED and UNKNOWN have one.
    reason: str = ''
    #: Stored with the cluster and returned with it; None keeps the stored value.
    driver_handle: str | None = None
    #: Plain data that JSON can hold; None keeps the stored value.
    driver_state: Mapping[str, Any] | None = None
    #: Shown to users with the cluster: plain data, by name; None keeps the stored outputs. The
    #: same from every process, as long as nothing happens.
    #: Secrets that the call used, and texts that look like credentials, are masked.
    outputs: Mapping[str, Any] | None = None
    #: What has happened in the driver's own engine since the last report, in the order in which
    #: it happened: each is shown to users once, as an event of the cluster. Secrets that the
    #: call used are masked.
    events: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Existing:
    """What exists in the driver's own engine, and is to become a cluster."""

    #: The cluster is created with it as its ``driver_state``: plain data that JSON can hold.
    driver_state: Mapping[str, Any]
    #: What it is and what becomes of it, a line for each fact; shown with the plan.
    facts: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PlannedGroup:
    """Planned changes to the nodes of a group; a replacement is one added, one removed."""

    name: str
    added: tuple[Place, ...] = ()
    removed: tuple[Node, ...] = ()
    #: Rebuilt or rebooted in their places; they cannot work meanwhile.
    reset: tuple[Node, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PlannedChange:
    """Planned change of a cluster."""

    kind: OperationKind
    groups: tuple[PlannedGroup, ...] = ()
    #: The nodes that a user named to be removed, as an engine of the driver's own calls them.
    named: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """What a machine is given to become a node.

    Files in JSON or YAML and scripts are well formed, and have the values of parameters and
    secrets as they are, whatever their characters. The mode of a file with a secret, a token or
    a private key lets no other users read it.
    """

    user_data: bytes | None = dataclasses.field(default=None, repr=False)
    files: tuple[InjectedFile, ...] = ()
    #: The token with which the node can join once; None where nodes join nothing.
    join_token: str | None = dataclasses.field(default=None, repr=False)

    @property
    def config_drive_files(self) -> Mapping[str, tuple[bytes, int, str]]:
        """The files in the form that a compute driver's build takes."""
        return {file.path: (file.content, file.mode, file.owner) for file in self.files}


class ReadyState(enum.StrEnum):
    """States of a node's readiness."""

    READY = 'ready'
    NOT_YET = 'not_yet'
    FAILED = 'failed'


@dataclasses.dataclass(frozen=True, slots=True)
class Readiness:
    """Readiness of a node, and the reason if it is not ready."""

    state: ReadyState
    reason: str = ''

    @classmethod
    def not_yet(cls, reason: str) -> Readiness:
        """Return: not ready, but possible; the node is polled again until its deadline."""
        return cls(ReadyState.NOT_YET, reason)

    @classmethod
    def failed(cls, reason: str) -> Readiness:
        """Return: never ready; the node is given up at once."""
        return cls(ReadyState.FAILED, reason)


READY = Readiness(ReadyState.READY)


@dataclasses.dataclass(frozen=True, slots=True)
class Drained:
    """Result of a drain: done, or the work that is left."""

    done: bool
    reason: str = ''


DRAINED = Drained(done=True)
