"""Claims and records of machines, as rows in the store of a pool."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kiln.compute_drivers.appliance import view
from kiln.compute_drivers.appliance.claims import state_machine
from kiln.compute_drivers.appliance.claims.matching import NEW, Record, choose, machine_for
from kiln.compute_drivers.appliance.claims.payload import packed
from kiln.compute_drivers.appliance.claims.state_machine import Claim, Phase, Rules
from kiln.compute_drivers.appliance.claims.store import Store, next_number
from kiln.compute_drivers.appliance.inventory.machines import Inventory, Machine
from kiln.compute_drivers.authoring.adoption import adopted
from kiln.compute_drivers.authoring.sqlite_files import last_seen
from kiln.exceptions import InstanceNotFoundError
from kiln.models import AmphoraType, BuildRequest

_FIELDS = tuple(field.name for field in dataclasses.fields(Claim))
_COLUMNS = ', '.join(f'"{name}"' for name in _FIELDS)
_CLAIMS = f'SELECT {_COLUMNS} FROM claims'  # noqa: S608  # no value in it
_INSERT = (
    f'INSERT INTO claims ({_COLUMNS}, changed, payload) '  # noqa: S608  # no value in it
    f'VALUES ({", ".join("?" for _ in _FIELDS)}, ?, ?)'
)
#: The columns of a claim whose changes callers see, and all that change.
_SEEN = ('phase', 'fault', 'image_id')
_MUTABLE = (*_SEEN, 'since', 'due', 'failures', 'probed_at', 'hard', 'epoch')
# Claims whose times a clock has written that was set back since then.
_OF_LATER = 'SELECT 1 FROM claims WHERE since > ? OR probed_at > ? LIMIT 1'
_BEGINS_NOW = (
    'UPDATE claims SET since = min(since, ?), probed_at = min(probed_at, ?), due = min(due, ?) '
    'WHERE since > ? OR probed_at > ?'
)
_UPDATE = f'UPDATE claims SET {", ".join(f"{name} = ?" for name in _MUTABLE)}'  # noqa: S608  # no value

#: Returns the changed claim; None ends it.
Change = Callable[[Claim], Claim | None]


class Due(NamedTuple):
    """A claim with due work, reduced to what is needed to choose."""

    id: str
    machine: str
    phase: Phase
    due: float


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """Changed and ended claims since a cursor."""

    claims: Sequence[Claim]
    gone: tuple[str, ...]
    cursor: str
    complete: bool


class Claims:
    """Reads and writes the claims of a pool; thread-safe."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._rules = rules

    # ---- requests ---------------------------------------------------------------

    def claim(self, request: BuildRequest, inventory: Inventory, now: float) -> Claim:
        """Claim a fitting machine; return the existing claim if the key has one.

        :raises BuildDiffers: the existing claim was made with other arguments.
        :raises InvalidBuildRequest: no machine could ever fit.
        :raises InsufficientCapacity: no fitting machine is free.
        """
        with self._store.write() as db:
            if (known := _with_key(db, request.owner, request.build_key)) is not None:
                machine = machine_for(inventory, known)
                adopted(request, view.amphora(known, machine, enrolled=True))
                return known
            machine = choose(request, inventory, _records(db), _taken(db, inventory), now)
            claim = state_machine.begun(_new(request, machine, now), machine, now)
            payload = packed(request) if claim.phase is Phase.CLAIMING else None
            db.execute(_INSERT, (*_row(claim), next_number(db), payload))
            self._judge(db, None, claim, now)
            return claim

    def change(
        self, claim_id: str, change: Change, now: float, *, durable: bool = True
    ) -> tuple[Claim, Claim | None]:
        """Change a claim; return the old and the new one. Ending a claim frees its machine.

        :raises InstanceNotFoundError: no claim has that id.
        """
        with self._store.write(durable=durable) as db:
            old, brought = _the(db, claim_id), _brings(db, claim_id)
            new = change(old)
            if new is None:
                self._end(db, old)
            elif new != old:
                self._save(db, old, new)
                self._judge(db, old, new, now)
        if brought and (new is None or new.phase is not Phase.CLAIMING):
            self._store.wipe_log()
        return old, new

    def _save(self, db: sqlite3.Connection, old: Claim, new: Claim) -> None:
        also = ''
        if any(getattr(old, name) != getattr(new, name) for name in _SEEN):
            next_number(db)
            also += ', changed = (SELECT last FROM pool)'
        if new.phase is not Phase.CLAIMING:
            also += ', payload = NULL'
        values = [getattr(new, name) for name in _MUTABLE]
        db.execute(f'{_UPDATE}{also} WHERE id = ?', (*values, new.id))

    def _end(self, db: sqlite3.Connection, claim: Claim) -> None:
        _record(db, claim.machine, used=next_number(db))
        db.execute('DELETE FROM claims WHERE id = ?', (claim.id,))

    def _judge(self, db: sqlite3.Connection, old: Claim | None, new: Claim, now: float) -> None:
        """Record if the machine came up."""
        came_up = state_machine.verdict(old, new)
        if came_up:
            _record(db, new.machine, failures=0, until=0.0, reason=None)
        elif came_up is False:
            failures = _records(db).get(new.machine, NEW).failures + 1
            until = now + self._rules.back_off_s(failures)
            _record(db, new.machine, failures=failures, until=until, reason=new.fault)

    def maintain(self, machine: str, reason: str | None) -> None:
        """Put a machine into maintenance, or without a reason end its maintenance."""
        with self._store.write() as db:
            _record(db, machine, maintenance=reason)

    def pardon(self, machine: str) -> None:
        """End the quarantine of a machine."""
        with self._store.write() as db:
            _record(db, machine, failures=0, until=0.0, reason=None)

    # ---- queries ------------------------------------------------------------------

    def get(self, claim_id: str) -> Claim:
        """Return a claim.

        :raises InstanceNotFoundError: no claim has that id.
        """
        with self._store.read() as db:
            return _the(db, claim_id)

    def of_machine(self, machine: str) -> Claim | None:
        found = self._select('WHERE machine = ?', machine)
        return found[0] if found else None

    def find(self, owner: str, name: str) -> list[Claim]:
        return self._select('WHERE owner = ? AND name = ? ORDER BY created_at, id', owner, name)

    def with_key(self, owner: str, build_key: str) -> Claim | None:
        with self._store.read() as db:
            return _with_key(db, owner, build_key)

    def all(self) -> list[Claim]:
        return self._select('ORDER BY created_at, id')

    def of_owner(self, owner: str) -> list[Claim]:
        """Return an owner's claims, oldest first."""
        return self._select('WHERE owner = ? ORDER BY created_at, id', owner)

    def with_ids(self, ids: Iterable[str]) -> list[Claim]:
        """Return the claims that exist among some ids, in one query."""
        wanted = json.dumps(list(ids))
        return self._select('WHERE id IN (SELECT value FROM json_each(?))', wanted)

    def due(self, now: float) -> list[Due]:
        """Return the claims with due work, the longest overdue first."""
        query = 'SELECT id, machine, phase, due FROM claims WHERE due <= ? ORDER BY due'
        with self._store.read() as db:
            rows = db.execute(query, (now,)).fetchall()
        return [Due(row['id'], row['machine'], Phase(row['phase']), row['due']) for row in rows]

    def follow_clock(self, now: float) -> None:
        """Let work be due now if the clock was set back, which would make it wait longer.

        A quarantine takes as long from now as when it began.
        """
        with self._store.read() as db:
            is_later = db.execute(_OF_LATER, (now, now)).fetchone() is not None
            if not is_later and not self._too_long(db, now):
                return
        with self._store.write(durable=False) as db:
            db.execute(_BEGINS_NOW, (now,) * 5)
            for machine, until in self._too_long(db, now).items():
                _record(db, machine, until=until)

    def _too_long(self, db: sqlite3.Connection, now: float) -> dict[str, float]:
        """Return the ends of quarantines which are further away now than when they began."""
        rows = db.execute('SELECT machine, failures, until FROM records WHERE until > ?', (now,))
        found = {
            row['machine']: (row['until'], now + self._rules.back_off_s(row['failures']))
            for row in rows
        }
        return {machine: end for machine, (until, end) in found.items() if until > end}

    def resting(self) -> list[Claim]:
        """Return the claims that are up and have nothing due."""
        return self._select('WHERE due IS NULL AND phase = ?', Phase.UP.value)

    def next_due(self, now: float) -> float | None:
        """Return the first time after ``now`` at which work is due."""
        with self._store.read() as db:
            found = db.execute('SELECT min(due) FROM claims WHERE due > ?', (now,)).fetchone()
            first: float | None = found[0]
        return first

    def with_payload(self, claim_id: str) -> tuple[Claim, bytes | None]:
        """Return a claim with the payload of its claim command.

        Both are read in one snapshot: a claim deleted in between would have no payload.

        :raises InstanceNotFoundError: no claim has that id.
        """
        query = 'SELECT payload FROM claims WHERE id = ?'
        with self._store.read() as db, _snapshot(db):
            claim = _the(db, claim_id)
            return claim, db.execute(query, (claim_id,)).fetchone()['payload']

    def records(self) -> Mapping[str, Record]:
        with self._store.read() as db:
            return _records(db)

    def changes(self, owner: str, cursor: str) -> Told:
        """Return what changed since a cursor; the cost grows with the changes only."""
        with self._store.read() as db:
            # Read first: a concurrent change by another process is reported twice,
            # but never lost.
            last = int(db.execute('SELECT last FROM pool').fetchone()['last'])
            prefix, _, digits = cursor.partition('-')
            seen = last_seen(db, 'ends', digits if prefix == self._store.prefix else '', last)
            rows = db.execute(
                f'{_CLAIMS} WHERE owner = ? AND changed > ?', (owner, seen or 0)
            ).fetchall()
            gone = db.execute(
                'SELECT id FROM ends WHERE owner = ? AND changed > ?',
                (owner, last if seen is None else seen),
            ).fetchall()
        return Told(
            claims=[_claim(row) for row in rows],
            gone=tuple(row['id'] for row in gone),
            cursor=f'{self._store.prefix}-{last}',
            complete=seen is None,
        )

    def _select(self, where: str, *values: object) -> list[Claim]:
        with self._store.read() as db:
            rows = db.execute(f'{_CLAIMS} {where}', values).fetchall()
        return [_claim(row) for row in rows]


