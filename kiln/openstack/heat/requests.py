"""Requests for stacks of Heat, without what sends them and maps their errors."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kiln.openstack.heat.events import StackEvent, of_last_change
from kiln.openstack.heat.rows import Failure, StackRow, failures

#: The service type of Heat in the catalogue.
SERVICE = 'orchestration'
#: Stacks that a list has at a time.
PAGE = 500
#: Pages after which a list is given up: Heat repeats itself.
_MOST_PAGES = 100
#: How deep nested stacks are searched; Heat allows 5.
DEPTH = 5
#: Events that an answer has.
_EVENTS = 100


class StackRequests(abc.ABC):
    """What drivers request of Heat; each driver sends it, and raises errors of its own."""

    page: int = PAGE

    @abc.abstractmethod
    def ask(
        self,
        action: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Send one request; return the JSON of the response, empty if it has no body."""

    # ---- reads ---------------------------------------------------------------------

    def stacks(self, **filters: str) -> Iterator[StackRow]:
        """Yield the stacks that have a tag, a name or an id, page by page."""
        marker: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            query = {**filters, 'limit': self.page, **marker}
            rows = listed(self.ask('list stacks', 'GET', '/stacks', query=query), 'stacks')
            yield from map(StackRow.read, rows)
            if len(rows) < self.page:
                return
            marker = {'marker': rows[-1].get('id')}

    def named(self, name: str) -> StackRow | None:
        """Return the stack of a name that is not deleted; None without one."""
        return next((row for row in self.stacks(name=name) if row.name == name), None)

    def with_id(self, id_: str) -> StackRow | None:
        """Return the stack of an id that is not deleted; None without one.

        A list reads a row; any other request for a stack has Heat load all of it.
        """
        return next((row for row in self.stacks(id=id_) if row.id == id_), None)

    def shown(self, name: str, id_: str, what: str, *, outputs: bool) -> Mapping[str, Any]:
        """Return all of a stack; Heat computes its outputs only on request."""
        query = None if outputs else {'resolve_outputs': 'false'}
        found = self.ask(f'read {what} of stack {name}', 'GET', stack_path(name, id_), query=query)
        return part(found, 'stack')

    def failures(self, name: str, id_: str) -> Sequence[Failure]:
        """Return the resources of a stack and its nested ones that failed."""
        found = self.ask(
            f'read the resources of stack {name}', 'GET', f'{stack_path(name, id_)}/resources',
            query={'nested_depth': DEPTH, 'status': 'FAILED'},
        )  # fmt: skip
        return failures(listed(found, 'resources'))

    def events(self, name: str, id_: str, after: str = '') -> Sequence[StackEvent]:
        """Return the events of a stack and its nested ones after one of them, oldest first.

        Without one, those of its last change; in both cases as many as an answer has.
        """
        query = {'nested_depth': DEPTH, 'limit': _EVENTS}
        order = {'marker': after, 'sort_dir': 'asc'} if after else {'sort_dir': 'desc'}
        found = self.ask(
            f'read the events of stack {name}', 'GET', f'{stack_path(name, id_)}/events',
            query={**query, **order},
        )  # fmt: skip
        rows = [StackEvent.read(one, name) for one in listed(found, 'events')]
        return of_last_change(rows if after else rows[::-1])

    # ---- changes; Heat accepts them, and works later ----------------------------------

    def post(self, name: str, body: Mapping[str, Any], timeout_s: float) -> str:
        """Create a stack from a template; return its id."""
        whole = {**body, 'stack_name': name, **time_limit(timeout_s)}
        found = self.ask(f'create stack {name}', 'POST', '/stacks', body=whole)
        return str(part(found, 'stack').get('id', ''))

    def delete(self, name: str, id_: str) -> None:
        """Delete a stack, whatever it does now; can be repeated."""
        self.ask(f'delete stack {name}', 'DELETE', stack_path(name, id_))


def time_limit(seconds: float) -> Mapping[str, int]:
    """Return the part of a body that limits the time of a change, in whole minutes.

    Heat keeps it for all later changes that bring none.
    """
    return {'timeout_mins': max(1, -int(-seconds // 60))}


def stack_path(name: str, id_: str) -> str:
    """Return the path of a stack, without a redirect."""
    return f'/stacks/{name}/{id_}'


def part(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping in an answer; empty if it is missing, or not a mapping."""
    found_part = found.get(key)
    return found_part if isinstance(found_part, Mapping) else {}


def listed(found: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list in an answer."""
    rows = found.get(key)
    return [one for one in (rows if isinstance(rows, list) else ()) if isinstance(one, Mapping)]
