"""Secrets of clusters, encrypted in the store."""

from __future__ import annotations

import sqlalchemy as sa

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import Secret
from kiln.db.database import Database
from kiln.db.keys import KeyFile
from kiln.db.tables.schema import secret as table
from kiln.exceptions import KNOWN_SECRETS


class Secrets:
    """The secrets of a store and its keys; batches write the secrets."""

    def __init__(self, database: Database, keys: KeyFile) -> None:
        self._database = database
        self.keys = keys

    def read(self, cluster_id: str, name: str) -> Secret:
        """Return a secret.

        :raises ClusterNotFound: the cluster has no secret of this name.
        :raises StoreError: none of the keys fits, or the row has the token of another secret.
        """
        question = sa.select(table.c.value).where(
            table.c.cluster_id == cluster_id, table.c.name == name
        )
        with self._database.reading() as connection:
            token = connection.scalar(question)
        if token is None:
            raise ClusterNotFound(f'Cannot find secret {name!r} of cluster {cluster_id}.')
        secret = self.keys.decrypt(cluster_id, name, token)
        KNOWN_SECRETS.note(secret.value)
        return secret

    def rotate(self) -> int:
        """Encrypt all secrets with the prepared key or a new one; return their number.

        If it is interrupted, all secrets stay readable, and it can be repeated.

        :raises StoreError: a secret cannot be read; the other secrets stay unchanged, and
            their keys stay in the file.
        """
        with self._database.writing() as connection, self._database.alone(connection, 'rotation'):
            self.keys.advance()
            rows = connection.execute(sa.select(table).with_for_update()).all()
            again = [
                {**row._mapping, 'value': self.keys.encrypt(self.keys.decrypt(*row))}
                for row in rows
            ]
            if again:
                connection.execute(self._database.upsert(table), again)
        self.keys.forget()
        return len(rows)
