"""Orphans: unneeded amphorae and resources, found by two polls and then removed.

Pure, except for the last part. A single poll proves little: a build might be in flight, a
list might lag behind, a controller might not have stored what it made. So a suspect must
match the rules in two polls, at least a grace period apart, and again right before it is
removed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from kiln.exceptions import InstanceNotFoundError, InvalidRequest
from kiln.models import Ability, Amphora, Resource, State

if TYPE_CHECKING:
    from kiln.compute.facade import Compute

AMPHORA = 'amphora'
#: Kinds of resources that exist for one amphora. A server group does not: an empty group
#: can wait for its first member.
KINDS = frozenset({'port', 'volume'})

# In any other state an operation is in progress, or the state is unknown.
_AT_REST = frozenset({State.ACTIVE, State.SUSPENDED, State.STOPPED, State.ERROR})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules for the orphans of one site."""

    owner: str
    #: Seconds between the two polls, and the minimum age of an orphan.
    grace_s: float
    #: Ids or build keys of the amphorae that are needed; None if not known.
    known: frozenset[str] | None = None
    #: True if an amphora in ERROR that is not known to be needed is an orphan, too.
    errors: bool = False
    #: Ids or build keys of what belongs to clusters: never an orphan, regardless of the rest.
    kept: frozenset[str] = frozenset()
    #: Ids or build keys of what was given up with its cluster: an orphan if it exists.
    abandoned: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.owner:
            raise InvalidRequest('Cannot look for orphans without an owner tag: name the owner.')
        if not self.grace_s > 0:
            raise InvalidRequest(f'grace must be above 0 seconds, not {self.grace_s}.')
        if self.known is not None and not self.known:
            # A broken query returns an empty result, too.
            raise InvalidRequest(
                'Cannot take an empty list of known amphorae: all would be orphans. '
                'Delete them by name if that is what you want.'
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inventory:
    """Result of one poll of a site, with its time in seconds since the epoch."""

    at: float
    amphorae: Sequence[Amphora] = ()
    resources: Sequence[Resource] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suspect:
    """A possible orphan, and the number of polls that found it."""

    kind: str
    id: str
    name: str
    reason: str
    created_at: float | None
    first_seen: float
    last_seen: float
    sightings: int = 1

    @property
    def key(self) -> tuple[str, str, float | None]:
        """Identity of the suspect across polls, because an id can be reused."""
        return self.kind, self.id, self.created_at

    def age_s(self) -> float:
        """Return its age at the last poll, as far as it is known."""
        born = self.first_seen if self.created_at is None else self.created_at
        return self.last_seen - born

    def confirmed(self, grace_s: float) -> bool:
        """Return True if two polls, far enough apart, found it."""
        return self.sightings > 1 and self.last_seen - self.first_seen >= grace_s

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the suspect that ``to_dict`` described.

        :raises ValueError: not the result of ``to_dict``.
        """
        expected = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(data, Mapping) or set(data) != expected:
            raise ValueError('it is not a list of sightings')
        suspect = cls(**data)
        numbers = (suspect.first_seen, suspect.last_seen, suspect.sightings)
        if not all(isinstance(number, int | float) for number in numbers):
            raise ValueError('a sighting has no time')
        return suspect


def find_orphans(
    inventory: Inventory, rules: Rules, earlier: Iterable[Suspect] = ()
) -> list[Suspect]:
    """Return the suspects of a poll, with the sightings of earlier polls counted.

    A suspect that no longer matches the rules is forgotten: if it matches again later,
    that is a first sighting. ``confirmed`` returns which suspects are orphans.
    """
    before = {suspect.key: suspect for suspect in earlier}
    found = []
    for suspect in _suspects(inventory, rules):
        seen = before.get(suspect.key)
        # A sighting in the future was recorded by a clock that has been set back since:
        # it proves nothing about the elapsed time.
        if seen is not None and seen.first_seen <= seen.last_seen <= inventory.at:
            suspect = dataclasses.replace(
                suspect, first_seen=seen.first_seen, sightings=seen.sightings + 1
            )
        found.append(suspect)
    return found


def _suspects(inventory: Inventory, rules: Rules) -> Iterable[Suspect]:
    present = {one.id for one in inventory.amphorae if one.state is not State.DELETED}
    found: list[tuple[str, Amphora | Resource, str | None]] = [
        *((one.kind, one, _why_resource(one, rules, present)) for one in inventory.resources),
        *((AMPHORA, one, _why_amphora(one, rules)) for one in inventory.amphorae),
    ]
    for kind, one, reason in found:
        if reason and _old_enough(one.created_at, inventory.at, rules):
            yield Suspect(
                kind=kind,
                id=one.id,
                name=one.name,
                reason=reason,
                created_at=one.created_at,
                first_seen=inventory.at,
                last_seen=inventory.at,
            )


def _old_enough(created_at: float | None, now: float, rules: Rules) -> bool:
    # If the age is unknown, the two polls alone prove that it is old enough.
    return created_at is None or now - created_at >= rules.grace_s


def _why_resource(resource: Resource, rules: Rules, present: set[str]) -> str | None:
    if resource.owner != rules.owner or resource.kind not in KINDS:
        return None
    if {resource.id, resource.amphora_id} & rules.kept:
        return None
    if resource.amphora_id is None:
        return 'belongs to no amphora'
    if resource.amphora_id not in present:
        return f'its amphora {resource.amphora_id} is gone'
    return None


def _why_amphora(amphora: Amphora, rules: Rules) -> str | None:
    if amphora.owner != rules.owner:
        return None
    if amphora.state not in _AT_REST or amphora.task_state is not None:
        return None
    if {amphora.id, amphora.build_key} & rules.kept:
        return None
    if {amphora.id, amphora.build_key} & rules.abandoned:
        return 'given up with its cluster'
    if rules.known is not None:
        needed = amphora.id in rules.known or amphora.build_key in rules.known
        return None if needed else 'not among the known amphorae'
    if rules.errors and amphora.state is State.ERROR:
        return f'in error: {amphora.fault}' if amphora.fault else 'in error'
    return None


# ---- at the backend ----------------------------------------------------------


def poll_amphorae(compute: Compute, owner: str) -> Inventory:
    """Return everything at a backend that carries an owner's tag."""
    # Resources first: otherwise the resources of an amphora that is built in between
    # would be listed without the amphora.
    resources: Sequence[Resource] = ()
    if Ability.LIST_RESOURCES in compute.capabilities().abilities:
        resources = compute.list_resources(owner).result()
    amphorae = compute.list_amphorae(owner=owner).result()
    return Inventory(at=compute.driver.clock.time(), amphorae=amphorae, resources=resources)


def poll_again(compute: Compute, suspect: Suspect, rules: Rules) -> Suspect | None:
    """Poll one suspect alone; return it if it still matches the rules."""
    now = compute.driver.clock.time()
    if suspect.kind == AMPHORA:
        inventory = Inventory(at=now, amphorae=_get(compute, suspect.id))
    else:
        listed = compute.list_resources(rules.owner).result()
        resources = [one for one in listed if (one.kind, one.id) == (suspect.kind, suspect.id)]
        # A list can lag behind, so the amphora itself is read by its id.
        owners = [
            amphora
            for resource in resources
            if resource.amphora_id
            for amphora in _get(compute, resource.amphora_id)
        ]
        inventory = Inventory(at=now, resources=resources, amphorae=owners)
    for again in find_orphans(inventory, rules, [suspect]):
        if again.key == suspect.key:
            return again
    return None


def is_orphan(compute: Compute, suspect: Suspect, rules: Rules) -> bool:
    """Return True if a suspect is an orphan now, after another poll of the backend."""
    again = poll_again(compute, suspect, rules)
    return again is not None and suspect.confirmed(rules.grace_s)


def remove(compute: Compute, suspect: Suspect, rules: Rules) -> bool:
    """Remove an orphan and return True; leave it alone if it is no longer an orphan."""
    if not is_orphan(compute, suspect, rules):
        return False
    if suspect.kind == AMPHORA:
        compute.delete(suspect.id).result()
    else:
        resource = Resource(kind=suspect.kind, id=suspect.id, owner=rules.owner)
        compute.delete_resource(resource).result()
    return True


def _get(compute: Compute, amphora_id: str) -> list[Amphora]:
    try:
        return [compute.get_amphora(amphora_id=amphora_id).result()]
    except InstanceNotFoundError:
        return []
