"""Events in the store, numbered in commit order without gaps."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from kiln.clusters.models import Event
from kiln.db.database import Database
from kiln.db.records.base import Records
from kiln.db.tables.rows import EVENT, Row, event_row
from kiln.db.tables.schema import counter, event
from kiln.db.tables.statements import Statement


class EventWriter:
    """Numbers and writes events, as the last part of a change."""

    def __init__(self, database: Database) -> None:
        mine = counter.c.name == 'event'
        count = sa.update(counter).where(mine).values(last=counter.c.last + sa.bindparam('more'))
        last = sa.select(counter.c.last).where(mine)
        self._asks = not database.dialect.update_returning
        self._count = Statement(database, count if self._asks else count.returning(counter.c.last))
        self._last = Statement(database, last)
        self._insert = Statement(database, sa.insert(event))

    def write(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        """Write events; other writers of events wait until the commit."""
        counted = self._count.run(connection, {'more': len(rows)})
        if self._asks:
            counted = self._last.run(connection, {})
        first = counted.fetchone()[0] - len(rows) + 1
        self._insert.run_all(
            connection, [{**row, 'seq': seq} for seq, row in enumerate(rows, first)]
        )


class Events(Records):
    """The events of a store."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._writer = EventWriter(database)

    def after(
        self,
        seq: int = 0,
        *,
        cluster_id: str | None = None,
        kind: str | None = None,
        limit: int = 1000,
    ) -> tuple[Event, ...]:
        """Return the events after a number, optionally of one cluster or one kind.

        A caller that continues after the last returned event misses none.
        """
        question = sa.select(event).where(event.c.seq > seq).order_by(event.c.seq).limit(limit)
        if cluster_id is not None:
            question = question.where(event.c.cluster_id == cluster_id)
        if kind is not None:
            question = question.where(event.c.kind == kind)
        return self._read(EVENT.value, question)

    def newest(
        self, kinds: Sequence[str], *, cluster_id: str | None = None, limit: int = 10_000
    ) -> tuple[Event, ...]:
        """Return the events of some kinds, newest first, optionally of one cluster."""
        question = sa.select(event).where(event.c.kind.in_(kinds))
        if cluster_id is not None:
            question = question.where(event.c.cluster_id == cluster_id)
        return self._read(EVENT.value, question.order_by(event.c.seq.desc()).limit(limit))

    def last_seq(self) -> int:
        """Return the number of the newest event, or 0 before the first event."""
        with self._database.reading() as connection:
            found: int = connection.execute(
                sa.select(counter.c.last).where(counter.c.name == 'event')
            ).scalar_one()
            return found

    def add(self, *events: Event) -> None:
        """Write events that are not from an engine, such as a pause or a skipped hook.

        Not safe to repeat: each call adds new events.
        """
        at = self._database.clock.time()
        with self._database.writing() as connection:
            self._writer.write(connection, [event_row(one, at) for one in events])
