"""What is known of cluster drivers before any of them is made: plain values."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

WILDCARD = '*'

#: How drivers are called; the name is that of a directory, too.
NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]{0,62}')
VERSION = re.compile(r'(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}')

# Magnum's word for what AmphoraType calls bare metal.
_SERVER_TYPES = {'bm': 'bare_metal'}


class ClusterType(NamedTuple):
    """What kind of cluster a driver builds; ``*`` stands for any."""

    server_type: str
    os: str
    coe: str

    @classmethod
    def of(cls, server_type: str, os: str, coe: str) -> ClusterType:
        """Return the type, with kiln's word for a server where Magnum's was used."""
        return cls(_SERVER_TYPES.get(server_type, server_type), os, coe)

    def matches(self, wanted: ClusterType) -> bool:
        """Whether clusters of the wanted type are of this one."""
        return all(mine in (WILDCARD, theirs) for mine, theirs in zip(self, wanted, strict=True))

    @property
    def exact(self) -> bool:
        """Whether nothing is left open."""
        return WILDCARD not in self

    def __str__(self) -> str:
        return f'({", ".join(self)})'


def cluster_type(entry: object) -> ClusterType:
    """Return a type that a driver wrote: three words in their order, or under their names.

    :raises ValueError: it is neither.
    """
    if isinstance(entry, Mapping):
        if set(entry) != set(ClusterType._fields):
            raise ValueError(f'{dict(entry)!r} should have {", ".join(ClusterType._fields)}')
        entry = [entry[name] for name in ClusterType._fields]
    # A lone string is a sequence too, of letters.
    words = [] if isinstance(entry, str) or not isinstance(entry, Sequence) else list(entry)
    if len(words) != len(ClusterType._fields) or not all(
        isinstance(word, str) and word for word in words
    ):
        raise ValueError(f'{entry!r} should be three words: {", ".join(ClusterType._fields)}')
    return ClusterType.of(*words)


class DriverState(enum.StrEnum):
    """Whether a driver may build new clusters, and if not, why."""

    ACTIVE = 'active'
    BETA = 'beta'
    DISABLED = 'disabled'
    BROKEN = 'broken'
    CONFLICT = 'conflict'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverRecord:
    """One version of one driver, as its manifest describes it."""

    name: str
    version: str
    #: For people: 'package acme-kiln 0.3', 'directory /etc/kiln/drivers/x_v1'.
    origin: str
    #: Of everything the driver consists of; changes when any of it does.
    digest: str
    state: DriverState = DriverState.ACTIVE
    #: What is wrong with it; empty for one that is ACTIVE.
    reason: str = ''
    beta: bool = False
    provides: tuple[ClusterType, ...] = ()
    #: The command that installs the extra it needs; None where no extra is the cause.
    install: str | None = None

    def __str__(self) -> str:
        return f'{self.name} {self.version}'.strip()

    @property
    def recency(self) -> tuple[bool, tuple[int, ...]]:
        """Grows with the version; a beta counts as older than all that is none."""
        known = VERSION.fullmatch(self.version)
        return not self.beta, tuple(map(int, self.version.split('.'))) if known else ()
