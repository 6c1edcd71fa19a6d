"""State of a swarm as its engines report it: frozen values from JSON data."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

#: The labels that link nodes of a swarm to kiln's nodes, groups and zones.
NODE, GROUP, ZONE = 'kiln.node', 'kiln.group', 'kiln.zone'


class Role(enum.StrEnum):
    """Role of a node in a swarm."""

    MANAGER = 'manager'
    WORKER = 'worker'


class Membership(enum.StrEnum):
    """Membership of an engine in a swarm, as the engine reports it."""

    INACTIVE = 'inactive'
    PENDING = 'pending'
    ACTIVE = 'active'
    ERROR = 'error'
    LOCKED = 'locked'


class EngineInfo(NamedTuple):
    """State that an engine reports."""

    membership: Membership
    #: Its id in the swarm; different after each join.
    peer_id: str
    #: True if it is a manager and answers requests about the swarm.
    manages: bool
    error: str
    #: The addresses of its known managers; while joining, of the one it joins through.
    managers: tuple[str, ...] = ()
    #: Seconds since the epoch, by its own clock.
    now: float = 0.0

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> EngineInfo:
        """Parse the response to ``/info``."""
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
    #: The version that an update must name, so that no update is lost.
    index: int
    spec: Mapping[str, Any] = dataclasses.field(repr=False)
    tokens: Mapping[str, str] = dataclasses.field(repr=False)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Swarm:
        """Parse the response to ``/swarm``."""
        tokens = data.get('JoinTokens') or {}
        return cls(
            id=data['ID'],
            index=data['Version']['Index'],
            spec=data['Spec'],
            tokens={role.value: tokens.get(role.name.title(), '') for role in Role},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """A node in the list of the swarm."""

    id: str
    index: int
    spec: Mapping[str, Any] = dataclasses.field(repr=False)
    #: The id of kiln's node; empty for a node that was not joined by kiln.
    node_id: str
    hostname: str
    ready: bool
    #: For a manager: True if the other managers reach it.
    reachable: bool
    leader: bool
    cpus: float
    memory_bytes: float
    #: Seconds since the epoch, by the clock of a manager.
    created_at: float

    @property
    def role(self) -> Role:
        """The desired role; the change to it can still be running."""
        return Role(self.spec.get('Role', 'worker'))

    @property
    def availability(self) -> str:
        """Availability for tasks: active, pause or drain."""
        return str(self.spec.get('Availability', 'active'))

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels set by managers."""
        return self.spec.get('Labels') or {}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Peer:
        """Parse an entry of the response to ``/nodes``."""
        described, spec = data.get('Description') or {}, data['Spec']
        manager = data.get('ManagerStatus') or {}
        has = described.get('Resources') or {}
        said = (described.get('Engine') or {}).get('Labels') or {}
        return cls(
            id=data['ID'],
            index=data['Version']['Index'],
            spec=spec,
            # A node that died before it was labelled still has the label of its engine.
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
    """A desired container of a service."""

    peer_id: str
    service_id: str
    #: True if it occupies its node: it is about to run, runs, or has not stopped.
    there: bool
    running: bool
    cpus: float
    memory_bytes: float

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Task:
        """Parse an entry of the response to ``/tasks``."""
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
