"""Claims as amphorae, and machines as their operator sees them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kiln.compute_drivers.appliance.claims.matching import NEW, Record, standing
from kiln.compute_drivers.appliance.claims.state_machine import LEAVING, Claim, Phase
from kiln.compute_drivers.appliance.inventory.machines import Inventory, Machine
from kiln.compute_drivers.authoring.machine_pool import EnrolledMachine, Standing
from kiln.exceptions import AmphoraBuildError
from kiln.models import Address, Amphora


def amphora(claim: Claim, machine: Machine, *, enrolled: bool) -> Amphora:
    """Return a claim and its current machine as an amphora."""
    never_came_up = claim.phase is Phase.FAILED and claim.epoch == 1
    return Amphora(
        id=claim.id,
        name=claim.name,
        state=claim.state,
        amphora_type=claim.amphora_type,
        build_key=claim.build_key,
        owner=claim.owner,
        flavor=claim.flavor,
        image_id=claim.image_id,
        availability_zone=claim.zone,
        addresses=tuple(Address(address=one) for one in machine.addresses),
        metadata=dict(claim.metadata),
        created_at=claim.created_at,
        fault=claim.fault,
        # Only a claim that never came up has failed as a build.
        fault_code=AmphoraBuildError.code if never_came_up else None,
        task_state=claim.task,
        served=claim.epoch > 1 or claim.phase in (Phase.UP, Phase.DOWN),
        raw={
            'machine': claim.machine,
            'phase': claim.phase.value,
            'since': claim.since,
            'failures': claim.failures,
            'probed_at': claim.probed_at,
            # False if the machine is no longer in the inventory.
            'enrolled': enrolled,
        },
    )


def pool(
    inventory: Inventory, claims: Iterable[Claim], records: Mapping[str, Record], now: float
) -> Iterator[EnrolledMachine]:
    """Yield the machines of a pool, by name, as their operator sees them."""
    by_machine = {claim.machine: claim for claim in claims}
    for name in sorted({*inventory.machines, *by_machine}):
        yield _enrolled(
            name, inventory.get(name), by_machine.get(name), records.get(name, NEW), now
        )


def _enrolled(
    name: str, machine: Machine | None, claim: Claim | None, record: Record, now: float
) -> EnrolledMachine:
    how = standing(machine, record, now)
    kept = (machine.maintenance if machine else None) or record.maintenance
    reason, until = (kept, None) if how is Standing.MAINTENANCE else (record.reason, record.until)
    if claim is not None:
        if how is not Standing.MAINTENANCE:
            how = Standing.UNWIPED if claim.phase is Phase.UNWIPED else Standing.CLAIMED
            reason, until = claim.fault, claim.due if claim.phase in LEAVING else None
        gone = None if machine else 'it is no longer in the inventory'
        reason = '; '.join(text for text in (reason, gone) if text) or None
    elif how is Standing.FREE:
        reason, until = None, None
    return EnrolledMachine(
        name=name,
        standing=how,
        amphora_type=claim.amphora_type if claim else machine.amphora_type if machine else '',
        addresses=machine.addresses if machine else (),
        flavors=machine.flavors if machine else (),
        zone=machine.zone if machine else claim.zone if claim else None,
        amphora_id=claim.id if claim else None,
        amphora_name=claim.name if claim else None,
        phase=claim.phase.value if claim else None,
        reason=reason,
        until=until,
        enrolled=machine is not None,
    )