def _new(request: BuildRequest, machine: Machine, now: float) -> Claim:
    return Claim(
        id=str(uuid.uuid4()),
        machine=machine.name,
        owner=request.owner,
        build_key=request.build_key,
        name=request.name,
        amphora_type=machine.amphora_type,
        flavor=request.flavor or next(iter(machine.flavors), None),
        image_id=request.image_id,
        zone=machine.zone,
        metadata=dict(request.metadata),
        created_at=now,
        table=machine.table,
        phase=Phase.CLAIMING,
        since=now,
    )


# ---- rows ------------------------------------------------------------------------


def _row(claim: Claim) -> list[object]:
    values = {name: getattr(claim, name) for name in _FIELDS}
    for name in ('metadata', 'table'):
        values[name] = json.dumps(dict(values[name]))
    return list(values.values())


def _claim(row: sqlite3.Row) -> Claim:
    values = {name: row[name] for name in _FIELDS}
    for name in ('metadata', 'table'):
        values[name] = json.loads(values[name])
    values['phase'] = Phase(values['phase'])
    values['hard'] = bool(values['hard'])
    values['amphora_type'] = AmphoraType(values['amphora_type'])
    return Claim(**values)


def _the(db: sqlite3.Connection, claim_id: str) -> Claim:
    row = db.execute(f'{_CLAIMS} WHERE id = ?', (claim_id,)).fetchone()
    if row is None:
        raise InstanceNotFoundError(
            f'Cannot find amphora {claim_id}: no machine is claimed under that id.',
            amphora_id=claim_id,
        )
    return _claim(row)


