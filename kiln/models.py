"""Values of kiln's interfaces: frozen, typed, plain data; no I/O."""

from __future__ import annotations

import copyreg
import dataclasses
import enum
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

_NO_FACTS: Mapping[str, str] = MappingProxyType({})


def _frozen(facts: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    # The type itself has no importable name, so pickle cannot find it.
    return MappingProxyType(facts)


# Python can neither copy nor pickle a read-only mapping, nor any value below that holds
# a mapping. This reduction lets dataclasses.asdict() and other processes receive them.
copyreg.pickle(MappingProxyType, lambda proxy: (_frozen, (dict(proxy),)))


class AmphoraType(enum.StrEnum):
    """Type of machine that an amphora is."""

    VM = 'vm'
    CONTAINER = 'container'
    BARE_METAL = 'bare_metal'
    HW_LOAD_BALANCER = 'hw_load_balancer'


class State(enum.StrEnum):
    """State of an amphora, in one vocabulary for all backends."""

    PENDING = 'pending'
    BUILDING = 'building'
    ACTIVE = 'active'
    SUSPENDED = 'suspended'
    STOPPED = 'stopped'
    ERROR = 'error'
    DELETING = 'deleting'
    DELETED = 'deleted'
    # The backend answered, but with a state that no entry above describes, or the part
    # of it that has the state is unreachable. Never taken for "gone".
    UNKNOWN = 'unknown'

    @property
    def settled(self) -> bool:
        """True if the amphora stays in this state until somebody acts on it."""
        return self in _SETTLED


#: States of an amphora that has run.
_RUNNABLE = frozenset({State.ACTIVE, State.SUSPENDED, State.STOPPED})
_SETTLED = frozenset({State.ACTIVE, State.SUSPENDED, State.STOPPED, State.ERROR, State.DELETED})


class Ability(enum.StrEnum):
    """Abilities that a backend can lack; a driver has an ability by overriding its hook."""

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
    VALIDATE_NETWORK = 'validate_network'
    VALIDATE_SECURITY_GROUP = 'validate_security_group'
    CHECK_PORTS = 'check_ports'
    DESCRIBE_IMAGE = 'describe_image'
    LIST_ZONES = 'list_zones'
    LIST_RESOURCES = 'list_resources'
    DELETE_RESOURCE = 'delete_resource'
    CONSOLE_LOG = 'console_log'
    CLAIM = 'claim'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class InjectedFile:
    """A file to be written on the amphora at its first boot."""

    path: str
    content: bytes = dataclasses.field(repr=False)
    mode: int = 0o644
    owner: str = 'root'

    @property
    def digest(self) -> str:
        """Short digest that can be logged where the content cannot."""
        return hashlib.sha256(self.content).hexdigest()[:12]

    def __repr__(self) -> str:
        size, sha256 = len(self.content), self.digest
        return f'InjectedFile(path={self.path!r}, size={size}, sha256={sha256!r})'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Alternative place for a build; None keeps what the build specifies."""

    availability_zone: str | None = None
    amphora_flavor: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """Everything a backend receives for one build, checked and frozen.

    Files, user data and keys are confidential, in any encoding: never logged, and shown
    neither in ``raw`` nor in an error or its causes. Metadata is not: a backend shows it to
    all of its users.
    """

    # Names one build of its owner: 1 to 48 letters, digits, dots, colons, dashes or
    # underscores.
    build_key: str
    # Printable text of at most ``max_name_length`` characters, which the amphora keeps as
    # it is.
    name: str
    owner: str
    # True if kiln drew the key for this request: nothing has the key so far, and no
    # backend needs to look it up.
    fresh: bool = False
    # The name that kiln derives from the key if the caller gives none.
    made_name: str | None = None
    # One of the types in the limits; a caller can give it as text.
    amphora_type: AmphoraType = AmphoraType.VM
    flavor: str | None = None
    image_id: str | None = None
    # This and the next three are lists that name nothing twice.
    keys: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    sec_groups: tuple[str, ...] = ()
    # ``ID=ADDRESS`` requests a fixed address on a network. If several builds request one
    # address, even at the same time, one has it; each other is refused with BuildConflict, or
    # ends in error.
    network_ids: tuple[str, ...] = ()
    port_ids: tuple[str, ...] = ()
    availability_zone: str | None = None
    # The id of an existing group; a build with any other id is refused.
    server_group_id: str | None = None
    # Text by text, which the amphora keeps as it is, for itself alone; keys that begin with
    # ``kiln:`` are reserved.
    metadata: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)
    # A caller gives text, bytes or an open file, with a mode and an owner if needed, for
    # an absolute path. Any content is allowed, also an empty one; its size is in bytes. An
    # owner is ``USER`` or ``USER:GROUP`` of the image, by name or number: a build whose file
    # cannot be given to an account that the image alone knows is refused.
    files: tuple[InjectedFile, ...] = dataclasses.field(default=(), repr=False)
    # A caller gives text, bytes or an open file.
    user_data: bytes | None = dataclasses.field(default=None, repr=False)

    def summary(self) -> str:
        """Return what can be logged: names and sizes, never contents."""
        user_data = len(self.user_data or b'')
        return (
            f'{self.name} key={self.build_key} type={self.amphora_type.value} '
            f'flavor={self.flavor} image={self.image_id} zone={self.availability_zone} '
            f'files={[repr(file) for file in self.files]} user_data={user_data}B'
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """One address of an amphora."""

    address: str
    network_id: str | None = None
    port_id: str | None = None
    mac: str | None = None

    def on_port_of(self, other: Address) -> bool:
        """Return True if both are addresses of one port."""
        mine = self.network_id, self.port_id, self.mac
        return mine == (other.network_id, other.port_id, other.mac)


def main_address(addresses: Sequence[Address]) -> str | None:
    """Return the address of the first port; the IPv4 address if the port has both."""
    first = [one.address for one in addresses if one.on_port_of(addresses[0])]
    # The backend can return the addresses of one port in any order.
    return next((one for one in first if ':' not in one), first[0] if first else None)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ComputeStatus:
    """Status of one amphora at one point in time, as its backend reports it."""

    amphora_id: str
    state: State
    # The backend's own description of the fault, and the code of the matching build
    # error if the driver can determine it ('insufficient_capacity').
    fault: str | None = None
    fault_code: str | None = None
    # The task that the backend is performing on the amphora; None if idle.
    task_state: str | None = None
    # Seconds since the epoch at which the backend was polled.
    observed_at: float = 0.0
    # True if the status is older than it should be, because the backend could not be
    # polled again.
    stale: bool = False
    # The backend's original answer, as plain data.
    raw: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def ready(self) -> bool:
        """True if the amphora is active and idle."""
        return self.state is State.ACTIVE and self.task_state is None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Amphora:
    """One amphora, as its backend describes it."""

    # Text that a caller can pass back; never the id of another amphora, even if this one
    # is gone.
    id: str
    name: str
    state: State
    amphora_type: AmphoraType = AmphoraType.VM
    build_key: str | None = None
    owner: str | None = None
    # This and the next three are what its build named, in the words of the request or of the
    # backend; None only if neither names any.
    flavor: str | None = None
    image_id: str | None = None
    availability_zone: str | None = None
    server_group_id: str | None = None
    # Always in the same order; the addresses of one port follow each other.
    addresses: tuple[Address, ...] = ()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)
    # Seconds since the epoch, always the same; None if the backend does not report it.
    created_at: float | None = None
    fault: str | None = None
    fault_code: str | None = None
    task_state: str | None = None
    # True once it has run, False as long as it has not, None if the backend does not
    # report it.
    served: bool | None = None
    # The backend's original answer, or a part of it, as plain data; digests of confidential
    # contents are allowed.
    raw: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def past_building(self) -> bool:
        """True if it is in use, because it runs, has run, or might have run."""
        if self.state in (State.PENDING, State.BUILDING):
            return self.served is True
        if self.served is None and self.state is State.ERROR:
            # An amphora that is known to have failed as a build never ran.
            return self.fault_code is None
        return self.served is not False or self.state in _RUNNABLE

    @property
    def address(self) -> str | None:
        """Address of its first port; the IPv4 address if the port has both."""
        return main_address(self.addresses)

    def status(self, observed_at: float) -> ComputeStatus:
        """Return the status part of the amphora."""
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
    """Changes since the cursor of an earlier answer."""

    statuses: tuple[ComputeStatus, ...]
    #: Ids that the backend reports as deleted; absence alone never means deleted. Amphorae
    #: of other owners can be among them.
    gone: tuple[str, ...] = ()
    #: Cursor to continue from: the ``since`` of the next call.
    cursor: str = ''
    #: True if ``statuses`` is complete, as after no cursor or an expired cursor; False if
    #: it has only the changes.
    complete: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Port of an amphora."""

    amphora_id: str
    port_id: str
    network_id: str | None = None
    addresses: tuple[str, ...] = ()
    # The subnet of each address, in the same order; empty if the backend has no subnets.
    subnet_ids: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ServerGroup:
    """Group of amphorae that must, or must not, share a host."""

    id: str
    name: str
    policy: str
    member_ids: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """Resource of this site other than an amphora: a port, a volume."""

    kind: str
    id: str
    name: str = ''
    owner: str | None = None
    # The amphora that uses it; None if it is unused.
    amphora_id: str | None = None
    created_at: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a build, declared as data by the backend's driver."""

    amphora_types: frozenset[AmphoraType] = frozenset({AmphoraType.VM})
    max_files: int = 5
    max_file_bytes: int = 10 * 1024
    max_user_data_bytes: int = 49_149
    max_name_length: int = 255
    max_metadata_items: int = 128
    # Arguments of build() that this backend does not support, such as
    # 'availability_zone'; a request that uses one is refused.
    refused_options: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """Image, as its backend describes it."""

    id: str
    name: str = ''
    #: Properties set by its owner; properties whose values are not text are left out.
    properties: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageFile:
    """Image to upload to a backend: a root file system as a tar file."""

    #: Its name in builds, with a tag if the backend has tags: ``kiln/node:1f3c``.
    name: str
    path: Path
    #: First command of a machine, if the backend does not boot a kernel.
    command: tuple[str, ...] = ()
    #: Stored with the image, and returned in its facts.
    properties: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_FACTS)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """Current abilities and limits of a driver."""

    driver: str
    abilities: frozenset[Ability]
    limits: Limits


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverHealth:
    """Result of a cheap and harmless health check of the backend."""

    healthy: bool
    # Text for operators.
    detail: str = ''
    # Seconds that the backend took to answer the check.
    latency_s: float = 0.0
