"""Activation of discovered cluster drivers: enabled, disabled, beta, conflict.

Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kiln.cluster_drivers.discovery.programs import AS_KILN, Programs
from kiln.cluster_drivers.records import DriverRecord, DriverState


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DiscoverySettings:
    """Where to look for drivers, and which are in use; each list has driver names."""

    driver_path: tuple[Path, ...] = ()
    #: Empty: all drivers that are not disabled.
    enabled_drivers: tuple[str, ...] = ()
    disabled_drivers: tuple[str, ...] = ()
    enabled_beta_drivers: tuple[str, ...] = ()
    #: The origin to use for a driver that is installed twice in one version.
    driver_origin: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: True if a disabled driver is also out of use for its existing clusters.
    disabled_hard: bool = False
    #: True if a driver that changed without a new version is out of use for its clusters.
    refuse_changed: bool = False
    programs: Programs = AS_KILN

    @classmethod
    def from_options(cls, values: Any) -> Self:
        """Read the options of [clusters]."""
        return cls(
            driver_path=tuple(Path(path).expanduser() for path in values.driver_path),
            enabled_drivers=tuple(values.enabled_drivers),
            disabled_drivers=tuple(values.disabled_drivers),
            enabled_beta_drivers=tuple(values.enabled_beta_drivers),
            driver_origin=dict(values.driver_origin),
            disabled_hard=values.disabled_hard,
            refuse_changed=values.refuse_changed_drivers,
            programs=Programs(
                user=values.program_user,
                runs=Path(values.run_path).expanduser().absolute() if values.run_path else None,
            ),
        )

    def unknown_names(self, records: Iterable[DriverRecord]) -> list[str]:
        """Return 'option: name' for each named driver that is not installed."""
        installed = {record.name for record in records}
        lists = ('enabled_drivers', 'disabled_drivers', 'enabled_beta_drivers', 'driver_origin')
        return [
            f'{option}: {name}'
            for option in lists
            for name in getattr(self, option)
            if name not in installed
        ]


def activated(found: Sequence[DriverRecord], wanted: DiscoverySettings) -> list[DriverRecord]:
    """Return each record with its state and the reason for it."""
    return [_judged(record, found, wanted) for record in found]


def _judged(
    record: DriverRecord, found: Sequence[DriverRecord], wanted: DiscoverySettings
) -> DriverRecord:
    # A broken driver that is disabled is not worth a report.
    if reason := _unwanted(record, wanted):
        return dataclasses.replace(record, state=DriverState.DISABLED, reason=reason)
    if record.state is DriverState.BROKEN:
        return record
    loaded = [one for one in found if one.state is not DriverState.BROKEN]
    same = [one for one in loaded if (one.name, one.version) == (record.name, record.version)]
    chosen = [one for one in same if _is_from(one, wanted.driver_origin.get(record.name))]
    if len(same) > 1 and chosen != [record]:
        return _second(record, same, chosen)
    if record.beta and record.name not in wanted.enabled_beta_drivers:
        return dataclasses.replace(record, state=DriverState.BETA, reason='beta, and not enabled')
    return record


def _unwanted(record: DriverRecord, wanted: DiscoverySettings) -> str:
    if record.name in wanted.disabled_drivers:
        return 'it is in disabled_drivers'
    if wanted.enabled_drivers and record.name not in wanted.enabled_drivers:
        return 'it is not in enabled_drivers'
    return ''


def _second(
    record: DriverRecord, same: Sequence[DriverRecord], chosen: Sequence[DriverRecord]
) -> DriverRecord:
    if len(chosen) == 1:
        reason = f'driver_origin names {chosen[0].origin}'
        return dataclasses.replace(record, state=DriverState.DISABLED, reason=reason)
    origins = ' and '.join(sorted(one.origin for one in same))
    many = len(same) > 2
    return dataclasses.replace(
        record,
        state=DriverState.CONFLICT,
        reason=(
            f'is provided {f"{len(same)} times" if many else "twice"}: {origins}. '
            f'{"All" if many else "Both"} are out of use until driver_origin names one'
        ),
    )


def _is_from(record: DriverRecord, origin: str | None) -> bool:
    # 'package acme-kiln 0.3' matches itself, 'acme-kiln 0.3' and 'acme-kiln'.
    _, _, called = record.origin.partition(' ')
    name = called.rpartition(' ')[0] or called
    return origin is not None and origin.rstrip('/') in (record.origin, called, name)
