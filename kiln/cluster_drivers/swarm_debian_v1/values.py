"""What is known of a swarm, as its engines tell it: frozen values, read from plain data."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

#: The labels by which a swarm shows what is whose at kiln.
NODE, GROUP, ZONE = 'kiln.node', 'kiln.group', 'kiln.zone'


class Role(enum.StrEnum):
    """What a node is in a swarm."""

    MANAGER = 'manager'
    WORKER = 'worker'


class Membership(enum.StrEnum):
    """Whether an engine is in a swarm, as it says itself."""

    INACTIVE = 'inactive'
    PENDING = 'pending'
    ACTIVE = 'active'
    ERROR = 'error'
    LOCKED = 'locked'


class EngineInfo(NamedTuple):
    """What an engine says of itself."""

    membership: Membership
    #: Its name in the swarm; another one each time it joins.
    peer_id: str
    #: Whether it is a manager, and can be asked about the swarm.
    manages: bool
    error: str
    #: The addresses of the managers that it knows; of the one that it joins through.
    managers: tuple[str, ...] = ()
    #: Seconds since the epoch, by its own clock.
    now: float = 0.0

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> EngineInfo:
        """Return what the answer to ``/info`` says."""
        swarm = data.get('Swarm') or {}
        remotes = swarm.get('RemoteManagers') or ()
        return cls(
            membership=Membership(swarm.get('LocalNodeState') or 'inactive'),
            peer_id=swarm.get('NodeID') or '',
            manages=bool(swarm.get('ControlAvailable')),
            error=swarm.get('Error') or '',
            managers=tuple(one['Addr'].rpartition(':')[0].strip('[]') for one in remotes),
            now=_seconds(data.get('SystemTime')),
        )


def _seconds(text: str | None) -> float:
    return datetime.datetime.fromisoformat(text).timestamp() if text else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Swarm:
    """A swarm as a whole."""

    id: str
    #: What an update must name, so that none is lost.
    index: int
    spec: Mapping[str, Any] = dataclasses.field(repr=False)
    tokens: Mapping[str, str] = dataclasses.field(repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Swarm:
        """Return what the answer to ``/swarm`` says."""
        tokens = data.get('JoinTokens') or {}
        return cls(
            id=data['ID'],
            index=data['Version']['Index'],
            spec=data['Spec'],
            tokens={role.value: tokens.get(role.name.title(), '') for role in Role},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """A node as the swarm has it in its list."""

    id: str
    index: int
    spec: Mapping[str, Any] = dataclasses.field(repr=False)
    #: The id of the node at kiln; empty for one that others have joined.
    node_id: str
    hostname: str
    ready: bool
    #: Of a manager: whether the others reach it.
    reachable: bool
    leader: bool
    cpus: float
    memory_bytes: float
    #: Seconds since the epoch, by the clock of a manager.
    created_at: float

    @property
    def role(self) -> Role:
        """What it is to be; it may still be becoming it."""
        return Role(self.spec.get('Role', 'worker'))

    @property
    def availability(self) -> str:
        """Whether it takes tasks: active, pause or drain."""
        return str(self.spec.get('Availability', 'active'))

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that managers have given it."""
        return self.spec.get('Labels') or {}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Peer:
        """Return what an entry of the answer to ``/nodes`` says."""
        described, spec = data.get('Description') or {}, data['Spec']
        manager = data.get('ManagerStatus') or {}
        has = described.get('Resources') or {}
        said = (described.get('Engine') or {}).get('Labels') or {}
        return cls(
            id=data['ID'],
            index=data['Version']['Index'],
            spec=spec,
            # One that died before it was labelled still says itself what it was.
            node_id=(spec.get('Labels') or {}).get(NODE) or said.get(NODE, ''),
            hostname=described.get('Hostname', ''),
            ready=(data.get('Status') or {}).get('State') == 'ready',
            reachable=manager.get('Reachability') == 'reachable',
            leader=bool(manager.get('Leader')),
            cpus=has.get('NanoCPUs', 0) / 1e9,
            memory_bytes=has.get('MemoryBytes', 0),
            created_at=_seconds(data.get('CreatedAt')),
        )


class Task(NamedTuple):
    """A container that a service is to have."""

    peer_id: str
    service_id: str
    #: Whether it takes place on its node: it is about to run, runs, or has not stopped yet.
    there: bool
    running: bool
    cpus: float
    memory_bytes: float

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Task:
        """Return what an entry of the answer to ``/tasks`` says."""
        state = (data.get('Status') or {}).get('State', '')
        reserved = ((data.get('Spec') or {}).get('Resources') or {}).get('Reservations') or {}
        return cls(
            peer_id=data.get('NodeID', ''),
            service_id=data.get('ServiceID', ''),
            there=state in _THERE,
            running=state == 'running',
            cpus=reserved.get('NanoCPUs', 0) / 1e9,
            memory_bytes=reserved.get('MemoryBytes', 0),
        )


_THERE = frozenset({'assigned', 'accepted', 'preparing', 'ready', 'starting', 'running'})
