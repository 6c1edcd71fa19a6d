"""Which drivers fit a kind of cluster best, and where nothing says which of them to take.

Pure.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Self

from kiln.cluster_drivers import refusals
from kiln.cluster_drivers.records import WILDCARD, ClusterType, DriverRecord, DriverState
from kiln.cluster_drivers.wanted import Kind, system_names
from kiln.exceptions import ConfigurationError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """Which drivers are preferred for a kind of cluster, the first most."""

    cluster_type: ClusterType
    drivers: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Preference:
        """Return what 'vm, ubuntu, kubernetes: first_v1, second_v1' says; ``*`` is any.

        :raises ConfigurationError: it is written otherwise.
        """
        kind, _, names = text.rpartition(':')
        words = [word.strip() for word in kind.strip(' ()').split(',')]
        drivers = [name.strip() for name in names.split(',')]
        if len(words) != len(ClusterType._fields) or not all([*words, *drivers]):
            raise ConfigurationError(
                f'Cannot use driver_preference "{text}". Write '
                'SERVER_TYPE, OS, COE: DRIVER, DRIVER, such as '
                '"vm, ubuntu, kubernetes: first_v1, second_v1".'
            )
        return cls(cluster_type=ClusterType.of(*words), drivers=tuple(drivers))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """What decides between drivers that fit equally well."""

    #: The first that is for the kind of cluster and names a candidate counts.
    driver_preference: tuple[Preference, ...] = ()
    default_driver: str | None = None

    @classmethod
    def from_options(cls, values: Any) -> Self:
        """Return what the options of [clusters] say.

        :raises ConfigurationError: a preference cannot be read.
        """
        return cls(
            driver_preference=tuple(map(Preference.parse, values.driver_preference)),
            default_driver=values.default_driver,
        )


NO_PREFERENCES = Preferences()


@dataclasses.dataclass(frozen=True, slots=True)
class Preferred:
    """One of several drivers that fit equally well, and why it."""

    driver: DriverRecord
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Drivers of which nothing says which to take."""

    message: str
    drivers: tuple[DriverRecord, ...]
    #: What all of them build; None where they are one driver, installed twice.
    cluster_type: ClusterType | None = None

    def __str__(self) -> str:
        return self.message


def in_order(records: Iterable[DriverRecord]) -> list[DriverRecord]:
    """Return records by name and version, however they came."""
    return sorted(records, key=lambda one: (one.name, one.recency, one.origin, one.digest))


def current(records: Iterable[DriverRecord]) -> list[DriverRecord]:
    """Return of each driver the version that new clusters get."""
    newest = {one.name: one for one in in_order(records) if one.state is DriverState.ACTIVE}
    return list(newest.values())


def best(records: Sequence[DriverRecord], kind: Kind) -> list[DriverRecord]:
    """Return the drivers that build a kind of cluster, without those another one beats.

    One offer beats another that is less close in some respect and closer in
    none: an exact one beats a wildcard.
    """
    fits = [
        (fit, record)
        for record in records
        for offered in record.provides
        if (fit := kind.fit(offered)) is not None
    ]
    unbeaten = {fit for fit, _ in fits if not any(_beats(other, fit) for other, _ in fits)}
    winners = {record for fit, record in fits if fit in unbeaten}
    return [record for record in records if record in winners]


def _beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))


def preferred(
    kind: Kind, candidates: Iterable[DriverRecord], preferences: Preferences
) -> Preferred | None:
    """Return which of some candidates the site prefers; None where it has not said."""
    by_name = {record.name: record for record in candidates}
    for line in preferences.driver_preference:
        if any(map(line.cluster_type.matches, kind.cluster_types())):
            for name in line.drivers:
                if name in by_name:
                    return Preferred(by_name[name], f'preferred for {line.cluster_type}')
    if preferences.default_driver in by_name:
        default = by_name[preferences.default_driver]
        return Preferred(default, 'default_driver, and among the candidates')
    return None


def conflicts(
    records: Iterable[DriverRecord], preferences: Preferences = NO_PREFERENCES
) -> list[Conflict]:
    """Return all that an operator has yet to decide; with none, no choice is ambiguous.

    A cluster that leaves its coe open is the exception: it may fit many.
    """
    ordered = in_order(records)
    installed_twice: dict[tuple[str, str], list[DriverRecord]] = {}
    for record in ordered:
        if record.state is DriverState.CONFLICT:
            installed_twice.setdefault((record.name, record.version), []).append(record)
    found = [
        Conflict(message=f'Cluster driver "{name}" {version} {same[0].reason}.', drivers=(*same,))
        for (name, version), same in installed_twice.items()
    ]
    usable = current(ordered)
    for cluster_type in _overlaps(usable):
        kind = Kind.of(cluster_type)
        candidates = best(usable, kind)
        if len(candidates) > 1 and not preferred(kind, candidates, preferences):
            found.append(
                Conflict(
                    message=refusals.undecided(kind, candidates),
                    drivers=tuple(candidates),
                    cluster_type=cluster_type,
                )
            )
    return found


def _overlaps(records: Iterable[DriverRecord]) -> list[ClusterType]:
    offers = {(record.name, offered) for record in records for offered in record.provides}
    pairs = itertools.combinations(sorted(offers), 2)
    met = (_meet(one, other) for (mine, one), (theirs, other) in pairs if mine != theirs)
    return sorted({both for both in met if both})


def _meet(one: ClusterType, other: ClusterType) -> ClusterType | None:
    """Return the widest kind of cluster that two offers are both for."""
    words = []
    for mine, theirs in zip(one, other, strict=True):
        # A system may have two names, of which one is the more precise.
        if mine == WILDCARD or mine in system_names(theirs):
            words.append(theirs)
        elif theirs == WILDCARD or theirs in system_names(mine):
            words.append(mine)
        else:
            return None
    return ClusterType(*words)
