"""Pins of clusters to drivers, checked against the drivers that are installed.

Pure.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable

from kiln.cluster_drivers.records import DriverRecord, DriverState
from kiln.cluster_drivers.selection.matching import in_order
from kiln.clusters.models import DriverPin


class PinState(enum.StrEnum):
    """The state of a pinned driver."""

    INTACT = 'intact'
    #: The same files from another origin.
    MOVED = 'moved'
    #: Changed without a new version since the cluster was created.
    CHANGED = 'changed'
    BROKEN = 'broken'
    MISSING = 'missing'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PinCheck:
    """The state of the driver that a cluster is pinned to, and what to do about it."""

    pin: DriverPin
    state: PinState
    #: For people; empty for an intact driver.
    message: str = ''
    #: The driver that serves the cluster; None if no driver can.
    record: DriverRecord | None = None


def check_pin(pin: DriverPin, records: Iterable[DriverRecord]) -> PinCheck:
    """Return the driver that serves a cluster, and whether it has changed.

    Obstacles for new clusters, such as a disabled driver, do not count here: the
    operator decides whether they apply to existing clusters, too.
    """
    named = [record for record in in_order(records) if record.name == pin.name]
    sound = [
        record
        for record in named
        if record.version == pin.version and record.state is not DriverState.BROKEN
    ]
    exact = [record for record in sound if record.digest == pin.digest]
    at_home = [record for record in sound if record.origin == pin.origin]
    if both := [record for record in exact if record in at_home]:
        return PinCheck(pin=pin, state=PinState.INTACT, record=both[0])
    if exact:
        message = f'{exact[0]} now comes from {exact[0].origin}, and came from {pin.origin}.'
        return PinCheck(pin=pin, state=PinState.MOVED, message=message, record=exact[0])
    if not at_home and len(sound) != 1:
        # None, or several from other origins: the driver of the cluster is unknown.
        return _lost(pin, named)
    record = (at_home or sound)[0]
    message = (
        f'{record} ({record.origin}) has changed without a new version: digest '
        f'{record.digest}, was {pin.digest}. Give the changed driver a new version, and put '
        'the former driver back.'
    )
    return PinCheck(pin=pin, state=PinState.CHANGED, message=message, record=record)


def _lost(pin: DriverPin, named: list[DriverRecord]) -> PinCheck:
    wanted = f'{pin.name} {pin.version} ({pin.origin})'
    for record in named:
        # The version of a broken driver can be unknown.
        if record.state is DriverState.BROKEN and record.version in (pin.version, ''):
            message = f'{wanted} failed to load: {record.reason}.'
            return PinCheck(pin=pin, state=PinState.BROKEN, message=message)
    others = ', '.join(f'{record.version or "?"} ({record.origin})' for record in named) or 'none'
    message = (
        f'{wanted} is not installed. Installed versions of {pin.name}: {others}. '
        'Install it again, or move the cluster: kiln cluster migrate-driver.'
    )
    return PinCheck(pin=pin, state=PinState.MISSING, message=message)
