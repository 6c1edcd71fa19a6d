"""The values that cross kiln's interfaces: frozen, typed, plain; no I/O."""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

_NO_FACTS: Mapping[str, str] = MappingProxyType({})


def _frozen(facts: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    # The type itself has no importable name by which a pickle could find it.
    return MappingProxyType(facts)


# Python can neither copy nor pickle a read-only mapping, and so no value below
# that holds one; with this, dataclasses.asdict() and other processes get them.
copyreg.pickle(MappingProxyType, lambda proxy: (_frozen, (dict(proxy),)))


class AmphoraType(enum.StrEnum):
    """What kind of machine an amphora is."""

    VM = 'vm'
    CONTAINER = 'container'
    BARE_METAL = 'bare_metal'
    HW_LOAD_BALANCER = 'hw_load_balancer'


class State(enum.StrEnum):
    """Where an instance is in its life, in one vocabulary for all backends."""

    PENDING = 'pending'
    BUILDING = 'building'
    ACTIVE = 'active'
    SUSPENDED = 'suspended'
    STOPPED = 'stopped'
    ERROR = 'error'
    DELETING = 'deleting'
    DELETED = 'deleted'
    # The backend answered, but with something no entry above describes, or
    # the part of it that knows is out of reach. Never taken for "gone".
    UNKNOWN = 'unknown'

    @property
    def settled(self) -> bool:
        """Whether the instance stays here until somebody acts on it."""
        return self in _SETTLED


#: What no instance is before it has run.
_RUNNABLE = frozenset({State.ACTIVE, State.SUSPENDED, State.STOPPED})
_SETTLED = frozenset({State.ACTIVE, State.SUSPENDED, State.STOPPED, State.ERROR, State.DELETED})


class Ability(enum.StrEnum):
    """What a backend may lack; a driver has one by overriding its hook."""

    SUSPEND = 'suspend'
    RESUME = 'resume'
    REBOOT = 'reboot'
    REBUILD = 'rebuild'
    ATTACH_PORT = 'attach_port'
    DETACH_PORT = 'detach_port'
    ATTACH_NETWORK = 'attach_network'
    DETACH_NETWORK = 'detach_network'
    CREATE_SERVER_GROUP = 'create_server_group'
    DELETE_SERVER_GROUP = 'delete_server_group'
    VALIDATE_FLAVOR = 'validate_flavor'
    VALIDATE_IMAGE = 'validate_image'
    VALIDATE_ZONE = 'validate_zone'
    DESCRIBE_IMAGE = 'describe_image'
    LIST_ZONES = 'list_zones'
    LIST_RESOURCES = 'list_resources'
    DELETE_RESOURCE = 'delete_resource'
    CONSOLE_LOG = 'console_log'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class InjectedFile:
    """A file to be written on the instance at its first boot."""

    path: str
    content: bytes = dataclasses.field(repr=False)
    mode: int = 0o644
    owner: str = 'root'

    @property
    def digest(self) -> str:
        """A short digest that may be logged where the content may not."""
        return hashlib.sha256(self.content).hexdigest()[:12]

    def __repr__(self) -> str:
        size, sha256 = len(self.content), self.digest
        return f'InjectedFile(path={self.path!r}, size={size}, sha256={sha256!r})'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where a build may go instead; what is None is as the build says."""

    availability_zone: str | None = None
    amphora_flavor: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """Everything a backend is told about one build, checked and frozen.

    Files, user data and keys are held in confidence: never shown, never
    logged. Metadata is not: a backend shows it to everybody who may look.
    """

    build_key: str
    name: str
    owner: str
    # True where kiln has drawn the key for this very request: nothing can
    # carry it yet, and no backend needs to look.
    fresh: bool = False
    # The name that kiln makes of the key where a caller gives none.
    made_name: str | None = None
    amphora_type: AmphoraType = AmphoraType.VM
    flavor: str | None = None
    image_id: str | None = None
    keys: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    sec_groups: tuple[str, ...] = ()
    network_ids: tuple[str, ...] = ()
    port_ids: tuple[str, ...] = ()
    availability_zone: str | None = None
    server_group_id: str | None = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)
    files: tuple[InjectedFile, ...] = dataclasses.field(default=(), repr=False)
    user_data: bytes | None = dataclasses.field(default=None, repr=False)

    def summary(self) -> str:
        """Return what may be logged: names and sizes, never contents."""
        user_data = len(self.user_data or b'')
        return (
            f'{self.name} key={self.build_key} type={self.amphora_type.value} '
            f'flavor={self.flavor} image={self.image_id} zone={self.availability_zone} '
            f'files={[repr(file) for file in self.files]} user_data={user_data}B'
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """One address of an instance."""

    address: str
    network_id: str | None = None
    port_id: str | None = None
    mac: str | None = None

    def on_port_of(self, other: Address) -> bool:
        """Whether both are addresses of one port."""
        mine = self.network_id, self.port_id, self.mac
        return mine == (other.network_id, other.port_id, other.mac)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ComputeStatus:
    """What a backend says of one instance at one moment."""

    amphora_id: str
    state: State
    # The backend's own words for what went wrong, and the code of the build
    # error it amounts to where the driver can tell ('insufficient_capacity').
    fault: str | None = None
    fault_code: str | None = None
    # What the backend is busy doing with the instance; None when it rests.
    task_state: str | None = None
    # Seconds since the epoch at which the backend was asked.
    observed_at: float = 0.0
    # True where the answer is older than it should be, because the backend
    # could not be asked again.
    stale: bool = False
    # The backend's own answer, as plain data.
    raw: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def ready(self) -> bool:
        """Whether the instance runs and nothing is being done to it."""
        return self.state is State.ACTIVE and self.task_state is None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Amphora:
    """One instance, as its backend describes it."""

    id: str
    name: str
    state: State
    amphora_type: AmphoraType = AmphoraType.VM
    build_key: str | None = None
    owner: str | None = None
    flavor: str | None = None
    image_id: str | None = None
    availability_zone: str | None = None
    server_group_id: str | None = None
    addresses: tuple[Address, ...] = ()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)
    created_at: float | None = None
    fault: str | None = None
    fault_code: str | None = None
    task_state: str | None = None
    # True once it has run, False as long as it never has, None where the backend
    # does not say.
    served: bool | None = None
    raw: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def past_building(self) -> bool:
        """True where somebody may rely on it, because it runs, has run, or may have run."""
        if self.state in (State.PENDING, State.BUILDING):
            return self.served is True
        if self.served is None and self.state is State.ERROR:
            # What is known to have failed as a build never ran.
            return self.fault_code is None
        return self.served is not False or self.state in _RUNNABLE

    @property
    def address(self) -> str | None:
        """Where it is reached: at its first port, and there by IPv4 if it has both."""
        first = [one.address for one in self.addresses if one.on_port_of(self.addresses[0])]
        # In which order those of one port come is the backend's whim.
        return next((one for one in first if ':' not in one), first[0] if first else None)

    def status(self, observed_at: float) -> ComputeStatus:
        """Return the part of this that changes with time."""
        return ComputeStatus(
            amphora_id=self.id,
            state=self.state,
            fault=self.fault,
            fault_code=self.fault_code,
            task_state=self.task_state,
            observed_at=observed_at,
            raw=self.raw,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What changed since a cursor that an earlier answer gave."""

    statuses: tuple[ComputeStatus, ...]
    #: Ids the backend knows to be deleted; absence alone is never a deletion.
    gone: tuple[str, ...] = ()
    #: Where to go on from: the ``since`` of the next call.
    cursor: str = ''
    #: True where ``statuses`` is everything there is, as for no cursor or one too old, and
    #: not only what changed.
    complete: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """A port as it hangs on an instance."""

    amphora_id: str
    port_id: str
    network_id: str | None = None
    addresses: tuple[str, ...] = ()
    # The subnet of each address, in their order; empty where the backend has
    # no notion of subnets.
    subnet_ids: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ServerGroup:
    """Instances that must, or must not, share a host."""

    id: str
    name: str
    policy: str
    member_ids: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """Something beside instances that this site made: a port, a volume."""

    kind: str
    id: str
    name: str = ''
    owner: str | None = None
    amphora_id: str | None = None
    created_at: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a backend accepts in a build, declared as data by its driver."""

    amphora_types: frozenset[AmphoraType] = frozenset({AmphoraType.VM})
    max_files: int = 5
    max_file_bytes: int = 10 * 1024
    max_user_data_bytes: int = 49_149
    max_name_length: int = 255
    max_metadata_items: int = 128
    # Arguments of build() this backend has no notion of, such as
    # 'availability_zone'; a request that uses one is refused.
    refused_options: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """An image as its backend describes it."""

    id: str
    name: str = ''
    #: What its owner said of it; properties whose values are no text are left out.
    properties: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageFile:
    """An image on its way into a backend: a root file system as a tar file."""

    #: As builds will call it, with a tag where the backend knows tags: ``kiln/node:1f3c``.
    name: str
    path: Path
    #: What a machine of it runs first, where the backend does not boot a kernel.
    command: tuple[str, ...] = ()
    #: Kept with the image, and returned in its facts.
    properties: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a driver can do now, and within which limits."""

    driver: str
    abilities: frozenset[Ability]
    limits: Limits


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverHealth:
    """The answer of a cheap and harmless look at the backend."""

    healthy: bool
    detail: str = ''
    latency_s: float = 0.0
