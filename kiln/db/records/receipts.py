"""Backend resources of clusters, and the receipts of deleted clusters."""

from __future__ import annotations

import sqlalchemy as sa

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Holding, Tombstone
from kiln.db.records.base import Records
from kiln.db.tables.rows import HOLDING, read
from kiln.db.tables.schema import holding as table
from kiln.db.tables.schema import tombstone

_BURIED = sa.select(tombstone.c.cluster_id)


class Receipts(Records):
    """The holdings and tombstones of a store."""

    def holdings(self, cluster_id: str) -> tuple[Holding, ...]:
        """Return all resources ever created for a cluster, even if they are gone."""
        with self._database.reading() as connection:
            return self._holdings(connection, cluster_id)

    def known(self, backend: str, kind: str) -> frozenset[str]:
        """Return the ids of the known resources of a kind that clusters have in a backend.

        Excludes resources that are confirmed gone, and resources that were abandoned with
        their cluster: if these still exist, they are orphans.
        """
        living = table.c.cluster_id.not_in(_BURIED)
        return self._ids(table.c.backend == backend, table.c.kind == kind, living)

    def abandoned(self, backend: str) -> frozenset[str]:
        """Return the ids and build keys of the resources abandoned in a backend."""
        return self._ids(table.c.backend == backend, table.c.cluster_id.in_(_BURIED))

    def get(self, name_or_id: str) -> Tombstone:
        """Return the receipt of a deleted cluster, the newest one of a name.

        :raises ClusterNotFound: no deleted cluster has this name, or its receipt is purged.
        """
        which = sa.or_(tombstone.c.cluster_id == name_or_id, tombstone.c.name == name_or_id)
        question = sa.select(tombstone).where(which).order_by(tombstone.c.deleted_at.desc())
        with self._database.reading() as connection:
            row = connection.execute(question.limit(1)).first()
            if row is None:
                raise ClusterNotFound(f'Cannot find the receipt of a cluster {name_or_id!r}.')
            all_ = self._holdings(connection, row.cluster_id)
            return Tombstone(
                cluster_id=row.cluster_id,
                name=row.name,
                deleted_at=row.deleted_at,
                holdings=tuple(one for one in all_ if one.gone_at is not None),
                abandoned=tuple(one for one in all_ if one.gone_at is None),
            )

    def _ids(self, *which: sa.ColumnElement[bool]) -> frozenset[str]:
        question = sa.select(table.c.id).where(table.c.gone_at.is_(None), *which)
        with self._database.reading() as connection:
            return frozenset(connection.scalars(question))

    def _holdings(self, connection: sa.Connection, cluster_id: str) -> tuple[Holding, ...]:
        question = sa.select(table).where(table.c.cluster_id == cluster_id)
        order = (table.c.seen_at, table.c.backend, table.c.kind, table.c.id)
        return read(HOLDING.value, connection.execute(question.order_by(*order)))
