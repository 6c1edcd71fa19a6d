"""Records of cluster drivers: names, versions and types, before a driver is opened."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

WILDCARD = '*'

#: The names of drivers; also names of their directories.
NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]{0,62}')
VERSION = re.compile(r'(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}')

# Magnum's word for the bare metal of AmphoraType.
_SERVER_TYPES = {'bm': 'bare_metal'}


class ClusterType(NamedTuple):
    """Type of cluster that a driver builds; ``*`` is any."""

    server_type: str
    os: str
    coe: str

    @classmethod
    def of(cls, server_type: str, os: str, coe: str) -> ClusterType:
        """Return the type, with Magnum's server type replaced by kiln's."""
        return cls(_SERVER_TYPES.get(server_type, server_type), os, coe)

    def matches(self, wanted: ClusterType) -> bool:
        """Return True if this type covers the wanted type."""
        return all(mine in (WILDCARD, theirs) for mine, theirs in zip(self, wanted, strict=True))

    def __str__(self) -> str:
        return f'({", ".join(self)})'


def cluster_type(entry: object) -> ClusterType:
    """Return a declared cluster type: three words in order, or under their names.

    :raises ValueError: the entry is neither.
    """
    if isinstance(entry, Mapping):
        if set(entry) != set(ClusterType._fields):
            raise ValueError(f'{dict(entry)!r} should have {", ".join(ClusterType._fields)}')
        entry = [entry[name] for name in ClusterType._fields]
    # A string alone is a sequence too, of letters.
    words = [] if isinstance(entry, str) or not isinstance(entry, Sequence) else list(entry)
    if len(words) != len(ClusterType._fields) or not all(
        isinstance(word, str) and word for word in words
    ):
        raise ValueError(f'{entry!r} should be three words: {", ".join(ClusterType._fields)}')
    return ClusterType.of(*words)


class DriverState(enum.StrEnum):
    """State of a driver: usable for new clusters, or the kind of obstacle."""

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
    #: Digest of all files of the driver; changes with any of them.
    digest: str
    state: DriverState = DriverState.ACTIVE
    #: What is wrong with the driver; empty if it is ACTIVE.
    reason: str = ''
    beta: bool = False
    provides: tuple[ClusterType, ...] = ()
    #: The command that installs a missing extra; None where no extra is the cause.
    install: str | None = None

    def __str__(self) -> str:
        return f'{self.name} {self.version}'.strip()

    @property
    def recency(self) -> tuple[bool, tuple[int, ...]]:
        """Sort key that grows with the version; a beta is older than all other versions."""
        known = VERSION.fullmatch(self.version)
        return not self.beta, tuple(map(int, self.version.split('.'))) if known else ()
