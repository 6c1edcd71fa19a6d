"""Server groups of the simulated cloud."""

from __future__ import annotations

import sqlite3

from kiln.compute_drivers.noop.simulation.catalogue import POLICIES
from kiln.compute_drivers.noop.simulation.store import Store
from kiln.exceptions import InvalidBuildRequest, InvalidRequest
from kiln.models import BuildRequest, Resource, ServerGroup


class Groups:
    """Writes and reads server groups; each method runs while the store is locked."""

    KIND = 'server_group'

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self, db: sqlite3.Connection, name: str, policy: str, owner: str, created_at: float
    ) -> ServerGroup:
        """Create a group; several groups can have the same name."""
        if policy not in POLICIES:
            raise InvalidRequest(
                f'Cannot create server group {name!r}: policy {policy!r} does not exist; choose '
                f'one of {", ".join(POLICIES)}.'
            )
        id_ = self._store.id_of(self._store.next_numbers(db))
        db.execute(
            'INSERT INTO server_groups (id, name, policy, owner, created_at) '
            'VALUES (?, ?, ?, ?, ?)',
            (id_, name, policy, owner, created_at),
        )
        return ServerGroup(id=id_, name=name, policy=policy)

    def delete(self, db: sqlite3.Connection, group_id: str) -> None:
        """Remove a group, if it exists; its members stay, without a group."""
        db.execute('UPDATE machines SET group_id = NULL WHERE group_id = ?', (group_id,))
        db.execute('DELETE FROM server_groups WHERE id = ?', (group_id,))

    def constraint(
        self, db: sqlite3.Connection, request: BuildRequest
    ) -> tuple[str | None, list[tuple[str, str]]]:
        """Return the policy that applies to a build, and the spots of the group's members."""
        group_id = request.server_group_id
        if group_id is None:
            return None, []
        group = db.execute('SELECT policy FROM server_groups WHERE id = ?', (group_id,)).fetchone()
        if group is None:
            raise InvalidBuildRequest(
                f'Cannot build {request.name!r}: the cloud has no server group {group_id}. '
                f'Create it first.',
                build_key=request.build_key,
                resource_id=group_id,
            )
        members = db.execute('SELECT zone, host FROM machines WHERE group_id = ?', (group_id,))
        return group['policy'], [(row['zone'], row['host']) for row in members]

    def resources(self, db: sqlite3.Connection, owner: str) -> list[Resource]:
        rows = db.execute(
            'SELECT id, name, created_at FROM server_groups WHERE owner = ?', (owner,)
        )
        return [Resource(kind=self.KIND, owner=owner, **row) for row in map(dict, rows)]
