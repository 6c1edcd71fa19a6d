"""Ports of the simulated cloud: create, attach, detach and delete."""

from __future__ import annotations

import sqlite3

from kiln.compute_drivers.noop import view
from kiln.compute_drivers.noop.simulation.catalogue import Catalogue, places
from kiln.compute_drivers.noop.simulation.store import Store
from kiln.exceptions import (
    BuildConflict,
    InstanceStateConflict,
    ResourceNotFoundError,
)
from kiln.models import Attachment, BuildRequest, Resource

#: The ports of a machine as JSON, oldest first, for a SELECT on machines.
OF_MACHINE = (
    '(SELECT json_group_array(json_array(id, network_id, address, mac)) FROM ports '
    'WHERE machine = machines.number)'
)
_INSERT = (
    'INSERT INTO ports (number, id, network_id, address, mac, machine, owner, kept, created_at) '
    'VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (network_id, address) DO NOTHING'
)


class Ports:
    """Writes and reads ports; each method runs while the store is locked."""

    KIND = 'port'

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._catalogue = catalogue

    def hang_all(
        self,
        db: sqlite3.Connection,
        machine: int,
        request: BuildRequest,
        created_at: float,
        *,
        leak: bool = False,
    ) -> None:
        """Attach the requested ports to a new machine, and a new port for each network.

        Their numbers follow the machine's own: see :meth:`wanted`.
        """
        number = machine
        for port_id in request.port_ids:
            user = self._user(db, port_id)
            if user is not None:
                raise BuildConflict(
                    f'Cannot build {request.name!r}: port {port_id} is in use by amphora '
                    f'{self._store.id_of(user)}. Detach it there, or use another port.',
                    resource_id=port_id,
                    build_key=request.build_key,
                )
            number += 1
            self._hang_known(db, number, machine, port_id, created_at)
        networks = places(request)
        if not request.network_ids and not request.port_ids:
            networks = [(self._catalogue.default_network, None)]
        for network_id, address in networks:
            number += 1
            self._check_free(db, request, network_id, address)
            self._make(
                db, number, machine, network_id, created_at,
                owner=request.owner, address=address, kept=leak,
            )  # fmt: skip

    def _check_free(
        self, db: sqlite3.Connection, request: BuildRequest, network_id: str, address: str | None
    ) -> None:
        if address is not None and (port_id := self._port_at(db, network_id, address)):
            raise BuildConflict(
                f'Cannot build {request.name!r}: port {port_id} already has {address} of '
                f'network {network_id}. Choose another address.',
                resource_id=network_id,
                build_key=request.build_key,
            )

    @staticmethod
    def wanted(request: BuildRequest) -> int:
        """Return how many numbers the ports of a build can need."""
        return len(request.port_ids) + len(request.network_ids) or 1

    def attach(self, db: sqlite3.Connection, machine: int, port_id: str, now: float) -> Attachment:
        """Attach a port to a machine, unless it is attached already."""
        offered = self._catalogue.ports
        if offered is not None and port_id not in offered:
            raise ResourceNotFoundError(
                f'Cannot attach port {port_id}: it does not exist.',
                resource_id=port_id,
                amphora_id=self._store.id_of(machine),
            )
        user = self._user(db, port_id)
        if user not in (None, machine):
            raise InstanceStateConflict(
                f'Cannot attach port {port_id} to amphora {self._store.id_of(machine)}: it is '
                f'in use by amphora {self._store.id_of(user or 0)}. Detach it there first.',
                resource_id=port_id,
                amphora_id=self._store.id_of(machine),
            )
        if user is None:
            number = self._store.next_numbers(db)
            self._hang_known(db, number, machine, port_id, now)
        return self._attachment(db, machine, port_id)

    def attach_network(
        self,
        db: sqlite3.Connection,
        machine: int,
        network_id: str,
        address: str | None,
        owner: str,
        now: float,
    ) -> Attachment:
        """Attach a new port of a network to a machine."""
        offered = self._catalogue.networks
        if offered is not None and network_id not in offered:
            raise ResourceNotFoundError(
                f'Cannot attach network {network_id}: it does not exist.',
                resource_id=network_id,
                amphora_id=self._store.id_of(machine),
            )
        if address is not None and (holder := self._port_at(db, network_id, address)):
            raise InstanceStateConflict(
                f'Cannot attach network {network_id}: port {holder} already has {address}. '
                f'Choose another address.',
                resource_id=network_id,
                amphora_id=self._store.id_of(machine),
            )
        number = self._store.next_numbers(db)
        port_id = self._make(db, number, machine, network_id, now, owner=owner, address=address)
        return self._attachment(db, machine, port_id)

    def detach(self, db: sqlite3.Connection, machine: int, column: str, value: str) -> None:
        """Detach ports by id or by network_id; remove the ports that the cloud created."""
        where = f'machine = ? AND {column} = ?'
        db.execute(f'DELETE FROM ports WHERE {where} AND NOT kept', (machine, value))  # noqa: S608  # the column is ours
        db.execute(f'UPDATE ports SET machine = NULL WHERE {where}', (machine, value))  # noqa: S608  # ours

    def hangs(self, db: sqlite3.Connection, machine: int, column: str, value: str) -> bool:
        """Return True if a machine has a port with that id or network_id."""
        query = f'SELECT 1 FROM ports WHERE machine = ? AND {column} = ?'  # noqa: S608  # the column is ours
        return db.execute(query, (machine, value)).fetchone() is not None

    def resources(self, db: sqlite3.Connection, owner: str) -> list[Resource]:
        """Return the ports created for an owner, in use or left behind."""
        rows = db.execute('SELECT id, machine, created_at FROM ports WHERE owner = ?', (owner,))
        return [
            Resource(
                kind=self.KIND,
                id=row['id'],
                owner=owner,
                amphora_id=None if row['machine'] is None else self._store.id_of(row['machine']),
                created_at=row['created_at'],
            )
            for row in rows
        ]

    def delete(self, db: sqlite3.Connection, port_id: str) -> None:
        """Remove a detached port; a port that does not exist is a success."""
        user = self._user(db, port_id)
        if user is not None:
            raise InstanceStateConflict(
                f'Cannot delete port {port_id}: it is in use by amphora '
                f'{self._store.id_of(user)}. Detach it there first.',
                resource_id=port_id,
            )
        db.execute('DELETE FROM ports WHERE id = ?', (port_id,))

    def _user(self, db: sqlite3.Connection, port_id: str) -> int | None:
        row = db.execute('SELECT machine FROM ports WHERE id = ?', (port_id,)).fetchone()
        user: int | None = row['machine'] if row else None
        return user

    def _hang_known(
        self, db: sqlite3.Connection, number: int, machine: int, port_id: str, created_at: float
    ) -> None:
        hung = db.execute('UPDATE ports SET machine = ? WHERE id = ?', (machine, port_id))
        if not hung.rowcount:
            # The caller's own port, used here for the first time.
            offered = self._catalogue.ports or {}
            network_id = offered.get(port_id, self._catalogue.default_network)
            self._make(db, number, machine, network_id, created_at, port_id=port_id, kept=True)

    def _make(
        self,
        db: sqlite3.Connection,
        number: int,
        machine: int,
        network_id: str,
        created_at: float,
        *,
        owner: str | None = None,
        port_id: str | None = None,
        address: str | None = None,
        kept: bool = False,
    ) -> str:
        while True:
            id_ = port_id or self._store.id_of(number)
            automatic, mac = view.automatic_address(number)
            where = (number, id_, network_id, address or automatic, mac, machine)
            if db.execute(_INSERT, (*where, owner, kept, created_at)).rowcount:
                return id_
            # A caller has chosen this address for another port.
            number = self._store.next_numbers(db)

    @staticmethod
    def _port_at(db: sqlite3.Connection, network_id: str, address: str) -> str | None:
        """Return the port that has an address of a network, or None."""
        query = 'SELECT id FROM ports WHERE network_id = ? AND address = ?'
        row = db.execute(query, (network_id, address)).fetchone()
        port_id: str | None = row['id'] if row else None
        return port_id

    def _attachment(self, db: sqlite3.Connection, machine: int, port_id: str) -> Attachment:
        port = db.execute(
            'SELECT network_id, address FROM ports WHERE id = ?', (port_id,)
        ).fetchone()
        return Attachment(
            amphora_id=self._store.id_of(machine),
            port_id=port_id,
            network_id=port['network_id'],
            addresses=(port['address'],),
        )
