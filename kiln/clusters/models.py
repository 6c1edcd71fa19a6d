"""Cluster, node and operation records: frozen values without I/O."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.clusters.spec import ClusterSpec, Place

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class NodeState(enum.StrEnum):
    """The state of a node in its life."""

    PLANNED = 'planned'
    BUILDING = 'building'
    BOOTING = 'booting'
    JOINING = 'joining'
    READY = 'ready'
    UNHEALTHY = 'unhealthy'
    # Out of work for a reboot, or for a rebuild in its place; it comes back.
    RESETTING = 'resetting'
    DRAINING = 'draining'
    DELETING = 'deleting'
    GONE = 'gone'
    FAILED = 'failed'
    # The backend cannot report it. Never treated as GONE; nothing is built or deleted for it.
    UNKNOWN = 'unknown'

    @property
    def leaving(self) -> bool:
        """Return whether the node is being removed, or is gone."""
        return self in _LEAVING


_LEAVING = frozenset({NodeState.DRAINING, NodeState.DELETING, NodeState.GONE})


class OperationKind(enum.StrEnum):
    """The kind of an operation on a cluster."""

    CREATE = 'create'
    UPDATE = 'update'
    RESIZE = 'resize'
    UPGRADE = 'upgrade'
    REPLACE = 'replace'
    REBUILD = 'rebuild'
    REBOOT = 'reboot'
    ROTATE = 'rotate'
    ADOPT = 'adopt'
    CHECK = 'check'
    DELETE = 'delete'


class OperationState(enum.StrEnum):
    """The progress of an operation."""

    QUEUED = 'queued'
    RUNNING = 'running'
    WAITING = 'waiting'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    CANCELLED = 'cancelled'
    ROLLED_BACK = 'rolled_back'

    @property
    def ended(self) -> bool:
        """True if nothing more is done for the operation."""
        return self in _ENDED


_ENDED = frozenset(
    {
        OperationState.SUCCEEDED,
        OperationState.FAILED,
        OperationState.CANCELLED,
        OperationState.ROLLED_BACK,
    }
)


class StepState(enum.StrEnum):
    """The progress of a step; one in INTENT might or might not have happened."""

    INTENT = 'intent'
    DONE = 'done'
    FAILED = 'failed'


class ConditionKind(enum.StrEnum):
    """A condition that a cluster can have."""

    READY = 'ready'
    PROGRESSING = 'progressing'
    BLOCKED = 'blocked'
    DEGRADED = 'degraded'
    DRIFTED = 'drifted'
    PAUSED = 'paused'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Why something is as it is: the outermost reason first, the provider's message last."""

    #: Stable, for programs: the code of the error.
    code: str
    #: What failed and on what, in one sentence.
    message: str
    #: What the reader can do about it.
    hint: str = ''
    because: Cause | None = None

    @property
    def line(self) -> str:
        """The whole chain in one line, the provider's message last."""
        return self.message if self.because is None else f'{self.message} <- {self.because.line}'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A condition that a cluster has now; never stored."""

    kind: ConditionKind
    cause: Cause | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverPin:
    """The one driver that a cluster belongs to, until it is moved to another."""

    name: str
    version: str
    origin: str
    digest: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """The desired state of a cluster at one time, and the driver that was to reach it."""

    spec: ClusterSpec
    pin: DriverPin
    decision: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: _NOTHING, compare=False
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """One cluster as the store has it."""

    id: str
    name: str
    spec: ClusterSpec
    #: Increases by one with each change of ``spec``.
    generation: int
    pin: DriverPin
    #: How the driver was chosen: inputs, steps and result.
    decision: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: The state after the last operation that succeeded, for rollbacks.
    former: Aim | None = None
    #: What an engine of its driver's own calls it; empty if the driver returned no name.
    #: None if kiln's engine builds it, or nothing was requested so far.
    driver_handle: str | None = None
    driver_state: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: The problem that its driver found when it last tended it; None without a problem.
    trouble: Cause | None = None
    #: What its driver reported for users when the last operation succeeded.
    outputs: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    paused: bool = False
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def built_elsewhere(self) -> bool:
        """True if an engine of its driver's own builds it: kiln has no record of its nodes."""
        return self.driver_handle is not None

    @property
    def aim(self) -> Aim:
        """Its desired state now."""
        return Aim(spec=self.spec, pin=self.pin, decision=self.decision)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One node; its id is never reused."""

    id: str
    cluster_id: str
    group: str
    name: str
    place: Place
    backend: str
    state: NodeState = NodeState.PLANNED
    #: The digest of the spec that it was built from; another digest now means drift.
    made_with: str = ''
    #: The number of this build of the node; a build key belongs to one attempt.
    attempt: int = 1
    compute_id: str | None = None
    #: The address at which kiln and the other nodes reach it.
    address: str | None = None
    #: All of its addresses, in the order of the backend's report: of both families, of all ports.
    addresses: tuple[str, ...] = ()
    #: The zone that the backend reports for its machine; ``place`` has the requested one.
    found_zone: str | None = None
    #: Why it is to be removed; empty for a node that is to stay.
    doomed: str = ''
    cause: Cause | None = None
    created_at: float = 0.0
    #: When it entered its state.
    since: float = 0.0

    @property
    def host(self) -> str | None:
        """Its address before a port, as in URLs: an IPv6 address is in brackets."""
        return f'[{self.address}]' if ':' in (self.address or '') else self.address


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A requested change or action on a cluster."""

    id: str
    cluster_id: str
    kind: OperationKind
    state: OperationState = OperationState.QUEUED
    args: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: The generation of the cluster that it leads to.
    generation: int = 1
    deadline_at: float = 0.0
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    #: Why it waits, or why it failed.
    cause: Cause | None = None
    #: True if it is to stop.
    cancelled: bool = False

    @property
    def forced(self) -> bool:
        """True if a deletion abandons resources that cannot be deleted."""
        return bool(self.args.get('force'))

    @property
    def rolls_back(self) -> bool:
        """True if it returns the cluster to its former state when it fails."""
        return bool(self.args.get('rollback'))

    @property
    def retried_at(self) -> float:
        """When it was retried after it had failed; what failed before that is tried again."""
        return float(self.args.get('retried_at', -math.inf))

    @property
    def asked_at(self) -> float:
        """When its deadline was set: it was submitted then, or retried."""
        return max(self.created_at, self.retried_at)

    def asked(self, at: float) -> Operation:
        """Return it as submitted or retried at an earlier time, with as much time as before."""
        deadline_at = self.deadline_at and self.deadline_at - (self.asked_at - at)
        retried = {'retried_at': min(self.retried_at, at)} if 'retried_at' in self.args else {}
        return dataclasses.replace(
            self, created_at=min(self.created_at, at), deadline_at=deadline_at,
            args={**self.args, **retried},
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One action of an operation: written as intent before it starts, settled after."""

    id: str
    operation_id: str
    cluster_id: str
    kind: str
    state: StepState = StepState.INTENT
    node_id: str | None = None
    attempt: int = 1
    #: Identifies the action at its target: a build key, an idempotency key.
    token: str = ''
    started_at: float = 0.0
    deadline_at: float | None = None
    ended_at: float | None = None
    result: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    cause: Cause | None = None


#: What an engine of a driver's own made, as a whole: under its handle, or without one.
ENGINE_KINDS = ('handle', 'cluster')
#: The kinds of events of a settled cluster whose machines cannot be polled, or can be again.
MACHINES_UNSEEN = 'machines-unseen'
MACHINES_SEEN = 'machines-seen'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """A resource in a backend that belongs to a cluster: a machine, a port."""

    cluster_id: str
    backend: str
    kind: str
    id: str
    node_id: str | None = None
    #: None for what no node has, and in rows of older versions of kiln.
    node_name: str | None = None
    seen_at: float = 0.0
    #: When the backend confirmed, queried by id, that it does not exist; of a cluster that
    #: an engine of its driver's own built, when the driver reported so.
    gone_at: float | None = None

    @property
    def of_engine(self) -> bool:
        """True if it is all that an engine of a driver's own made; ``backend`` is the driver."""
        return self.kind in ENGINE_KINDS


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Secret:
    """A secret of a cluster that only its nodes are allowed to see: a token, a password."""

    cluster_id: str
    name: str
    value: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to change a cluster; each new owner gets a higher epoch."""

    scope: str
    owner: str
    epoch: int
    expires_at: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened, for people and programs."""

    cluster_id: str
    kind: str
    message: str
    #: Its number among all events, given by the store.
    seq: int = 0
    at: float = 0.0
    operation_id: str | None = None
    node_id: str | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """The receipt of a deleted cluster: the proof that nothing of it is left."""

    cluster_id: str
    name: str
    deleted_at: float
    #: Everything that was ever created for it, and when each was confirmed gone.
    holdings: tuple[Holding, ...] = ()
    #: What was abandoned because the deletion was forced.
    abandoned: tuple[Holding, ...] = ()
