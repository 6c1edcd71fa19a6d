"""Table of the simulated machines: inserts, updates and queries."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence

from kiln.clock import Clock
from kiln.compute_drivers.authoring import sqlite_files
from kiln.compute_drivers.authoring.claiming import is_claimed, key_in_use
from kiln.compute_drivers.authoring.error_context import Asked
from kiln.compute_drivers.noop import view
from kiln.compute_drivers.noop.simulation import state_machine
from kiln.compute_drivers.noop.simulation.catalogue import Catalogue
from kiln.compute_drivers.noop.simulation.groups import Groups
from kiln.compute_drivers.noop.simulation.ports import OF_MACHINE, Ports
from kiln.compute_drivers.noop.simulation.store import Store
from kiln.exceptions import InstanceNotFoundError
from kiln.models import Amphora, BuildRequest, Changes, ComputeStatus, State

#: All columns of a machine with its ports, and the columns that a status needs.
WHOLE = f'SELECT *, {OF_MACHINE} AS ports FROM machines'  # noqa: S608  # no value in it
STATUS = 'SELECT number, name, host, state, task, due, fault, metadata FROM machines'
_OWNED = 'SELECT number, owner, build_key FROM machines'

_INSERT = (
    'INSERT INTO machines (number, changed, owner, build_key, name, amphora_type, flavor, '
    'image_id, zone, host, group_id, metadata, spec, created_at, boots, '
    'state, task, fault, target, target_fault, due) '
    'VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
)
_UPDATE = (
    'UPDATE machines SET changed = ?, state = ?, task = ?, fault = ?, target = ?, '
    'target_fault = ?, due = ?'
)


class Machines:
    """Writes and reads machines; methods with ``db`` run while the store is locked."""

    def __init__(self, store: Store, catalogue: Catalogue, groups: Groups, clock: Clock) -> None:
        self._store = store
        self._catalogue = catalogue
        self._groups = groups
        self._clock = clock
        #: Machines that a list reads at a time.
        self.page = 1000

    # ---- one ------------------------------------------------------------

    def insert(
        self,
        db: sqlite3.Connection,
        request: BuildRequest,
        build_key: str | None,
        course: state_machine.Course,
        created_at: float,
    ) -> int:
        """Place a new machine and return its number."""
        policy, spots = self._groups.constraint(db, request)
        used = {row['zone']: row['machines'] for row in db.execute('SELECT * FROM used')}
        zone, host = self._catalogue.place(request, used, policy, spots)
        number = self._store.next_numbers(db, 1 + Ports.wanted(request))
        metadata = json.dumps(dict(request.metadata)) if request.metadata else '{}'
        row = (
            *(number, number, request.owner, build_key, request.name, request.amphora_type),
            *(request.flavor, request.image_id, zone, host, request.server_group_id),
            *(metadata, view.spec(request), created_at, course.state is State.ACTIVE, *course),
        )
        db.execute(_INSERT, row)
        return number

    def write(
        self,
        db: sqlite3.Connection,
        number: int,
        course: state_machine.Course,
        also: str = '',
        *values: object,
    ) -> None:
        """Write the course of a machine; remove the machine if it is deleted at once."""
        changed = self._store.next_numbers(db)
        if course.state is State.DELETED:
            db.execute('DELETE FROM machines WHERE number = ?', (number,))
        else:
            query = f'{_UPDATE}{also} WHERE number = ?'
            db.execute(query, (changed, *course, *values, number))

    def claim(self, db: sqlite3.Connection, asked: Asked, owner: str) -> None:
        """Give a machine that belongs to nobody an owner and a build key."""
        row = self.row(db, asked.verb, _OWNED, asked.subject)
        has_owner, has_key = row['owner'] or None, row['build_key']
        if is_claimed(asked, owner, has_owner=has_owner, has_key=has_key):
            return
        assert asked.build_key is not None
        if other := self.with_key(db, owner, asked.build_key):
            raise key_in_use(asked, other.id)
        db.execute(
            'UPDATE machines SET owner = ?, build_key = ?, changed = ? WHERE number = ?',
            (owner, asked.build_key, self._store.next_numbers(db), row['number']),
        )

    def row(self, db: sqlite3.Connection, what: str, columns: str, amphora_id: str) -> sqlite3.Row:
        """Return a machine's row.

        :raises InstanceNotFoundError: the machine does not exist.
        """
        number = self._store.number_of(amphora_id)
        row: sqlite3.Row | None = db.execute(f'{columns} WHERE number = ?', (number,)).fetchone()
        if row is None:
            raise InstanceNotFoundError(
                f'Cannot {what} amphora {amphora_id}: it does not exist.',
                amphora_id=amphora_id,
            )
        return row

    def with_key(self, db: sqlite3.Connection, owner: str, build_key: str) -> Amphora | None:
        """Return the machine that an owner built with a key, or None."""
        query = f'{WHOLE} WHERE owner = ? AND build_key = ?'
        row = db.execute(query, (owner, build_key)).fetchone()
        return view.amphora(row, self._store.id_of(row['number'])) if row else None

    # ---- many -----------------------------------------------------------

    def select(self, now: float, where: str, *values: object) -> list[Amphora]:
        """Return the machines that match a condition."""
        with self._store.read(now) as db:
            rows = db.execute(f'{WHOLE} {where}', values).fetchall()
        return [view.amphora(row, self._store.id_of(row['number'])) for row in rows]

    def pages(self, now: float, owner: str, lag_s: float | None) -> Iterator[Amphora]:
        """Return an owner's machines, oldest first, holding the lock for a page at a time."""
        newest = math.inf if lag_s is None else self._clock.time() - lag_s
        # The plus makes SQLite use the primary key, so that nothing has to be sorted.
        where = 'WHERE number > ? AND +owner = ? AND created_at <= ? ORDER BY number LIMIT ?'
        number, full = 0, True
        while full:
            page = self.select(now, where, number, owner, newest, self.page)
            yield from page
            full = len(page) == self.page
            number = self._store.number_of(page[-1].id) if page else 0

    def statuses(self, now: float, amphora_ids: Sequence[str]) -> dict[str, ComputeStatus]:
        """Return the statuses of the machines that exist, with one query."""
        numbers = json.dumps([self._store.number_of(id_) for id_ in amphora_ids])
        query = f'{STATUS} WHERE number IN (SELECT value FROM json_each(?))'  # noqa: S608  # no value in it
        with self._store.read(now) as db:
            rows = db.execute(query, (numbers,)).fetchall()
        return {status.amphora_id: status for status in self._statuses(rows)}

    def changes(self, now: float, owner: str, since: str, lag_s: float | None) -> Changes:
        """Return what changed since a cursor; the cost depends on the changes only."""
        with self._store.read(now) as db:
            # Read first: what another process changes meanwhile is reported twice,
            # never left out.
            last = db.execute('SELECT last FROM cloud').fetchone()['last']
            is_ours = since.startswith(self._store.prefix)
            digits = since.removeprefix(self._store.prefix) if is_ours else ''
            seen = sqlite_files.last_seen(db, 'tombstones', digits, last)
            if lag_s is not None and seen is not None:
                return Changes(statuses=(), cursor=since)
            rows = db.execute(
                f'{STATUS} WHERE owner = ? AND changed > ? AND created_at <= ?',
                (owner, seen or 0, math.inf if lag_s is None else self._clock.time() - lag_s),
            ).fetchall()
            gone = db.execute(
                'SELECT number FROM tombstones WHERE owner = ? AND changed > ?',
                (owner, last if seen is None else seen),
            ).fetchall()
        return Changes(
            statuses=tuple(self._statuses(rows)),
            gone=tuple(self._store.id_of(row['number']) for row in gone),
            # The next answer must report the changes that the lag hid.
            cursor=f'{self._store.prefix}{last}' if lag_s is None else '',
            complete=seen is None,
        )

    def count(self, now: float) -> int:
        with self._store.read(now) as db:
            return int(db.execute('SELECT total(machines) FROM used').fetchone()[0])

    def _statuses(self, rows: list[sqlite3.Row]) -> Iterator[ComputeStatus]:
        observed_at = self._clock.time()
        for row in rows:
            yield view.status(row, self._store.id_of(row['number']), observed_at)
