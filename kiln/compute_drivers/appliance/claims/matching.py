"""Choice of a machine for a build, and the reasons against the others; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from kiln.compute_drivers.appliance.claims.state_machine import Claim
from kiln.compute_drivers.appliance.inventory.machines import Inventory, Machine, Verb
from kiln.compute_drivers.appliance.inventory.reading import machine_of
from kiln.compute_drivers.authoring.machine_pool import Standing
from kiln.exceptions import InsufficientCapacity, InvalidBuildRequest
from kiln.models import BuildRequest

#: The number of machine names listed with each reason.
_NAMES = 3


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A pool's record of a machine, independent of claims."""

    #: The number of its last release in the pool: the greater, the later.
    used: int = 0
    #: Failed claims in a row; ``reason`` is the fault of the last one.
    failures: int = 0
    until: float = 0.0
    reason: str | None = None
    #: Why an operator has put it into maintenance.
    maintenance: str | None = None


#: The record of a machine that was never used.
NEW = Record()


def standing(machine: Machine | None, record: Record, now: float) -> Standing:
    """Return the standing of an unclaimed machine."""
    if record.maintenance is not None or (machine is not None and machine.maintenance is not None):
        return Standing.MAINTENANCE
    return Standing.QUARANTINE if now < record.until else Standing.FREE


def in_maintenance(
    inventory: Inventory, records: Mapping[str, Record], now: float
) -> frozenset[str]:
    """Return the machines in maintenance, on which nothing is run."""
    return frozenset(
        name
        for name in {*records, *inventory.machines}
        if standing(inventory.get(name), records.get(name, NEW), now) is Standing.MAINTENANCE
    )


def machine_for(inventory: Inventory, claim: Claim) -> Machine:
    """Return a claim's machine as enrolled now, or else as it was when claimed."""
    return inventory.get(claim.machine) or machine_of(claim.machine, claim.table)


def choose(
    request: BuildRequest,
    inventory: Inventory,
    records: Mapping[str, Record],
    taken: Iterable[str],
    now: float,
) -> Machine:
    """Return the fitting machine that has been unused for longest.

    :raises InvalidBuildRequest: no machine could ever fit.
    :raises InsufficientCapacity: no fitting machine is free; the message gives the reasons.
    """
    check_offered(request, inventory)
    claimed = frozenset(taken)
    reasons: dict[str, list[str]] = {}
    fitting = []
    for machine in inventory:
        record = records.get(machine.name, NEW)
        reason = _mismatch(request, machine)
        if reason is None and machine.name in claimed:
            reason = 'claimed'
        if reason is None and (how := standing(machine, record, now)) is not Standing.FREE:
            reason = f'in {how.value}'
        if reason is None:
            fitting.append((record.used, machine.name, machine))
        else:
            reasons.setdefault(reason, []).append(machine.name)
    if not fitting:
        raise InsufficientCapacity(_no_room(request, reasons), build_key=request.build_key)
    return min(fitting)[2]


def check_offered(request: BuildRequest, inventory: Inventory) -> None:
    """Refuse a flavor, image or zone that no machine has, claimed or not."""
    for kind, name in (
        ('flavor', request.flavor),
        ('image', request.image_id),
        ('zone', request.availability_zone),
    ):
        if name is not None and not inventory.offers(kind, name):
            raise InvalidBuildRequest(
                f'Cannot build {request.name!r}: no machine of the inventory has {kind} {name!r}.',
                build_key=request.build_key,
            )


def brings(request: BuildRequest) -> bool:
    """Return True if a build has data that only a claim command can put on a machine."""
    return bool(request.files or request.keys or request.user_data is not None)


def _mismatch(request: BuildRequest, machine: Machine) -> str | None:
    """Return why a machine does not fit, claimed or not; None if it fits."""
    if machine.amphora_type is not request.amphora_type:
        return 'of another type'
    if request.flavor and machine.flavors and request.flavor not in machine.flavors:
        return 'of another flavor'
    if request.availability_zone not in (None, machine.zone):
        return 'in another zone'
    if request.image_id and machine.images and request.image_id not in machine.images:
        return 'without the image'
    if brings(request) and not machine.argv(Verb.CLAIM):
        return 'without a claim command to take user data, keys or files'
    return None


def _no_room(request: BuildRequest, reasons: Mapping[str, Sequence[str]]) -> str:
    wanted = [f'type {request.amphora_type.value}']
    for kind, name in (
        ('flavor', request.flavor),
        ('zone', request.availability_zone),
        ('image', request.image_id),
    ):
        wanted += [f'{kind} {name}'] if name else []
    told = '; '.join(
        f'{len(names)} {reason} ({", ".join(sorted(names)[:_NAMES])}'
        f'{", ..." if len(names) > _NAMES else ""})'
        for reason, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    )
    count = sum(map(len, reasons.values()))
    return (
        f'Cannot build {request.name!r}: none of {count} machines is free with '
        f'{", ".join(wanted)}: {told or "the inventory is empty"}.'
    )
