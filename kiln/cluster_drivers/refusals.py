"""What is said where no cluster driver can be chosen: what was asked, by whom, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from kiln.cluster_drivers.records import DriverRecord, DriverState
from kiln.cluster_drivers.wanted import DISTRO_PROPERTIES, Image, Kind, Wish
from kiln.cluster_exceptions import (
    AmbiguousClusterDriver,
    ClusterDriverMismatch,
    ClusterDriverUnknown,
    ClusterDriverUnusable,
    ImageWithoutDistro,
    NoClusterDriver,
)

#: Near misses that are told.
_NEAREST = 3


def unknown(wish: Wish, records: Sequence[DriverRecord]) -> ClusterDriverUnknown:
    """Return the error for a driver, or a version of it, that is not installed."""
    if versions := [record.version or '?' for record in records if record.name == wish.name]:
        told = f'is not installed as {wish.version}, only as {", ".join(dict.fromkeys(versions))}.'
    else:
        names = sorted({record.name for record in records})
        close = [f'"{name}"' for name in difflib.get_close_matches(wish.name, names)]
        meant = f' Did you mean {" or ".join(close)}?' if close else ''
        told = f'is not installed.{meant} Installed: {", ".join(names) or "none"}.'
    return ClusterDriverUnknown(
        f'Cluster driver "{wish.name}" {told} It was asked for by {wish.source}.'
    )


def unusable(
    wish: Wish, record: DriverRecord, others: Iterable[DriverRecord]
) -> ClusterDriverUnusable:
    """Return the error for a driver that is installed and out of use."""
    instead = _names(others)
    return ClusterDriverUnusable(
        f'Cluster driver "{record.name}" {why_unused(record)}'
        f'{f" Or choose one of: {instead}." if instead else ""} '
        f'It was asked for by {wish.source}.'
    )


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


def mismatch(
    wish: Wish, record: DriverRecord, kind: Kind, others: Iterable[DriverRecord]
) -> ClusterDriverMismatch:
    """Return the error for a driver that does not build what is wanted."""
    return ClusterDriverMismatch(
        f'Cluster driver "{record.name}" {record.version} does not build {kind}. '
        f'It provides: {", ".join(map(str, record.provides))}. '
        f'Drivers that do: {_names(others) or "none"}. It was asked for by {wish.source}.'
    )


def nobody(
    kind: Kind, usable: Sequence[DriverRecord], records: Iterable[DriverRecord]
) -> NoClusterDriver:
    """Return the error for a kind of cluster that no driver builds."""
    told = [f'No cluster driver builds {kind}.']
    if not usable:
        told.append('None is in use.')
    elif nearest := _nearest(kind, usable):
        told.append(f'Nearest: {"; ".join(nearest)}.')
    for record in records:
        if record.state is not DriverState.ACTIVE and any(map(kind.fit, record.provides)):
            told.append(f'"{record.name}" would, but {why_unused(record)}')
    return NoClusterDriver(' '.join(told))


def _nearest(kind: Kind, usable: Iterable[DriverRecord]) -> list[str]:
    misses = sorted(
        (len(differences), record.name, offered, differences)
        for record in usable
        for offered in record.provides
        if (differences := kind.differences(offered))
    )
    return [
        f'{name} builds {offered}, which differs in {" and ".join(differences)}'
        for count, name, offered, differences in misses[:_NEAREST]
        if count == misses[0][0]
    ]


def ambiguous(kind: Kind, candidates: Iterable[DriverRecord]) -> AmbiguousClusterDriver:
    """Return the error for a kind of cluster that several drivers build."""
    return AmbiguousClusterDriver(
        f'{undecided(kind, candidates)} '
        f'{"State the coe, or choose" if kind.coe is None else "Choose"} with --driver NAME, '
        'image property kiln_driver, or driver_preference of [clusters] in kiln.conf. '
        'Nothing was created.'
    )


def undecided(kind: Kind, candidates: Iterable[DriverRecord]) -> str:
    """Return which drivers build a kind of cluster equally well."""
    offers = ' and '.join(f'{record} ({record.origin})' for record in candidates)
    return f'Several cluster drivers build {kind}: {offers}.'


def without_distro(image: Image | None) -> ImageWithoutDistro:
    """Return the error for an image that does not say what system it has."""
    first, *others = DISTRO_PROPERTIES
    if image is None:
        return ImageWithoutDistro(
            'There is no image to tell the distro, without which a cluster driver cannot be '
            'matched. Name an image, or a driver that builds on any.'
        )
    return ImageWithoutDistro(
        f'{str(image).capitalize()} has no distro, without which a cluster driver cannot be '
        f'matched. Set its property {first}, such as {first}=ubuntu '
        f'({" and ".join(others)} are also read), or name a driver as NAME:OS.'
    )


def _names(records: Iterable[DriverRecord]) -> str:
    return ', '.join(dict.fromkeys(record.name for record in records))
