"""Rows of the tables made from cluster state values, and values from rows; pure.

A field has the column of its name. Texts and numbers are stored as they are,
enums as their values, everything else as JSON text, or NULL if it is empty.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from kiln.clusters.exceptions import StoreError
from kiln.clusters.models import (
    Aim,
    Cluster,
    DriverPin,
    Event,
    Holding,
    Lease,
    Node,
    Operation,
    Step,
)
from kiln.clusters.spec import ClusterSpec, ClusterTemplate, Place
from kiln.db.tables.codec import dumps, loads

_T = TypeVar('_T')
Row = dict[str, Any]
_Facts = Mapping[str, Any]
_NO_FACTS: _Facts = MappingProxyType({})


def read(make: Callable[[Any], _T], rows: Iterable[Any]) -> tuple[_T, ...]:
    """Return the values of rows.

    :raises StoreError: a row has a value that this version of kiln does not support.
    """
    values = []
    for row in rows:
        try:
            values.append(make(row))
        except ValueError as exc:
            raise StoreError(
                f'Cannot read row {row[0]} in the store: {exc}. Use the version of kiln that '
                f'wrote it.'
            ) from exc
    return tuple(values)


def text(words: str) -> str:
    """Return a text that every database accepts; a backend may send any bytes."""
    if words.isascii() and '\0' not in words:
        return words
    return words.replace('\0', '\ufffd').encode('utf-8', 'replace').decode('utf-8')


class _Form(NamedTuple):
    """Functions that turn the value of a field into that of its column, and back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _form(kind: Any) -> _Form | None:
    """Return the form of a field by its type hint; None if the column has the value itself."""
    if dataclasses.is_dataclass(kind):
        return _Form(dumps, functools.partial(loads, kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _Form(operator.attrgetter('value'), kind)
    if kind == _Facts:
        return _or_null(kind, _NO_FACTS)
    if typing.get_origin(kind) is tuple:
        return _or_null(kind, ())
    for inner in typing.get_args(kind):
        if dataclasses.is_dataclass(inner):
            return _or_null(inner, None)
    return None


def _or_null(kind: Any, empty: Any) -> _Form:
    return _Form(
        lambda value: dumps(value, kind) if value else None,
        lambda found: loads(kind, found) if found else empty,
    )


class Columns(Generic[_T]):
    """Mapping between the fields of a class and the columns of its table."""

    def __init__(
        self,
        kind: type[_T],
        *,
        only: Collection[str] = (),
        parts: Mapping[str, Columns[Any]] = _NO_FACTS,
        **renamed: str,
    ) -> None:
        """Map all fields of a class, or those of ``only``.

        ``parts`` maps fields whose own fields have a column each. ``renamed`` has the
        columns that are not named like their field.
        """
        hints = typing.get_type_hints(kind)
        fields = [name for name in only or hints if name not in parts]
        self._kind = kind
        self._parts = parts
        self._columns = {name: renamed.get(name, name) for name in fields}
        self._forms = [
            (name, column, form)
            for name, column in self._columns.items()
            if (form := _form(hints[name]))
        ]
        # Faster than a loop over the fields; a large cluster has thousands of rows.
        self._of_row = operator.attrgetter(*self._columns.values())
        written = dict(self._columns)
        for name, part in parts.items():
            written |= {f'{name}.{inner}': column for inner, column in part._columns.items()}
        self._written = tuple(written.values())
        self._of_value = operator.attrgetter(*written)

    def row(self, value: _T) -> Row:
        """Return the row of a value."""
        row: Row = dict(zip(self._written, self._of_value(value), strict=True))
        for _, column, form in self._forms:
            row[column] = form.write(row[column])
        return row

    def value(self, row: Any) -> _T:
        """Return the value of a row, which may have other columns too."""
        values = dict(zip(self._columns, self._of_row(row), strict=True))
        for name, _, form in self._forms:
            values[name] = form.read(values[name])
        for name, part in self._parts.items():
            values[name] = part.value(row)
        return self._kind(**values)


_PIN = Columns(
    DriverPin,
    name='driver_name',
    version='driver_version',
    origin='driver_origin',
    digest='driver_digest',
)
_AIM = Columns(Aim, parts={'pin': _PIN})
CLUSTER = Columns(Cluster, parts={'pin': _PIN})
NODE = Columns(Node, parts={'place': Columns(Place)}, group='node_group')
OPERATION = Columns(Operation)
STEP = Columns(Step)
LEASE = Columns(Lease, expires_at='expires')
EVENT = Columns(Event)
HOLDING = Columns(Holding)
#: The columns of a cluster and of an operation that an engine writes.
PROGRESS = Columns(
    Cluster,
    only=('former', 'driver_handle', 'driver_state', 'trouble', 'outputs', 'updated_at'),
)
HEADWAY = Columns(Operation, only=('state', 'started_at', 'ended_at', 'cause'))


def desired_row(spec: ClusterSpec, pin: DriverPin | None, decision: _Facts) -> Row:
    """Return the columns that change with the spec of a cluster, and with its driver if given."""
    row = {'spec': dumps(spec)}
    if pin is not None:
        row = _AIM.row(Aim(spec=spec, pin=pin, decision=decision))
    return {**row, 'template': spec.template, 'owner': spec.credentials}


def node_row(node: Node) -> Row:
    """Return the row of a node."""
    return {**NODE.row(node), 'doomed': text(node.doomed)}


def event_row(event: Event, at: float) -> Row:
    """Return the row of an event without its number; ``at`` is the default for its time."""
    row = {**EVENT.row(event), 'message': text(event.message), 'at': event.at or at}
    del row['seq']
    return row


def template_of(row: Any) -> ClusterTemplate:
    """Return the template of a row."""
    template: ClusterTemplate = loads(ClusterTemplate, row.spec)
    return template
