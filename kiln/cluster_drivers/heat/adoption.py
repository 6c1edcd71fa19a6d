"""Stacks that exist before their clusters: how one is found, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kiln.cluster_drivers.heat.errors import HeatRefused, StackNotFound
from kiln.cluster_drivers.heat.mappings import Definition
from kiln.cluster_drivers.heat.names import owner_of
from kiln.cluster_drivers.heat.state import GOOD, StackState
from kiln.cluster_drivers.values import Existing
from kiln.openstack.heat.rows import StackRow

if TYPE_CHECKING:
    from kiln.cluster_drivers.heat.client import HeatClient

#: Actions after which Heat takes an update; a failed update that was taken back is one of them.
_STEADY = GOOD | {'ROLLBACK'}
#: What Heat shows in place of a hidden value.
_HIDDEN = '******'
#: Values that a fact names, and the characters of each.
_MOST = 8
_LONGEST = 60


def find_stack(client: HeatClient, reference: str) -> StackRow:
    """Return the stack of a name or an id.

    :raises ClusterDriverError: it does not exist, or is a part of another stack.
    """
    row = client.named(reference) or client.with_id(reference)
    if row is None:
        part = _nested(client, reference)
        if part is None:
            raise StackNotFound(
                f'Heat has no stack {reference!r} in the project of the credentials.',
                "Name one of 'openstack stack list', or other credentials.",
            )
        raise HeatRefused(
            f'Cannot go on with stack {part.name}: it is a part of another stack.',
            "Name the whole: 'openstack stack show' has it as parent.",
        )
    return row


def _nested(client: HeatClient, reference: str) -> StackRow | None:
    """Return the part of a stack that has a name or an id; None without one."""
    for key in ('name', 'id'):
        for row in client.stacks(**{key: reference}, show_nested='true'):
            if reference in (row.name, row.id):
                return row
    return None


def check_adoptable(row: StackRow) -> None:
    """Return if a stack can become a cluster's, by what a list has of it.

    :raises ClusterDriverError: it belongs to a cluster, or Heat would not change it now.
    """
    check_free(row)
    start = f'Cannot go on with stack {row.name}'
    if row.action == 'DELETE':
        raise HeatRefused(
            f'{start}: it is {row.state}.', 'Have its servers taken over, or make a new cluster.'
        )
    if row.status == 'FAILED':
        raise HeatRefused(
            f'{start}: it is {row.state}: {row.reason.rstrip(".")}.',
            "Have it mended first, such as by 'openstack stack update --existing --wait'.",
        )
    if row.action not in _STEADY:
        raise HeatRefused(
            f'{start}: it is {row.state}, and Heat changes no such stack.',
            "Bring it back first, such as by 'openstack stack resume'.",
        )


def check_free(row: StackRow) -> None:
    """Return if no cluster has a stack, and Heat does not change it now.

    :raises ClusterDriverError: a cluster has it, or Heat is at work on it.
    """
    start = f'Cannot go on with stack {row.name}'
    if owner := owner_of(row.tags):
        raise HeatRefused(
            f'{start}: it is that of {owner}.',
            'Delete that cluster, or remove the tags of kiln from the stack if its site is gone.',
        )
    if row.status == 'IN_PROGRESS':
        raise HeatRefused(f'{start}: it is {row.state}.', 'Wait until Heat is done with it.')


def existing_of(client: HeatClient, row: StackRow, facts: Iterable[str]) -> Existing:
    """Return what a cluster is created with that goes on with a stack."""
    state = StackState(id=row.id, project=client.project_id(), region=client.region, name=row.name)
    first = f'Heat: stack {row.name} ({row.id}) is {row.state}, and becomes that of the cluster'
    return Existing(driver_state=state.write(), facts=(first, *facts))


def parameter_facts(shown: Mapping[str, Any], definition: Definition) -> Iterator[str]:
    """Yield which parameters of a stack change, as far as Heat shows their values.

    :param shown: The parameters of the stack, as Heat shows them: as texts.
    """
    known = definition.template.get('parameters')
    declared = known if isinstance(known, Mapping) else {}
    changed: list[str] = []
    left: list[str] = []
    for name, value in sorted(shown.items()):
        is_set = name in definition.shown
        then = definition.shown[name] if is_set else _default(declared.get(name))
        # A secret of the driver can have been a plain value before.
        is_secret = _is_secret(name, definition) or _is_hidden(declared.get(name))
        if name.startswith('OS::') or value == _HIDDEN or is_secret:
            continue
        if isinstance(then, Mapping) or _text(value) == _text(then):
            continue
        (changed if is_set else left).append(f'{name} ({_text(value)} -> {_text(then)})')
    if changed:
        yield f'Heat: parameters that change: {_listed(changed)}'
    if left:
        yield f'Heat: parameters that the driver does not set: {_listed(left)}'


def _is_secret(name: str, definition: Definition) -> bool:
    return definition.params.get(name) != definition.shown.get(name)


def _is_hidden(parameter: Any) -> bool:
    return isinstance(parameter, Mapping) and bool(parameter.get('hidden'))


def _default(parameter: Any) -> Any:
    return parameter.get('default', 'none') if isinstance(parameter, Mapping) else 'none'


def _text(value: Any) -> str:
    text = ','.join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'


def _listed(names: list[str]) -> str:
    more = f' and {len(names) - _MOST} more' if len(names) > _MOST else ''
    return f'{", ".join(names[:_MOST])}{more}'
