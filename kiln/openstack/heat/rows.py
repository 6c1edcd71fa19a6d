"""Stacks, resources and changes as Heat's API describes them; pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kiln.openstack.replies import without_quotes

#: Failed resources that a reason names, and the characters of each.
_MOST = 5
_LONGEST = 400
_SERVER = 'OS::Nova::Server'
#: The longest name of a group of nodes.
_LONGEST_GROUP = 24
#: The deepest nesting that is climbed; Heat allows 5.
_DEEPEST = 10


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StackRow:
    """A stack, as a list has it."""

    id: str
    name: str
    #: CREATE, UPDATE, DELETE, CHECK and so on.
    action: str
    #: IN_PROGRESS, COMPLETE or FAILED.
    status: str
    reason: str = ''
    created_at: str = ''
    #: When the last request was accepted, not when it was done; empty before the first change.
    updated_at: str = ''
    tags: tuple[str, ...] = ()

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> StackRow:
        """Return the row of a stack; what Heat leaves out is empty."""
        action, _, status = text_of(found.get('stack_status')).partition('_')
        tags = found.get('tags')
        return cls(
            id=text_of(found.get('id')),
            name=text_of(found.get('stack_name')),
            action=action,
            status=status,
            reason=text_of(found.get('stack_status_reason')),
            created_at=text_of(found.get('creation_time')),
            updated_at=text_of(found.get('updated_time')),
            tags=tuple(map(text_of, tags)) if isinstance(tags, list) else (),
        )

    @property
    def changed_at(self) -> str:
        """When the last request about it was accepted, its creation if there was no other."""
        return self.updated_at or self.created_at

    @property
    def gone(self) -> bool:
        """True if it is deleted; Heat still shows it by its id, and lists it for a moment."""
        return (self.action, self.status) == ('DELETE', 'COMPLETE')

    @property
    def state(self) -> str:
        """The status as Heat writes it."""
        return f'{self.action}_{self.status}'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A resource that failed: its path through nested stacks, its type, and why."""

    path: str
    type: str
    reason: str

    def told(self, hide: Callable[[str], str]) -> str:
        """Return it for people, with secrets masked before it is cut."""
        reason = without_quotes(hide(self.reason))
        return f'{self.path} ({self.type}): {reason}'[:_LONGEST]


def failures(resources: Iterable[Mapping[str, Any]]) -> Sequence[Failure]:
    """Return the failed resources of a stack and its nested ones that failed by themselves.

    A nested stack that failed because of a resource in it is only a part of that path.
    """
    failed = [one for one in resources if text_of(one.get('resource_status')).endswith('_FAILED')]
    parents = parents_of(failed)
    blamed = {_link(one, 'stack') for one in failed}
    return [
        Failure(
            path='.'.join(path_of(one, parents)),
            type=text_of(one.get('resource_type')),
            reason=text_of(one.get('resource_status_reason')).rstrip('.'),
        )
        for one in failed
        if _link(one, 'nested') not in blamed or not _link(one, 'nested')
    ]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A server of Nova that a stack has: its path through nested stacks, and its id in Nova."""

    path: tuple[str, ...]
    id: str

    @property
    def group(self) -> str:
        """The resource of the stack that it is part of; its own one, without its number.

        As far as it can be the name of a group of nodes.
        """
        name = self.path[0] if len(self.path) > 1 else re.sub(r'[-_.]?[0-9]+$', '', self.path[0])
        plain = re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')
        return plain[:_LONGEST_GROUP].strip('-') or 'nodes'


def servers(resources: Iterable[Mapping[str, Any]]) -> Sequence[Server]:
    """Return the servers among the resources of a stack and its nested ones, by their paths."""
    found = list(resources)
    parents = parents_of(found)
    there = [
        Server(
            path=path_of(one, parents),
            id=text_of(one.get('physical_resource_id')),
        )
        for one in found
        if one.get('resource_type') == _SERVER and text_of(one.get('physical_resource_id'))
    ]
    return sorted(there, key=lambda one: (one.group, one.path))


def parents_of(resources: Iterable[Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    """Return the resource that each nested stack is, by the id of the nested stack."""
    return {nested: one for one in resources if (nested := _link(one, 'nested'))}


def climb(
    one: Mapping[str, Any] | None, parents: Mapping[str, Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Yield a resource, and those of the stacks around it, the innermost first."""
    for _ in range(_DEEPEST):
        if one is None:
            return
        yield one
        one = parents.get(_link(one, 'stack'))


