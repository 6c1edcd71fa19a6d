"""Table of candidates: how closely each driver fits a type of cluster.

Pure. The same drivers give the same table, whatever the order of installation.
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
    """The drivers that a site prefers for a type of cluster, most preferred first."""

    cluster_type: ClusterType
    drivers: tuple[str, ...]
    reason: str

    @classmethod
    def parse(cls, text: str) -> Preference:
        """Parse 'vm, ubuntu, kubernetes: first_v1, second_v1'; ``*`` is any.

        :raises ConfigurationError: the text has another form.
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
    """Return the preferences in the options of [clusters]; the first match counts.

    :raises ConfigurationError: a preference cannot be read.
    """
    default = options.default_driver
    stated = [Preference.parse(text) for text in options.driver_preference]
    return [*stated, Preference.default(default)] if default else stated


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One version of one driver, compared with a kind of cluster."""

    driver: DriverRecord
    #: How closely each of its offers fits; see :meth:`Kind.closeness`.
    fits: tuple[tuple[int, ...], ...]
    #: Why it cannot be chosen, as the end of a sentence; empty if it can.
    out: str
    #: The site's preference; the lowest rank is chosen.
    rank: int
    #: Why the site prefers it; empty if no preference names it.
    preferred: str


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """All installed drivers, by name and version, compared with a kind of cluster."""

    kind: Kind
    rows: tuple[Candidate, ...]

    @property
    def left(self) -> list[Candidate]:
        """The drivers that can be chosen: no other driver fits more closely."""
        return [row for row in self.rows if not row.out]

    @property
    def broken(self) -> list[str]:
        """What is wrong with drivers that could fit: nobody knows what they build."""
        return [
            f'"{row.driver.name}" {row.out}'
            for row in self.rows
            if row.driver.state is DriverState.BROKEN and not row.driver.provides
        ]


def judge(
    records: Iterable[DriverRecord], kind: Kind, preferences: Iterable[Preference] = ()
) -> Table:
    """Return for all drivers how closely they fit, or why they cannot be chosen."""
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
    """Return records sorted by name and version."""
    return sorted(records, key=lambda one: (one.name, one.recency, one.origin, one.digest))


def current(records: Iterable[DriverRecord]) -> list[DriverRecord]:
    """Return the version of each driver that new clusters get."""
    newest = {one.name: one for one in in_order(records) if one.state is DriverState.ACTIVE}
    return list(newest.values())


def why_unused(record: DriverRecord) -> str:
    """Return why a driver is not in use and what to do, as the end of a sentence."""
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
            f'{driver.version} is not its newest version. Request {driver.name}=={driver.version}.'
        )
    if all(any(_beats(rival, fit) for rival in rivals) for fit in fits):
        return f'{driver.version} fits less closely than another driver.'
    return ''


def _beats(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return True if an offer is closer in a word and less close in no word."""
    return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))
