"""Tables of the store. A change needs a migration; a test compares the two.

Values that queries use, or that are useful to see in the database, have columns of
their own; the rest of a value is JSON text. Times are seconds since the epoch.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

#: The newest migration; a store with another revision is refused.
REVISION = '0007'

metadata = sa.MetaData()

_ID = sa.String(64)
_WORD = sa.String(64)
_NAME = sa.String(255)
_TIME: sa.Double[float] = sa.Double()


class _LongText(sa.types.UserDefinedType[str]):
    """Text of any length; SQLAlchemy's own would import the whole dialect, for each command."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return 'LONGTEXT'


# TEXT in MariaDB is limited to 64 KiB, less than the spec of a large cluster.
_TEXT = sa.Text().with_variant(_LongText(), 'mariadb')
# SQLite increments only columns of type INTEGER by itself.
_COUNT = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


def _table(name: str, *columns: sa.schema.SchemaItem, **more: Any) -> sa.Table:
    # MariaDB compares names bytewise, like the other two databases.
    exact: dict[str, Any] = {
        'mariadb_charset': 'utf8mb4',
        'mariadb_collate': 'utf8mb4_bin',
        'mariadb_engine': 'InnoDB',
    }
    return sa.Table(name, metadata, *columns, **exact, **more)


def _part_of(owner: str, name: str, **more: Any) -> sa.Column[str]:
    """Return the foreign key to an owner whose deletion deletes the row too."""
    key = sa.ForeignKey(f'{owner}.id', name=name, ondelete='CASCADE')
    return sa.Column(f'{owner}_id', _ID, key, nullable=False, **more)


cluster_template = _table(
    'cluster_template',
    sa.Column('name', _NAME, primary_key=True),
    sa.Column('spec', _TEXT, nullable=False),
    sa.Column('updated_at', _TIME, nullable=False),
)

cluster = _table(
    'cluster',
    sa.Column('id', _ID, primary_key=True),
    # A deleted cluster has a tombstone and no row, so its name is free.
    sa.Column('name', _NAME, nullable=False),
    sa.Column('template', _NAME),
    sa.Column('spec', _TEXT, nullable=False),
    sa.Column('generation', sa.Integer(), nullable=False),
    sa.Column('driver_name', _NAME, nullable=False),
    sa.Column('driver_version', _WORD, nullable=False),
    sa.Column('driver_origin', _TEXT, nullable=False),
    sa.Column('driver_digest', _NAME, nullable=False),
    sa.Column('decision', _TEXT),
    sa.Column('former', _TEXT),
    sa.Column('driver_handle', _NAME),
    sa.Column('driver_state', _TEXT),
    sa.Column('trouble', _TEXT),
    sa.Column('outputs', _TEXT),
    #: The most nodes that its operations can lead to, and the name of its credentials.
    sa.Column('nodes', sa.Integer(), nullable=False, server_default='0'),
    sa.Column('owner', _NAME),
    sa.Column('paused', sa.Boolean(), nullable=False),
    sa.Column('created_at', _TIME, nullable=False),
    sa.Column('updated_at', _TIME, nullable=False),
    sa.Index('cluster_by_name', 'name', unique=True),
    sa.Index('cluster_by_template', 'template'),
    # Has all that limits of nodes are checked with, so no spec is read for that.
    sa.Index('cluster_by_owner', 'owner', 'nodes'),
)