@contextlib.contextmanager
def _snapshot(db: sqlite3.Connection) -> Iterator[None]:
    db.execute('BEGIN')
    try:
        yield
    finally:
        db.execute('COMMIT')


def _brings(db: sqlite3.Connection, claim_id: str) -> bool:
    query = 'SELECT 1 FROM claims WHERE id = ? AND payload IS NOT NULL'
    return db.execute(query, (claim_id,)).fetchone() is not None


def _taken(db: sqlite3.Connection, inventory: Inventory) -> set[str]:
    """Return the names of claimed machines, and of machines claimed under another name."""
    names = {row['machine'] for row in db.execute('SELECT machine FROM claims')}
    # A machine renamed in the inventory is recognized by its addresses.
    addresses: set[str] = set()
    for name in names - inventory.machines.keys():
        row = db.execute('SELECT "table" FROM claims WHERE machine = ?', (name,)).fetchone()
        addresses.update(json.loads(row['table']).get('addresses', ()))
    return names | {one.name for one in inventory if not addresses.isdisjoint(one.addresses)}


def _with_key(db: sqlite3.Connection, owner: str, build_key: str) -> Claim | None:
    row = db.execute(f'{_CLAIMS} WHERE owner = ? AND build_key = ?', (owner, build_key)).fetchone()
    return None if row is None else _claim(row)


def _records(db: sqlite3.Connection) -> dict[str, Record]:
    names = [field.name for field in dataclasses.fields(Record)]
    return {
        row['machine']: Record(**{name: row[name] for name in names})
        for row in db.execute('SELECT * FROM records')
    }


def _record(db: sqlite3.Connection, machine: str, **facts: object) -> None:
    db.execute('INSERT OR IGNORE INTO records (machine) VALUES (?)', (machine,))
    columns = ', '.join(f'{name} = ?' for name in facts)
    db.execute(
        f'UPDATE records SET {columns} WHERE machine = ?',  # noqa: S608  # names are this module's
        (*facts.values(), machine),
    )
