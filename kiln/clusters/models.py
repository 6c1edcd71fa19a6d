"""What there is of clusters, and what is being done to them: frozen values; no I/O."""

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
    """Where a node is in its life."""

    PLANNED = 'planned'
    BUILDING = 'building'
    BOOTING = 'booting'
    JOINING = 'joining'
    READY = 'ready'
    UNHEALTHY = 'unhealthy'
    # Out of work to be rebooted, or made anew in its place; it comes back.
    RESETTING = 'resetting'
    DRAINING = 'draining'
    DELETING = 'deleting'
    GONE = 'gone'
    FAILED = 'failed'
    # The backend cannot tell. Never taken for GONE; nothing is built or deleted for it.
    UNKNOWN = 'unknown'

    @property
    def leaving(self) -> bool:
        """Whether the node is on its way out, or out."""
        return self in _LEAVING


_LEAVING = frozenset({NodeState.DRAINING, NodeState.DELETING, NodeState.GONE})


class OperationKind(enum.StrEnum):
    """What somebody asked to be done to a cluster."""

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
    """How far an operation has come."""

    QUEUED = 'queued'
    RUNNING = 'running'
    WAITING = 'waiting'
    SUCCEEDED = 'succeeded'
    FAILED = 'failed'
    CANCELLED = 'cancelled'
    ROLLED_BACK = 'rolled_back'

    @property
    def ended(self) -> bool:
        """Whether nothing more is done for it."""
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
    """How far a step has come; what is in INTENT may or may not have happened."""

    INTENT = 'intent'
    DONE = 'done'
    FAILED = 'failed'


class ConditionKind(enum.StrEnum):
    """What can be said of a cluster at any moment."""

    READY = 'ready'
    PROGRESSING = 'progressing'
    BLOCKED = 'blocked'
    DEGRADED = 'degraded'
    DRIFTED = 'drifted'
    PAUSED = 'paused'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """Why something is as it is: the outermost reason first, the provider's words last."""

    #: Stable, for programs: the code of the error.
    code: str
    #: What failed and on what, in one sentence.
    message: str
    #: What the reader can do about it.
    hint: str = ''
    because: Cause | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """Something that is true of a cluster now; never stored."""

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
    """What was wanted of a cluster at one time, and whose driver was to see to it."""

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
    #: One more for each change of ``spec``.
    generation: int
    pin: DriverPin
    #: How the pin came about: inputs, steps and result.
    decision: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: What the last operation that succeeded left, to return to.
    former: Aim | None = None
    driver_handle: str | None = None
    driver_state: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: What its driver found wrong when it last tended it; None where nothing was.
    trouble: Cause | None = None
    paused: bool = False
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def aim(self) -> Aim:
        """What is wanted of it now."""
        return Aim(spec=self.spec, pin=self.pin, decision=self.decision)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One node; its id is never used again."""

    id: str
    cluster_id: str
    group: str
    name: str
    place: Place
    backend: str
    state: NodeState = NodeState.PLANNED
    #: The digest of what it was made with; another one in the spec is drift.
    made_with: str = ''
    #: Which build of this node it is; a build key is for one attempt.
    attempt: int = 1
    compute_id: str | None = None
    address: str | None = None
    #: Why it is to go; empty for one that is to stay.
    doomed: str = ''
    cause: Cause | None = None
    created_at: float = 0.0
    #: When it came into its state.
    since: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """Something that somebody asked to be done to a cluster."""

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
    #: Somebody wants it to stop.
    cancelled: bool = False

    @property
    def forced(self) -> bool:
        """Whether a deletion gives up what does not go."""
        return bool(self.args.get('force'))

    @property
    def retried_at(self) -> float:
        """When it was taken up again after it had failed; what failed by then is tried anew."""
        return float(self.args.get('retried_at', -math.inf))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One act of an operation: intended before it is done, and settled after."""

    id: str
    operation_id: str
    cluster_id: str
    kind: str
    state: StepState = StepState.INTENT
    node_id: str | None = None
    attempt: int = 1
    #: Recognises the act wherever it arrives: a build key, an idempotency key.
    token: str = ''
    started_at: float = 0.0
    deadline_at: float | None = None
    ended_at: float | None = None
    result: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)
    cause: Cause | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """Something in a backend that belongs to a cluster: a server, a port."""

    cluster_id: str
    backend: str
    kind: str
    id: str
    node_id: str | None = None
    seen_at: float = 0.0
    #: When the backend said, asked by id, that there is none.
    gone_at: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Secret:
    """Something of a cluster that nobody but its nodes may see: a token, a password."""

    cluster_id: str
    name: str
    value: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to act on a cluster; each new owner has a higher epoch."""

    scope: str
    owner: str
    epoch: int
    expires_at: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened, for people and for programs."""

    cluster_id: str
    kind: str
    message: str
    #: Its place in the order of all events; the store gives it.
    seq: int = 0
    at: float = 0.0
    operation_id: str | None = None
    node_id: str | None = None
    facts: Mapping[str, Any] = dataclasses.field(default_factory=lambda: _NOTHING)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """What is left of a deleted cluster: the proof that nothing else is."""

    cluster_id: str
    name: str
    deleted_at: float
    #: Everything that was ever made for it, and when each was confirmed gone.
    holdings: tuple[Holding, ...] = ()
    #: What was given up because somebody forced the deletion.
    abandoned: tuple[Holding, ...] = ()
