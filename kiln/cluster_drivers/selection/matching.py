"""Table of candidates: how closely each driver fits a kind of cluster, or why it is out.

Pure. The same drivers give the same table, in whatever order they were installed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from kiln.cluster_drivers.records import WILDCARD, ClusterType, DriverRecord, DriverState
from kiln.cluster_drivers.selection.request import Kind
from kiln.exceptions import ConfigurationError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """The drivers that a site prefers for a type of cluster, the first most."""

    cluster_type: ClusterType
    drivers: tuple[str, ...]
    reason: str

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
        found = ClusterType.of(*words)
        return cls(cluster_type=found, drivers=tuple(drivers), reason=f'preferred for {found}')

    @classmethod
    def default(cls, driver: str) -> Preference:
        """Return the preference for a driver, whatever the type of cluster."""
        return cls(
            cluster_type=ClusterType(WILDCARD, WILDCARD, WILDCARD),
            drivers=(driver,),
            reason='default_driver, and among the candidates',
        )


def preferences_of(options: Any) -> list[Preference]:
    """Return the preferences in the options of [clusters]; the first that applies counts.

    :raises ConfigurationError: a preference cannot be read.
    """
    default = options.default_driver
    stated = [Preference.parse(text) for text in options.driver_preference]
    return [*stated, Preference.default(default)] if default else stated


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One version of one driver, judged for a kind of cluster."""

    driver: DriverRecord
    #: How closely each of its offers fits; see :meth:`Kind.closeness`.
    fits: tuple[tuple[int, ...], ...]
    #: Why it cannot be chosen, as the end of a sentence; empty where it can.
    out: str
    #: The lowest is preferred by the site.
    rank: int
    #: Why the site prefers it; empty where no preference names it.
    preferred: str


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """All installed drivers, by name and version, judged for a kind of cluster."""

    kind: Kind
    rows: tuple[Candidate, ...]

    @property
    def left(self) -> list[Candidate]:
        """The drivers that can be chosen: no other one fits more closely."""
        return [row for row in self.rows if not row.out]


def judge(
    records: Iterable[DriverRecord], kind: Kind, preferences: Iterable[Preference] = ()
) -> Table:
    """Return all drivers with how closely they fit a kind of cluster, or why they are out."""
    ordered = in_order(records)
    newest = current(ordered)
    rivals = [fit for one in newest for fit in _fits(one, kind)]
    ranking: dict[str, str] = {}
    for line in preferences:
        if any(map(line.cluster_type.matches, kind.cluster_types())):
            for name in line.drivers:
                ranking.setdefault(name, line.reason)
    rows = [
        Candidate(
            driver=one,
            fits=_fits(one, kind),
            out=_out(one, kind, newest, rivals),
            rank=[*ranking, one.name].index(one.name),
            preferred=ranking.get(one.name, ''),
        )
        for one in ordered
    ]
    return Table(kind, tuple(rows))


def in_order(records: Iterable[DriverRecord]) -> list[DriverRecord]:
    """Return records by name and version, however they came."""
    return sorted(records, key=lambda one: (one.name, one.recency, one.origin, one.digest))


def current(records: Iterable[DriverRecord]) -> list[DriverRecord]:
    """Return of each driver the version that new clusters get."""
    newest = {one.name: one for one in in_order(records) if one.state is DriverState.ACTIVE}
    return list(newest.values())


def why_unused(record: DriverRecord) -> str:
    """Return why a driver is out of use, and what would change that, as the end of a sentence."""
    match record.state:
        case DriverState.BETA:
            return f'{record.version} is installed but beta. Add it to enabled_beta_drivers.'
        case DriverState.DISABLED:
            return f'{record.version} is disabled: {record.reason}.'
        case DriverState.BROKEN:
            return f'failed to load from {record.origin}: {record.reason}.'
        case _:
            return f'{record.version} {record.reason}.'


def _fits(driver: DriverRecord, kind: Kind) -> tuple[tuple[int, ...], ...]:
    found = map(kind.closeness, driver.provides)
    return tuple(closeness for closeness in found if min(closeness) >= 0)


def _out(
    driver: DriverRecord,
    kind: Kind,
    newest: Sequence[DriverRecord],
    rivals: Sequence[tuple[int, ...]],
) -> str:
    fits = _fits(driver, kind)
    if driver.state is not DriverState.ACTIVE:
        return why_unused(driver)
    if not fits:
        provided = ', '.join(map(str, driver.provides))
        return f'{driver.version} does not build {kind}. It provides: {provided}.'
    if driver not in newest:
        return (
            f'{driver.version} is not its newest version. Ask for {driver.name}=={driver.version}.'
        )
    if all(any(_beats(rival, fit) for rival in rivals) for fit in fits):
        return f'{driver.version} fits less closely than another driver.'
    return ''


def _beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether an offer is closer in some word and less close in none."""
    return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))
