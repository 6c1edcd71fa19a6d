"""Values as columns, formatted for people or for programs; pure functions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn

from kiln.models import Amphora, ComputeStatus, State

#: The columns of a short list.
BRIEF = ('id', 'name', 'state', 'addresses', 'zone', 'flavor', 'image', 'age')


class Cell(FormattableColumn[Any]):
    """A value of any kind: None, bool, text, list or mapping."""

    def human_readable(self) -> str:
        value = self._value
        if value is None:
            return ''
        if isinstance(value, bool):
            return 'yes' if value else 'no'
        if isinstance(value, Mapping):
            return ', '.join(f'{key}={item}' for key, item in value.items())
        if isinstance(value, list):
            return ', '.join(map(str, value))
        return str(value)

    def __lt__(self, other: object) -> bool:
        # For --sort-column: missing values come last.
        if not isinstance(other, Cell):
            return NotImplemented
        mine, theirs = self._value, other._value
        if mine is None or theirs is None:
            return mine is not None
        return bool(mine < theirs)


def cells(values: Sequence[Any]) -> list[Any]:
    """Return a row of cells, so that no value is printed as a Python literal."""
    return [Cell(value) for value in values]


def moment(epoch_s: float | None) -> str | None:
    """Return a time in ISO 8601 format, in UTC."""
    if epoch_s is None:
        return None
    at = datetime.datetime.fromtimestamp(epoch_s, datetime.UTC)
    return at.isoformat(timespec='seconds').replace('+00:00', 'Z')


def age(seconds: float | None) -> str | None:
    """Return a time span in its two largest units."""
    if seconds is None:
        return None
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (('d', 86400), ('h', 3600), ('m', 60), ('s', 1)):
        count, left = divmod(left, size)
        if count or parts or unit == 's':
            parts.append(f'{count}{unit}')
    return ' '.join(parts[:2])


def amphora_fields(amphora: Amphora, now: float = 0.0) -> dict[str, Any]:
    """Return all fields of an amphora that can be shown at a time, brief columns first."""
    made_at = amphora.created_at
    return {
        'id': amphora.id,
        'name': amphora.name,
        'state': amphora.state.value,
        'addresses': [address.address for address in amphora.addresses],
        'zone': amphora.availability_zone,
        'flavor': amphora.flavor,
        'image': amphora.image_id,
        'age': None if made_at is None else age(now - made_at),
        'created_at': moment(made_at),
        'type': amphora.amphora_type.value,
        'server_group': amphora.server_group_id,
        'build_key': amphora.build_key,
        'owner': amphora.owner,
        'task_state': amphora.task_state,
        'fault': amphora.fault,
        'fault_code': amphora.fault_code,
        'metadata': dict(amphora.metadata),
    }


#: All columns of an amphora.
COLUMNS = tuple(amphora_fields(Amphora(id='', name='', state=State.UNKNOWN)))


def status_fields(status: ComputeStatus, name: str) -> dict[str, Any]:
    """Return all fields of a status that can be shown."""
    return {
        'id': status.amphora_id,
        'name': name,
        'state': status.state.value,
        'ready': status.ready,
        'task_state': status.task_state,
        'fault': status.fault,
        'fault_code': status.fault_code,
        'observed_at': moment(status.observed_at),
        'stale': status.stale,
    }


def fields(values: Mapping[str, Any]) -> tuple[Sequence[str], list[Any]]:
    """Return the names and cells of one object, for a command that shows it."""
    return tuple(values), cells(list(values.values()))


def table(
    columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> tuple[Sequence[str], list[Any]]:
    """Return the columns and the cells of rows, for a command that lists them."""
    return columns, [cells([row[column] for column in columns]) for row in rows]