node = _table(
    'node',
    sa.Column('id', _ID, primary_key=True),
    _part_of('cluster', 'node_of_cluster'),
    sa.Column('node_group', _NAME, nullable=False),
    sa.Column('name', _NAME, nullable=False),
    sa.Column('flavor', _NAME),
    sa.Column('zone', _NAME),
    sa.Column('backend', _NAME, nullable=False),
    sa.Column('state', _WORD, nullable=False),
    sa.Column('made_with', _NAME, nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('compute_id', _NAME),
    sa.Column('address', _NAME),
    sa.Column('addresses', _TEXT),
    sa.Column('found_zone', _NAME),
    sa.Column('doomed', _TEXT, nullable=False),
    sa.Column('cause', _TEXT),
    sa.Column('created_at', _TIME, nullable=False),
    sa.Column('since', _TIME, nullable=False),
    # Not unique: an upsert in MariaDB would update the first node of the same name.
    sa.Index('node_by_cluster', 'cluster_id', 'name'),
    sa.Index('node_by_state', 'state', 'since'),
)

operation = _table(
    'operation',
    # Clocks can step back, so the newest operation is the last one written.
    sa.Column('seq', _COUNT, primary_key=True, autoincrement=True),
    sa.Column('id', _ID, nullable=False),
    sa.Column('cluster_id', _ID, nullable=False),
    sa.Column('kind', _WORD, nullable=False),
    sa.Column('state', _WORD, nullable=False),
    sa.Column('args', _TEXT),
    sa.Column('generation', sa.Integer(), nullable=False),
    sa.Column('deadline_at', _TIME, nullable=False),
    sa.Column('created_at', _TIME, nullable=False),
    sa.Column('started_at', _TIME),
    sa.Column('ended_at', _TIME),
    sa.Column('cause', _TEXT),
    sa.Column('cancelled', sa.Boolean(), nullable=False),
    sa.Index('operation_by_id', 'id', unique=True),
    sa.Index('operation_by_cluster', 'cluster_id', 'seq'),
    sa.Index('operation_by_state', 'state', 'seq'),
    sqlite_autoincrement=True,
)

step = _table(
    'step',
    sa.Column('id', _ID, primary_key=True),
    _part_of('operation', 'step_of_operation'),
    sa.Column('cluster_id', _ID, nullable=False),
    sa.Column('kind', _WORD, nullable=False),
    sa.Column('state', _WORD, nullable=False),
    sa.Column('node_id', _ID),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('token', _NAME, nullable=False),
    sa.Column('started_at', _TIME, nullable=False),
    sa.Column('deadline_at', _TIME),
    sa.Column('ended_at', _TIME),
    sa.Column('result', _TEXT),
    sa.Column('cause', _TEXT),
    sa.Index('step_by_operation', 'operation_id', 'state'),
)

lease = _table(
    'lease',
    sa.Column('scope', _ID, primary_key=True),
    sa.Column('owner', _NAME, nullable=False),
    sa.Column('epoch', sa.BigInteger(), nullable=False),
    sa.Column('expires', _TIME, nullable=False),
)

event = _table(
    'event',
    # Numbered by the counter, whose row is locked until the commit, so that a reader
    # that has seen a number has seen all lower ones. Sequences of the database are not
    # committed in order, so a reader could miss events.
    sa.Column('seq', sa.BigInteger(), primary_key=True, autoincrement=False),
    sa.Column('cluster_id', _ID, nullable=False),
    sa.Column('kind', _WORD, nullable=False),
    sa.Column('message', _TEXT, nullable=False),
    sa.Column('at', _TIME, nullable=False),
    sa.Column('operation_id', _ID),
    sa.Column('node_id', _ID),
    sa.Column('facts', _TEXT),
    sa.Index('event_by_cluster', 'cluster_id', 'seq'),
    sa.Index('event_by_time', 'at'),
)

counter = _table(
    'counter',
    sa.Column('name', _WORD, primary_key=True),
    sa.Column('last', sa.BigInteger(), nullable=False),
)

holding = _table(
    'holding',
    sa.Column('cluster_id', _ID, primary_key=True),
    sa.Column('backend', sa.String(128), primary_key=True),
    sa.Column('kind', _WORD, primary_key=True),
    sa.Column('id', _NAME, primary_key=True),
    sa.Column('node_id', _ID),
    # The node itself does not outlive its cluster.
    sa.Column('node_name', _NAME),
    sa.Column('seen_at', _TIME, nullable=False),
    sa.Column('gone_at', _TIME),
    sa.Index('holding_by_backend', 'backend', 'kind', 'id'),
)

# The holdings of a deleted cluster stay, as its receipt.
tombstone = _table(
    'tombstone',
    sa.Column('cluster_id', _ID, primary_key=True),
    sa.Column('name', _NAME, nullable=False),
    sa.Column('deleted_at', _TIME, nullable=False),
    sa.Index('tombstone_by_name', 'name', 'deleted_at'),
)

secret = _table(
    'secret',
    _part_of('cluster', 'secret_of_cluster', primary_key=True),
    sa.Column('name', _NAME, primary_key=True),
    #: Encrypted, and bound to the row; see kiln.db.tokens.
    sa.Column('value', _TEXT, nullable=False),
)
