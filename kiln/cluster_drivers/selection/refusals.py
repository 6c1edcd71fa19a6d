"""Errors of driver selection: the request, its source, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kiln.cluster_drivers.records import DriverRecord, DriverState
from kiln.cluster_drivers.selection.matching import Candidate, Table, current
from kiln.cluster_drivers.selection.request import DISTRO_PROPERTIES, Image, Kind, Wish
from kiln.clusters.exceptions import (
    AmbiguousClusterDriver,
    ClusterDriverMismatch,
    ClusterDriverUnknown,
    ClusterDriverUnusable,
    DriverSelectionError,
    ImageWithoutDistro,
    NoClusterDriver,
)

#: Near misses that are listed.
_NEAREST = 3


def unknown(wish: Wish, table: Table) -> ClusterDriverUnknown:
    """Return the error for a driver, or a version of it, that is not installed."""
    installed = [row.driver for row in table.rows]
    if versions := [one.version or '?' for one in installed if one.name == wish.name]:
        told = f'is not installed as {wish.version}, only as {", ".join(dict.fromkeys(versions))}.'
    else:
        names = sorted({one.name for one in installed})
        close = [f'"{name}"' for name in difflib.get_close_matches(wish.name, names)]
        meant = f' Did you mean {" or ".join(close)}?' if close else ''
        told = f'is not installed.{meant} Installed: {", ".join(names) or "none"}.'
    return ClusterDriverUnknown(
        f'Cluster driver "{wish.name}" {told} It was requested by {wish.source}.'
    )


def unfit(wish: Wish, named: Candidate, table: Table) -> DriverSelectionError:
    """Return the error for a driver that is not in use, or does not build the kind of cluster."""
    error: type[DriverSelectionError] = ClusterDriverUnusable
    names = ', '.join(dict.fromkeys(row.driver.name for row in table.left))
    instead = f'Or choose one of: {names}. ' if names else ''
    if named.driver.state is DriverState.ACTIVE:
        error, instead = ClusterDriverMismatch, f'Drivers that do: {names or "none"}. '
    return error(
        f'Cluster driver "{wish.name}" {named.out} {instead}It was requested by {wish.source}.'
    )


def nobody(table: Table) -> NoClusterDriver:
    """Return the error for a kind of cluster that no driver builds."""
    told = [f'No cluster driver builds {table.kind}.']
    usable = current(row.driver for row in table.rows)
    if not usable:
        told.append('No driver is in use.')
    elif nearest := _nearest(table.kind, usable):
        told.append(f'Nearest: {"; ".join(nearest)}.')
    told += [f'"{row.driver.name}" would, but {row.out}' for row in table.rows if row.fits]
    told += _maybe(table)
    return NoClusterDriver(' '.join(told))


def _maybe(table: Table) -> list[str]:
    """Return the broken drivers that could build any cluster, as sentences."""
    return [f'Broken: {one}' for one in table.broken]


def _nearest(kind: Kind, usable: Iterable[DriverRecord]) -> list[str]:
    misses = sorted(
        (len(differences := kind.differences(offered)), record.name, offered, differences)
        for record in usable
        for offered in record.provides
    )
    return [
        f'{name} builds {offered}, which differs in {" and ".join(differences)}'
        for count, name, offered, differences in misses[:_NEAREST]
        if count == misses[0][0]
    ]


def ambiguous(table: Table) -> AmbiguousClusterDriver:
    """Return the error for a kind of cluster that several drivers build."""
    return AmbiguousClusterDriver(
        f'{undecided(table)} '
        f'{"State the coe, or choose" if table.kind.coe is None else "Choose"} with '
        '--driver NAME, image property kiln_driver, or driver_preference of [clusters] in '
        'kiln.conf. Nothing was created.'
    )


def undecided(table: Table) -> str:
    """Return a message with the drivers that build a kind of cluster equally well."""
    offers = ' and '.join(f'{row.driver} ({row.driver.origin})' for row in table.left)
    return f'Several cluster drivers build {table.kind}: {offers}.'


def without_distro(image: Image | None, table: Table) -> ImageWithoutDistro:
    """Return the error for an image without a distro property."""
    first, *others = DISTRO_PROPERTIES
    told = [
        f'{str(image).capitalize()} has no distro, so a cluster driver cannot be matched. '
        f'Set its property {first}, such as {first}=ubuntu '
        f'({" and ".join(others)} are also read), or name a driver as NAME:OS.'
    ]
    if image is None:
        told = [
            'Without an image the distro is unknown, and a cluster driver cannot be matched. '
            'Name an image, or a driver that builds on any distro.'
        ]
    return ImageWithoutDistro(' '.join([*told, *_maybe(table)]))
