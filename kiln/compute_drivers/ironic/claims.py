"""Claims: allocations of Ironic that record a build; pure.

The uuid of an allocation follows from the owner and the key of its build, and Ironic gives a
uuid once: of two requests for one build, one makes the claim and the other finds it. The id
of an amphora has a part that is drawn for each claim, so that a key can build again.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import uuid
from collections.abc import Mapping
from typing import Any, Self

from kiln.models import Address, BuildRequest

#: What a list of allocations must have for kiln.
FIELDS = ('uuid', 'state', 'node_uuid', 'resource_class', 'last_error', 'extra', 'created_at')

_NAMESPACE = uuid.UUID('5a5a2c5e-6f6c-4d0b-9d0c-1b8a7f0f3c11')
_ID = re.compile(r'([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([0-9a-f]{8})')
#: The entry of an allocation's extra fields that is kiln's.
RECORD = 'kiln'


def uuid_of(owner: str, build_key: str) -> str:
    """Return the uuid of the allocation of a build; neither part can have a slash."""
    return str(uuid.uuid5(_NAMESPACE, f'{owner}/{build_key}'))


def split(amphora_id: str) -> tuple[str, str] | None:
    """Return the allocation and the draw that an id names; None if kiln has no such ids."""
    found = _ID.fullmatch(amphora_id)
    return None if found is None else (found[1], found[2])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """An allocation of kiln, with what its build named."""

    uuid: str
    draw: str
    state: str
    node_uuid: str | None
    resource_class: str
    error: str | None
    created_at: float | None
    record: Mapping[str, Any]
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, allocation: Mapping[str, Any]) -> Self | None:
        """Return the claim of an allocation; None if others made the allocation."""
        extra = allocation.get('extra')
        record = extra.get(RECORD) if isinstance(extra, Mapping) else None
        if not isinstance(record, Mapping) or not record.get('draw'):
            return None
        node_uuid, error = allocation.get('node_uuid'), allocation.get('last_error')
        return cls(
            uuid=str(allocation.get('uuid')),
            draw=str(record['draw']),
            state=str(allocation.get('state')),
            node_uuid=None if node_uuid is None else str(node_uuid),
            resource_class=str(allocation.get('resource_class')),
            error=None if error is None else str(error),
            created_at=seconds_of(allocation.get('created_at')),
            record=record,
            raw=allocation,
        )

    @property
    def id(self) -> str:
        """Id of the amphora."""
        return f'{self.uuid}.{self.draw}'

    @property
    def owner(self) -> str | None:
        """Site that the amphora belongs to."""
        return self.text('owner')

    @property
    def rebuilt(self) -> bool:
        """True if the amphora was rebuilt, so that it has run."""
        return self.record.get('rebuilt') is True

    @property
    def deleting(self) -> bool:
        """True if a delete was accepted that Ironic could not take at that time."""
        return self.record.get('deleting') is True

    @property
    def place(self) -> Mapping[str, Any]:
        """What was found out about its place when it was deployed."""
        found = self.record.get('place')
        return found if isinstance(found, Mapping) else {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Addresses of the amphora."""
        found = self.place.get('addresses')
        rows = (
            [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        )
        return tuple(
            Address(
                address=str(row.get('address')),
                **{
                    name: str(row[name])
                    for name in ('network_id', 'port_id', 'mac')
                    if row.get(name) is not None
                },
            )
            for row in rows
        )

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata of the amphora."""
        found = self.record.get('metadata')
        pairs = found.items() if isinstance(found, Mapping) else ()
        return {str(key): str(value) for key, value in pairs}

    def text(self, name: str) -> str | None:
        """Return a text of the record or of its place; None without one."""
        value = self.record.get(name, self.place.get(name))
        return None if value is None else str(value)


def record_of(request: BuildRequest, draw: str) -> dict[str, Any]:
    """Return what an allocation keeps of a build; nothing of it is confidential."""
    named = {
        'flavor': request.flavor,
        'image': request.image_id,
        'zone': request.availability_zone,
        'metadata': dict(request.metadata) or None,
    }
    return {
        'draw': draw,
        'owner': request.owner,
        'key': request.build_key,
        'name': request.name,
        'type': request.amphora_type.value,
        **{name: value for name, value in named.items() if value is not None},
    }


def patch(**facts: Any) -> list[dict[str, Any]]:
    """Return the change that adds facts to the record of an allocation; none can be a list."""
    return [
        {'op': 'add', 'path': f'/extra/{RECORD}/{name}', 'value': value}
        for name, value in facts.items()
    ]


def seconds_of(moment: Any) -> float | None:
    """Return the seconds since the epoch for a timestamp of OpenStack."""
    try:
        parsed = datetime.datetime.fromisoformat(str(moment or ''))
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)).timestamp()
