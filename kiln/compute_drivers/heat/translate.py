"""Translation of stacks and their servers to amphorae; pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kiln.compute_drivers.heat.building.names import SERVER_STACK_TAG, key_of, owner_of
from kiln.compute_drivers.heat.building.template import METADATA, NAME, ZONE
from kiln.compute_drivers.nova import translate
from kiln.compute_drivers.nova.api.errors import fault_code
from kiln.models import Amphora, State
from kiln.openstack.heat.rows import StackRow
from kiln.openstack.replies import fit_to_tell

#: The fault of a stack whose server was deleted behind its back.
LOST = 'Its server no longer exists, although its stack does.'

_PREFIX = re.compile(
    r'^Resource [A-Z]+ failed: (?:\w+: )?(?:[\w.]+resources\.[\w-]+: |resources\.[\w-]+: )?'
)
_SAID = re.compile(r'Message: (?P<said>.*), Code: \w+', re.DOTALL)
_REQUEST = re.compile(r'( \(HTTP \d+\))?( \(Request-ID: [\w-]+\))?$')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a build named, as the parameters of its stack; they never change."""

    name: str = ''
    availability_zone: str | None = None
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, parameters: Mapping[str, Any]) -> Facts:
        """Return the facts in the parameters of a stack, as sent or as shown."""
        metadata = parameters.get(METADATA)
        if isinstance(metadata, str):
            # Heat shows it as text.
            metadata = _json(metadata)
        given = metadata if isinstance(metadata, Mapping) else {}
        return cls(
            name=str(parameters.get(NAME) or ''),
            availability_zone=parameters.get(ZONE) or None,
            metadata={str(key): str(value) for key, value in given.items()},
        )

    def as_server(self) -> dict[str, Any]:
        """Return a server with the facts, as Nova would describe it."""
        return {
            'id': '',
            'name': self.name,
            'metadata': self.metadata,
            'OS-EXT-AZ:availability_zone': self.availability_zone,
        }


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def has_server(row: StackRow) -> bool:
    """Return True if a stack is past its creation and before its end: its server decides."""
    return row.action not in ('CREATE', 'DELETE') or row.state == 'CREATE_COMPLETE'


def stack_of(server: Mapping[str, Any]) -> str:
    """Return the id of the stack that a server belongs to; empty without one."""
    tags = server.get('tags') or ()
    found = (
        tag.removeprefix(SERVER_STACK_TAG) for tag in tags if tag.startswith(SERVER_STACK_TAG)
    )
    return next(found, '')


def state_of(row: StackRow, server: Mapping[str, Any] | None) -> State:
    """Return the state of a stack with its server, or without one."""
    if not has_server(row):
        if row.status == 'FAILED':
            return State.ERROR
        # A deleted stack keeps its name as long as it is listed.
        return State.DELETING if row.action == 'DELETE' else State.BUILDING
    return State.ERROR if server is None else translate.state_of(server)


def amphora_of(
    row: StackRow, server: Mapping[str, Any] | None, facts: Facts | None = None
) -> Amphora:
    """Return the amphora of a stack; without a server, with the facts of its build."""
    described = server or (facts or Facts()).as_server()
    amphora = translate.amphora_of(described)
    fault = fault_of(row, server) or amphora.fault
    return dataclasses.replace(
        amphora,
        id=row.id,
        state=state_of(row, server),
        build_key=key_of(row),
        owner=owner_of(row),
        created_at=translate.seconds_of(row.created_at),
        fault=fault,
        fault_code=fault_code(fault),
        served=_served(row, server, amphora),
        raw=raw_of(row, server, amphora),
    )


def as_built(row: StackRow, facts: Facts) -> Amphora:
    """Return the amphora of a stack as its build named it."""
    return dataclasses.replace(translate.as_built(facts.as_server()), id=row.id)


def fault_of(row: StackRow, server: Mapping[str, Any] | None) -> str | None:
    """Return why a stack failed, in the words of the service that failed it."""
    if has_server(row):
        return LOST if server is None else None
    if row.status != 'FAILED':
        return None
    words = words_of(row.reason)
    return f'Heat could not delete it: {words}' if row.action == 'DELETE' else words


def words_of(reason: str) -> str:
    """Return what a service said, without what Heat wraps around it."""
    said = _PREFIX.sub('', ' '.join(reason.split()))
    if found := _SAID.search(said):
        said = found['said']
    return fit_to_tell(_REQUEST.sub('', said.strip())) or 'no reason given'


def raw_of(row: StackRow, server: Mapping[str, Any] | None, amphora: Amphora) -> Mapping[str, Any]:
    """Return the answers of Nova and Heat, as far as they can be shown."""
    stack = {
        'id': row.id, 'stack_name': row.name, 'stack_status': row.state,
        'stack_status_reason': words_of(row.reason) if row.status == 'FAILED' else row.reason,
        'creation_time': row.created_at, 'updated_time': row.updated_at, 'tags': list(row.tags),
    }  # fmt: skip
    return MappingProxyType({**(amphora.raw if server else {}), 'stack': stack})


def _served(row: StackRow, server: Mapping[str, Any] | None, amphora: Amphora) -> bool | None:
    if row.action == 'CREATE' and row.status != 'COMPLETE':
        # Nova might run it by now, but an amphora is in use once its stack is complete.
        return False
    if server is None:
        return True if has_server(row) else None
    return amphora.served
