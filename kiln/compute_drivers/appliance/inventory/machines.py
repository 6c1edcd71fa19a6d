"""Enrolled machines and their inventory, as plain values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kiln.models import AmphoraType


class Verb(enum.StrEnum):
    """Action that an operator can provide a command for."""

    CLAIM = 'claim'
    WIPE = 'wipe'
    REBOOT = 'reboot'
    REBUILD = 'rebuild'
    CONSOLE = 'console'


class ProbeKind(enum.StrEnum):
    """Protocol of a probe."""

    TCP = 'tcp'
    HTTP = 'http'
    COMMAND = 'command'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ProbeSpec:
    """One probe of a machine; fields of other kinds are empty."""

    kind: ProbeKind
    port: int = 0
    url: str = ''
    #: The HTTP status that passes; None accepts any from 200 to 299.
    status: int | None = None
    #: True if the server's certificate is not verified.
    insecure: bool = False
    argv: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """An enrolled machine; without a list of flavors or images it accepts any."""

    name: str
    amphora_type: AmphoraType
    addresses: tuple[str, ...]
    commands: Mapping[Verb, tuple[str, ...]]
    #: The table as written, with defaults: a claim stores it and parses it again.
    table: Mapping[str, Any]
    flavors: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    zone: str | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    #: The name of a secret, never the secret itself.
    credentials: str | None = None
    #: The reason of its maintenance; None if it is not in maintenance.
    maintenance: str | None = None
    probe: ProbeSpec | None = None

    def argv(self, verb: Verb) -> tuple[str, ...]:
        """Return the command for an action; empty if there is nothing to run."""
        return self.commands.get(verb, ())

    def programs(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the program of each command."""
        for verb, argv in self.commands.items():
            if argv:
                yield verb.value, argv[0]
        if self.probe is not None and self.probe.argv:
            yield 'probe', self.probe.argv[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """All enrolled machines, by name."""

    machines: Mapping[str, Machine]

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines.values())

    def get(self, name: str) -> Machine | None:
        return self.machines.get(name)

    @property
    def amphora_types(self) -> frozenset[AmphoraType]:
        return frozenset(one.amphora_type for one in self)

    @property
    def zones(self) -> Sequence[str]:
        return sorted({one.zone for one in self if one.zone is not None})

    def can(self, verb: Verb) -> bool:
        """Return True if any machine has a command for an action."""
        return any(one.argv(verb) for one in self)

    def offers(self, kind: str, name: str) -> bool:
        """Return True if a machine accepts such a flavor or image, or is in such a zone."""
        if kind == 'zone':
            return name in self.zones
        return any(not known or name in known for known in self._lists(kind))

    def names(self, kind: str) -> Sequence[str]:
        """Return the sorted names of the flavors, images or zones of all machines."""
        if kind == 'zone':
            return self.zones
        return sorted({name for known in self._lists(kind) for name in known})

    def _lists(self, kind: str) -> list[tuple[str, ...]]:
        return [one.flavors if kind == 'flavor' else one.images for one in self]