def path_of(one: Mapping[str, Any], parents: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the resources that lead to one, and its own."""
    return tuple(text_of(step.get('resource_name')) for step in climb(one, parents))[::-1]


def reason_of(row: StackRow, failed: Sequence[Failure], hide: Callable[[str], str] = str) -> str:
    """Return why a stack failed, down to the resources; Heat's own words without any.

    :param hide: masks secrets; what is cut before it could not be told from other text.
    """
    because = '; '.join(one.told(hide) for one in failed[:_MOST])
    because = because or without_quotes(hide(row.reason))
    more = f'; and {len(failed) - _MOST} more' if len(failed) > _MOST else ''
    return f'Stack {row.name} is {row.state}: {because.rstrip(".")}{more}.'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What an update of a stack would do, as Heat foresees it: names and types of resources.

    The name of a resource in a nested stack is behind that of the resource that is the stack.
    """

    added: tuple[tuple[str, str], ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    deleted: tuple[tuple[str, str], ...] = ()
    updated: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Preview:
        """Return the preview in an answer."""
        return cls(**{field.name: _named(found.get(field.name)) for field in _FIELDS})

    def losses(self, node_types: frozenset[str], *, rebuilds: bool = False) -> Iterator[str]:
        """Yield which nodes would be lost, for people.

        :param rebuilds: Nodes get another image, which Heat calls an update.
        """
        if lost := [name for name, kind in self.replaced if kind in node_types]:
            yield (
                f'Heat would replace nodes, and what is on them is lost: {listed_names(lost)}. '
                f'Change one group at a time, or keep what differs'
            )
        if gone := [name for name, kind in self.deleted if kind in node_types]:
            yield f'Heat would delete nodes, and what is on them is lost: {listed_names(gone)}'
        if again := [name for name, kind in self.updated if rebuilds and kind in node_types]:
            yield (
                f'Heat would rebuild nodes with another image, and what is on them is lost: '
                f'{listed_names(again)}'
            )

    def lines(self) -> Iterator[str]:
        """Yield what would happen, for people."""
        for field in _FIELDS:
            if found := [f'{name} ({kind})' for name, kind in getattr(self, field.name)]:
                yield f'Heat: {len(found)} resources {field.name}: {listed_names(found)}'


_FIELDS = dataclasses.fields(Preview)


def _named(found: Any) -> tuple[tuple[str, str], ...]:
    rows = [one for one in (found if isinstance(found, list) else ()) if isinstance(one, Mapping)]
    # Members of a group are nested stacks of one template: their resources have the same names.
    known = {(*map(repr, map(one.get, _IDENTITY)), _label(one)): one for one in rows}
    return tuple(
        sorted((_label(one), text_of(one.get('resource_type'))) for one in known.values())
    )


#: What tells resources of a preview apart.
_IDENTITY = ('stack_name', 'resource_identity', 'resource_type')


def _label(one: Mapping[str, Any]) -> str:
    """Return the name of a resource behind that of the resource whose nested stack has it."""
    names = (text_of(one.get(key)) for key in ('parent_resource', 'resource_name'))
    return '.'.join(filter(None, names))


def listed_names(names: Sequence[str]) -> str:
    """Return the first ones of some names for people, and how many more there are."""
    more = f' and {len(names) - _MOST} more' if len(names) > _MOST else ''
    return f'{", ".join(names[:_MOST])}{more}'


def _link(one: Mapping[str, Any], rel: str) -> str:
    """Return the id of the stack that a link of a resource leads to; empty without one."""
    return linked(one, rel)[1]


def linked(one: Mapping[str, Any], rel: str) -> tuple[str, str]:
    """Return the name and the id of the stack that a link leads to; empty without one."""
    for link in one.get('links') or ():
        if isinstance(link, Mapping) and link.get('rel') == rel:
            path, _, id_ = text_of(link.get('href')).rpartition('/')
            return path.rpartition('/')[2], id_
    return '', ''


def text_of(value: Any) -> str:
    """Return a text in an answer; empty if it is missing, or not a text."""
    return value if isinstance(value, str) else ''
