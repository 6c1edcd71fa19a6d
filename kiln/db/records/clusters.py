"""Clusters and templates in the store: the desired state, written by callers.

These writes need no lease: the generation guards the desired state, and each change
is stored together with its operation before the call returns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from kiln.clusters.exceptions import ClusterChanged, ClusterError, ClusterExists, ClusterNotFound
from kiln.clusters.limits import NodeLimits
from kiln.clusters.models import Cluster, DriverPin, Operation
from kiln.clusters.spec import ClusterSpec, ClusterTemplate
from kiln.db.database import Contradiction
from kiln.db.leases import add_free, shut_out
from kiln.db.records.base import Records
from kiln.db.records.nodes import mark
from kiln.db.records.operations import enter, put_off
from kiln.db.records.room import Room
from kiln.db.tables.codec import dumps
from kiln.db.tables.rows import CLUSTER, Row, desired_row, read, template_of
from kiln.db.tables.schema import cluster as table
from kiln.db.tables.schema import cluster_template

_NONE: Mapping[str, str] = MappingProxyType({})


class Clusters(Records):
    """The living clusters of a store."""

    def create(
        self, cluster: Cluster, operation: Operation, *, limits: NodeLimits | None = None
    ) -> None:
        """Write a new cluster and the operation that creates it, both or neither.

        :raises ClusterExists: the name is taken.
        :raises TooManyNodes: the limits do not allow it.
        :raises StoreError: neither was written, unless the message leaves it open.
        """
        spec = cluster.spec
        row = {**CLUSTER.row(cluster), 'template': spec.template, 'owner': spec.credentials}
        try:
            with self._database.writing() as connection:
                if limits is not None:
                    Room.for_operation(limits, cluster, operation).reserve(connection)
                connection.execute(sa.insert(table), {**row, 'nodes': spec.count})
                add_free(self._database, connection, cluster.id)
                enter(connection, operation)
        except Contradiction as exc:
            if any(one.name == cluster.name for one in self.list()):
                raise ClusterExists(
                    f'Cannot create cluster {cluster.name!r}: the name is taken.'
                ) from exc
            raise

    def change(
        self,
        cluster_id: str,
        spec: ClusterSpec,
        *,
        generation: int,
        operation: Operation,
        doomed: Mapping[str, str] = _NONE,
        pin: DriverPin | None = None,
        decision: Mapping[str, Any] | None = None,
        supersede: bool = False,
        limits: NodeLimits | None = None,
    ) -> Cluster:
        """Replace the desired state, mark nodes for removal, and submit the operation.

        All of it is one commit. ``generation`` is the generation that the change was
        planned for. ``doomed`` maps the ids of nodes to remove to the reasons; an empty
        reason removes the mark. With ``pin`` and ``decision`` the cluster moves to another
        driver. With ``supersede`` running operations are cancelled. Return the changed
        cluster, one generation later.

        :raises ClusterChanged: the cluster has another generation; nothing was written.
        :raises ClusterBusy: an operation is running; nothing was written.
        :raises ClusterNotFound: the cluster does not exist.
        :raises TooManyNodes: the limits do not allow it; nothing was written.
        """
        row = desired_row(spec, pin, decision or {})
        at = self._database.clock.time()
        with self._database.writing() as connection:
            shut_out(connection, cluster_id)
            if limits is not None:
                there = self._find(connection, table.c.id == cluster_id, cluster_id)
                after = dataclasses.replace(there, spec=spec)
                Room.for_operation(limits, after, operation).reserve(connection)
            if not write_desired(connection, cluster_id, generation, row, at):
                there = self._find(connection, table.c.id == cluster_id, cluster_id)
                raise ClusterChanged(
                    f'Cannot change cluster {there.name!r}: the change was planned for '
                    f'generation {generation}, but it has {there.generation} now.'
                )
            mark(connection, cluster_id, doomed)
            operation = dataclasses.replace(operation, generation=generation + 1)
            enter(connection, operation, supersede=supersede)
            return self._find(connection, table.c.id == cluster_id, cluster_id)

    def check_room(self, cluster: Cluster, operation: Operation, limits: NodeLimits) -> None:
        """Return if there is room for an operation now; nothing is reserved.

        :raises TooManyNodes: there is not enough.
        """
        with self._database.reading() as connection:
            Room.for_operation(limits, cluster, operation).check(connection)

    def pause(self, cluster_id: str) -> Cluster:
        """Pause a cluster: nothing is started for it until it is resumed; safe to repeat.

        Requests that run in backends end, and their results are written. Operations of a
        paused cluster can be cancelled.

        :raises ClusterNotFound: the cluster does not exist.
        """
        return self._set_paused(cluster_id, True)

    def resume(self, cluster_id: str) -> Cluster:
        """Resume a paused cluster; safe to repeat.

        The deadlines of its operations are extended by the time of the pause.

        :raises ClusterNotFound: the cluster does not exist.
        """
        return self._set_paused(cluster_id, False)

    def get(self, name_or_id: str) -> Cluster:
        """Return a cluster by id, or else by name.

        :raises ClusterNotFound: no cluster has this id or name.
        """
        either = sa.or_(table.c.id == name_or_id, table.c.name == name_or_id)
        with self._database.reading() as connection:
            return self._find(connection, either, name_or_id)

    def list(self) -> tuple[Cluster, ...]:
        """Return all clusters by name."""
        return self._read(CLUSTER.value, sa.select(table).order_by(table.c.name))

    def _set_paused(self, cluster_id: str, paused: bool) -> Cluster:
        at = self._database.clock.time()
        # Not written if unchanged: ``updated_at`` is the start of the pause.
        changing = sa.update(table).where(table.c.id == cluster_id, table.c.paused != paused)
        with self._database.writing() as connection:
            shut_out(connection, cluster_id)
            there = self._find(connection, table.c.id == cluster_id, cluster_id)
            changed = connection.execute(changing.values(paused=paused, updated_at=at)).rowcount
            if changed and not paused:
                put_off(connection, cluster_id, since=there.updated_at, at=at)
            return self._find(connection, table.c.id == cluster_id, cluster_id)

    def _find(
        self, connection: sa.Connection, which: sa.ColumnElement[bool], words: str
    ) -> Cluster:
        found = read(CLUSTER.value, connection.execute(sa.select(table).where(which)))
        for cluster in sorted(found, key=lambda one: one.id != words):
            return cluster
        raise ClusterNotFound(f'Cannot find cluster {words!r}.')


def write_desired(
    connection: sa.Connection, cluster_id: str, generation: int, row: Row, at: float
) -> bool:
    """Write the desired state of a cluster within a change, and raise its generation.

    Return False and change nothing if the cluster has another generation.
    """
    mine = (table.c.id == cluster_id, table.c.generation == generation)
    changing = sa.update(table).where(*mine).values(row)
    changing = changing.values(generation=generation + 1, updated_at=at)
    return bool(connection.execute(changing).rowcount)


class Templates(Records):
    """The cluster templates of a store."""

    def save(self, template: ClusterTemplate) -> None:
        """Write a template; it replaces a template of the same name. Safe to repeat."""
        at = self._database.clock.time()
        row = {'name': template.name, 'spec': dumps(template), 'updated_at': at}
        with self._database.writing() as connection:
            connection.execute(self._database.upsert(cluster_template), row)

    def get(self, name: str) -> ClusterTemplate:
        """Return a template.

        :raises ClusterNotFound: no template has this name.
        """
        question = sa.select(cluster_template).where(cluster_template.c.name == name)
        for template in self._read(template_of, question):
            return template
        raise ClusterNotFound(f'Cannot find template {name!r}.')

    def list(self) -> tuple[ClusterTemplate, ...]:
        """Return all templates by name."""
        question = sa.select(cluster_template).order_by(cluster_template.c.name)
        return self._read(template_of, question)

    def remove(self, name: str) -> None:
        """Remove a template that no cluster uses; safe to repeat.

        :raises ClusterError: clusters use the template; the message names some.
        """
        users = sa.select(table.c.name).where(table.c.template == name).order_by(table.c.name)
        with self._database.writing() as connection:
            if named := list(connection.scalars(users.limit(5))):
                raise ClusterError(
                    f'Cannot remove template {name!r}: it is used by {", ".join(named)}. '
                    f'Delete these clusters first.'
                )
            connection.execute(sa.delete(cluster_template).where(cluster_template.c.name == name))
