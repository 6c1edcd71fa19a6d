"""Selection of the driver of a new cluster: chosen once, explained, pinned.

Pure. The same inputs give the same choice, whatever the order of installation. Nothing
is guessed: two drivers that fit equally well, without a preference between them, are an error
that names both.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kiln.cluster_drivers.records import WILDCARD, ClusterType, DriverRecord, DriverState
from kiln.cluster_drivers.selection import refusals
from kiln.cluster_drivers.selection.matching import (
    Candidate,
    Preference,
    Table,
    current,
    in_order,
    judge,
)
from kiln.cluster_drivers.selection.request import (
    Image,
    Kind,
    Request,
    Trace,
    Wish,
    read,
    read_kind,
    read_wishes,
    system_names,
)
from kiln.clusters.exceptions import DriverSelectionError
from kiln.clusters.models import DriverPin

_NOTHING_ASKED = Request()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The driver of a cluster, and the steps of the choice."""

    pin: DriverPin
    wanted: ClusterType
    request: Request
    template: Request
    image: Image | None
    steps: tuple[str, ...]
    #: What a user should know, or change, although a driver was chosen.
    notices: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain data, to be stored with the cluster."""
        data = dataclasses.asdict(self)
        return {**data, **{name: list(data[name]) for name in ('wanted', 'steps', 'notices')}}


def resolve(
    request: Request,
    *,
    records: Iterable[DriverRecord],
    template: Request = _NOTHING_ASKED,
    image: Image | None = None,
    preferences: Iterable[Preference] = (),
) -> Decision:
    """Choose the driver of a new cluster.

    :raises DriverSelectionError: no driver can be chosen; ``steps`` of the error has the
        steps up to the failure.
    """
    said, trace = list(read(request, template, image)), Trace()
    wishes = list(read_wishes(said))
    kind = read_kind(said, wishes, image, trace)
    table = judge(records, kind, preferences)
    try:
        chosen = _wished(wishes, table, image, trace) if wishes else _matched(table, image, trace)
    except DriverSelectionError as exc:
        exc.steps = tuple(trace.steps)
        raise
    trace.notices += _surprises(chosen, table, wishes[0] if wishes else None)
    return Decision(
        pin=pin_of(chosen.driver),
        wanted=kind.cluster_types()[0],
        request=request,
        template=template,
        image=image.only_what_counts() if image else None,
        steps=tuple(trace.steps),
        notices=tuple(trace.notices),
    )


def explain(outcome: Decision | DriverSelectionError) -> list[str]:
    """Return the steps and the outcome of a choice, one line each."""
    if isinstance(outcome, DriverSelectionError):
        return [*outcome.steps, f'error {outcome.code}: {outcome}']
    pin = outcome.pin
    notices = [f'notice: {notice}' for notice in outcome.notices]
    return [*outcome.steps, *notices, f'pinned: {pin.name} {pin.version}, digest {pin.digest}']


def pin_of(record: DriverRecord) -> DriverPin:
    """Return the pin of a cluster to a driver."""
    return DriverPin(
        name=record.name, version=record.version, origin=record.origin, digest=record.digest
    )


def _wished(wishes: Sequence[Wish], table: Table, image: Image | None, trace: Trace) -> Candidate:
    wish, *others = wishes
    trace.steps.append(f'driver: {wish} ({wish.source})')
    trace.notices += [
        f'{other.source} requests driver {other}; {wish.source} requests {wish} and '
        f'takes precedence.'
        for other in others
        if other.name != wish.name
    ]
    named = [row for row in table.rows if wish.admits(row.driver)]
    if not named:
        raise refusals.unknown(wish, table)
    usable = [row for row in named if row.driver.state is DriverState.ACTIVE]
    newest = (usable or named)[-1]
    misses = map(table.kind.differences, newest.driver.provides)
    if usable and not newest.fits and not table.kind.os and ('os',) in misses:
        raise refusals.without_distro(image, table)
    if not usable or not newest.fits:
        raise refusals.unfit(wish, newest, table)
    trace.steps.append(_chosen(newest.driver, f'requested by {wish.source}'))
    return newest


def _matched(table: Table, image: Image | None, trace: Trace) -> Candidate:
    candidates = ', '.join(str(row.driver) for row in table.left) or 'none'
    trace.steps += ['driver: not requested by name', f'candidates: {candidates}']
    trace.steps += [f'broken: {one}' for one in table.broken]
    if not table.left:
        raise refusals.nobody(table) if table.kind.os else refusals.without_distro(image, table)
    first = min(table.left, key=lambda row: row.rank)
    why = first.preferred if len(table.left) > 1 else 'no other fits as closely'
    if not why:
        trace.steps.append('preferences: none for these drivers')
        raise refusals.ambiguous(table)
    trace.steps.append(_chosen(first.driver, why))
    return first


def _chosen(driver: DriverRecord, why: str) -> str:
    return f'chosen: {driver} ({driver.origin}), {why}'


def _surprises(chosen: Candidate, table: Table, wish: Wish | None) -> Iterator[str]:
    driver, systems = chosen.driver, table.kind.os
    unused = (
        f'{driver} is used, because "{row.driver.name}" {row.out}'
        for row in table.rows
        if row.driver.name == driver.name and row.driver.recency > driver.recency
        if wish is None or wish.admits(row.driver)
    )
    yield from dict.fromkeys(unused)
    closest = max(of_system for _, of_system, _ in chosen.fits)
    built = systems[-closest] if closest else WILDCARD
    if closest < len(systems) and built in system_names(systems[0]):
        yield f'{driver} builds {built}; {systems[0]} is a variant of {built}.'


class Conflict(NamedTuple):
    """Drivers that fit equally well, without a preference."""

    message: str
    drivers: tuple[DriverRecord, ...]
    #: The type that all of them build; None for one driver installed twice.
    cluster_type: ClusterType | None = None


def conflicts(
    records: Iterable[DriverRecord], preferences: Sequence[Preference] = ()
) -> list[Conflict]:
    """Return the conflicts that an operator must decide; if empty, no choice is ambiguous.

    The exception is a cluster that leaves its coe open: many drivers can fit it.
    """
    ordered = in_order(records)
    installed_twice: dict[tuple[str, str], list[DriverRecord]] = {}
    for record in ordered:
        if record.state is DriverState.CONFLICT:
            installed_twice.setdefault((record.name, record.version), []).append(record)
    found = [
        Conflict(f'Cluster driver "{name}" {version} {same[0].reason}.', tuple(same))
        for (name, version), same in installed_twice.items()
    ]
    for cluster_type in sorted(_overlaps(current(ordered))):
        table = judge(ordered, Kind.of(cluster_type), preferences)
        if len(table.left) > 1 and not any(row.preferred for row in table.left):
            drivers = tuple(row.driver for row in table.left)
            found.append(Conflict(refusals.undecided(table), drivers, cluster_type))
    return found


def _overlaps(records: Iterable[DriverRecord]) -> set[ClusterType]:
    """Return the widest types of cluster that two drivers share."""
    offers = [(record.name, offered) for record in records for offered in record.provides]
    return {
        ClusterType(*words)
        for (mine, one), (theirs, other) in itertools.combinations(offers, 2)
        if mine != theirs
        # If two words match, both drivers fit the more precise word.
        for words in itertools.product(*zip(one, other, strict=True))
        if not any(map(Kind.of(ClusterType(*words)).differences, (one, other)))
    }
