"""Container changes since a cursor, from the engine's events.

Docker Engine keeps its last 256 events, in memory. A cursor therefore names an event.
If the engine no longer has that event, it was restarted or too much has happened, and
everything must be listed again. Podman's answers about past events are incomplete, so
with Podman everything is always listed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.docker import names
from kiln.compute_drivers.docker.api.client import Engine

_GONE = 'destroy'
_ENDS = ('kill', 'stop', 'oom', 'die', _GONE)
#: Events after which a container can be in another state.
_ACTIONS = ('create', 'start', 'restart', 'pause', 'unpause', 'health_status', *_ENDS)
#: Seconds to go back for an event to start from.
_LOOK_BACK_S = 600
_CURSOR = re.compile(r'(\d+)\.([a-z_]+)\.([0-9a-f]{64})')


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event of a container."""

    at_ns: int
    action: str
    container_id: str

    @property
    def cursor(self) -> str:
        """The text of a cursor that names this event."""
        return f'{self.at_ns}.{self.action}.{self.container_id}'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """Changes that events report; ``complete`` if everything must be listed instead."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    cursor: str = ''
    complete: bool = True


def parse_cursor(text: str) -> Event | None:
    """Return the event that a cursor names; None if the cursor is not an event's."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        return None
    return Event(at_ns=int(found[1]), action=found[2], container_id=found[3])


def event_of(answer: Mapping[str, Any]) -> Event:
    """Return an event of the engine's answer."""
    return Event(
        at_ns=int(answer['timeNano']),
        # Some actions carry a detail: 'health_status: healthy'.
        action=str(answer['Action']).partition(':')[0],
        container_id=str(answer['Actor']['ID']),
    )


def news_in(events: Iterable[Event], since: Event | None) -> News:
    """Return the changes since an event; ``complete`` if the event is not among them."""
    told = sorted(events, key=lambda event: event.at_ns)
    cursor = told[-1].cursor if told else ''
    if since is None or since not in told:
        return News(cursor=cursor)
    # Events at the very time of the cursor might not have been reported before.
    later = [event for event in told if event.at_ns >= since.at_ns]
    gone = dict.fromkeys(event.container_id for event in later if event.action == _GONE)
    changed = dict.fromkeys(
        event.container_id for event in later if event.container_id not in gone
    )
    return News(changed=tuple(changed), gone=tuple(gone), cursor=cursor, complete=False)


def ask(engine: Engine, asked: Asked, owner: str, since: str, now: float) -> News:
    """Read the changes of a site since a cursor; ``now`` is by the engine's clock."""
    if engine.is_podman(asked):
        return News()
    witness = parse_cursor(since)
    begin = now - _LOOK_BACK_S if witness is None else witness.at_ns / 1e9 - 1
    query = {
        'type': ['container'],
        'label': [f'{names.OWNER}={owner}'],
        'event': list(_ACTIONS),
    }
    answers: list[Mapping[str, Any]] = engine.ask(
        asked,
        lambda session: list(
            session.events(since=int(begin), until=f'{now:.9f}', filters=query, decode=True)
        ),
    )
    return news_in(map(event_of, answers), witness)
