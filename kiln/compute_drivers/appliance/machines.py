"""A machine as the inventory describes it; values without any I/O."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.models import AmphoraType


class Verb(enum.StrEnum):
    """What an operator may have a command for."""

    CLAIM = 'claim'
    WIPE = 'wipe'
    REBOOT = 'reboot'
    REBUILD = 'rebuild'
    CONSOLE = 'console'


class ProbeKind(enum.StrEnum):
    """How a machine is asked whether it serves."""

    TCP = 'tcp'
    HTTP = 'http'
    COMMAND = 'command'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ProbeSpec:
    """One way to ask; what belongs to another kind is empty."""

    kind: ProbeKind
    port: int = 0
    url: str = ''
    #: The answer that passes; without one any of 200 to 299 does.
    status: int | None = None
    #: Whether the certificate of the server is taken as it is.
    insecure: bool = False
    argv: tuple[str, ...] = ()


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """An enrolled machine. What it does not list of flavors or images, it takes any of."""

    name: str
    amphora_type: AmphoraType
    addresses: tuple[str, ...]
    flavors: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    zone: str | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: The name of a secret; never the secret.
    credentials: str | None = None
    #: Why it must be left alone; None where it need not.
    maintenance: str | None = None
    probe: ProbeSpec | None = None
    commands: Mapping[Verb, tuple[str, ...]] = dataclasses.field(default_factory=lambda: _NOTHING)
    #: As it was written, with its defaults: a claim keeps it, and reads it again.
    table: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: _NOTHING, repr=False, compare=False
    )

    def argv(self, verb: Verb) -> tuple[str, ...]:
        """Return the command for a verb; empty where nothing is to be run."""
        return self.commands.get(verb, ())

    def programs(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the program of each command there is."""
        for verb, argv in self.commands.items():
            if argv:
                yield verb.value, argv[0]
        if self.probe is not None and self.probe.argv:
            yield 'probe', self.probe.argv[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """All enrolled machines, by name."""

    machines: Mapping[str, Machine] = dataclasses.field(default_factory=lambda: _NOTHING)

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines.values())

    def get(self, name: str) -> Machine | None:
        """Return a machine, or None where none has the name."""
        return self.machines.get(name)

    @property
    def amphora_types(self) -> frozenset[AmphoraType]:
        """What there are machines of."""
        return frozenset(one.amphora_type for one in self)

    @property
    def zones(self) -> Sequence[str]:
        """The zones in which there are machines."""
        return sorted({one.zone for one in self if one.zone is not None})

    def can(self, verb: Verb) -> bool:
        """Whether any machine has a command for a verb."""
        return any(one.argv(verb) for one in self)

    def offers(self, kind: str, name: str) -> bool:
        """Whether some machine takes such a flavor or image, or is in such a zone."""
        if kind == 'zone':
            return name in self.zones
        lists = [one.flavors if kind == 'flavor' else one.images for one in self]
        return any(not known or name in known for known in lists)
