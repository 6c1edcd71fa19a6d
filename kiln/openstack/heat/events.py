"""Events of a stack and its nested ones, as Heat's API describes them; pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from kiln.openstack.heat.rows import linked, text_of
from kiln.openstack.replies import without_quotes

#: Resources that a line names, lines for resources that failed, and the characters of each.
_MOST = 5
_LONGEST = 400
#: What Heat puts behind a resource's name to make that of its nested stack.
_RANDOM = re.compile('-[a-z2-7]{12}(?:-|$)')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StackEvent:
    """What has become of a resource, or of a stack as a whole."""

    id: str
    #: The names that lead to the resource, through nested stacks.
    path: tuple[str, ...] = ()
    #: True if it is about the stack as a whole, or a nested one.
    whole: bool = False
    #: As Heat writes it, such as CREATE_COMPLETE.
    status: str = ''
    reason: str = ''

    @classmethod
    def read(cls, found: Mapping[str, Any], stack: str) -> Self:
        """Return an event of the stack with a name, or of one that is nested in it."""
        name, id_ = linked(found, 'stack')
        inner = name.removeprefix(stack).removeprefix('-')
        return cls(
            id=text_of(found.get('id')),
            path=(*filter(None, _RANDOM.split(inner)), text_of(found.get('resource_name'))),
            status=text_of(found.get('resource_status')),
            reason=text_of(found.get('resource_status_reason')),
            # A stack reports its own states as if it were a resource of itself.
            whole=bool(id_) and found.get('physical_resource_id') == id_,
        )


def of_last_change(events: Sequence[StackEvent]) -> Sequence[StackEvent]:
    """Return the events since the newest change of the stack began."""
    began = [
        number
        for number, one in enumerate(events)
        if one.whole and len(one.path) == 1 and one.status.endswith('_IN_PROGRESS')
    ]
    return events[began[-1] :] if began else events


def told(events: Iterable[StackEvent], hide: Callable[[str], str] = str) -> Iterator[str]:
    """Yield what events say, for people: what is done in one line, and each failure.

    :param hide: masks secrets; what is cut before it could not be told from other text.
    """
    done: dict[str, list[str]] = {}
    failed = []
    for one in events:
        name = '.'.join(one.path)
        if one.whole:
            continue
        if one.status.endswith('_COMPLETE'):
            done.setdefault(one.status, []).append(name)
        elif one.status.endswith('_FAILED'):
            reason = without_quotes(hide(one.reason))
            failed.append(f'Heat: {one.status}: {name}: {reason}'[:_LONGEST])
    for status, names in done.items():
        more = f' and {len(names) - _MOST} more' if len(names) > _MOST else ''
        yield f'Heat: {status}: {", ".join(names[:_MOST])}{more}'
    yield from failed[:_MOST]
