"""Migration that creates the tables of clusters, nodes, operations, steps and leases."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0001'
down_revision = None

# A migration never changes, so it uses nothing of kiln.db.tables.schema.
_ID = sa.String(64)
_WORD = sa.String(64)
_NAME = sa.String(255)
_TIME: sa.Double[float] = sa.Double()
_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), 'mariadb')
_COUNT = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
_EXACT: dict[str, Any] = {
    'mariadb_charset': 'utf8mb4',
    'mariadb_collate': 'utf8mb4_bin',
    'mariadb_engine': 'InnoDB',
}


def upgrade() -> None:
    """Create all tables."""
    _make_clusters()
    _make_nodes()
    _make_operations()
    _make_steps()
    _make_events()
    _make_receipts()
    _make_leases()


def _make_clusters() -> None:
    op.create_table(
        'cluster_template',
        sa.Column('name', _NAME, primary_key=True),
        sa.Column('spec', _TEXT, nullable=False),
        sa.Column('updated_at', _TIME, nullable=False),
        **_EXACT,
    )
    op.create_table(
        'cluster',
        sa.Column('id', _ID, primary_key=True),
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
        sa.Column('paused', sa.Boolean(), nullable=False),
        sa.Column('created_at', _TIME, nullable=False),
        sa.Column('updated_at', _TIME, nullable=False),
        **_EXACT,
    )
    op.create_index('cluster_by_name', 'cluster', ['name'], unique=True)
    op.create_index('cluster_by_template', 'cluster', ['template'])


def _make_nodes() -> None:
    op.create_table(
        'node',
        sa.Column('id', _ID, primary_key=True),
        sa.Column(
            'cluster_id',
            _ID,
            sa.ForeignKey('cluster.id', name='node_of_cluster', ondelete='CASCADE'),
            nullable=False,
        ),
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
        sa.Column('doomed', _TEXT, nullable=False),
        sa.Column('cause', _TEXT),
        sa.Column('created_at', _TIME, nullable=False),
        sa.Column('since', _TIME, nullable=False),
        **_EXACT,
    )
    op.create_index('node_by_cluster', 'node', ['cluster_id', 'name'])
    op.create_index('node_by_state', 'node', ['state', 'since'])


def _make_operations() -> None:
    op.create_table(
        'operation',
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
        sqlite_autoincrement=True,
        **_EXACT,
    )
    op.create_index('operation_by_id', 'operation', ['id'], unique=True)
    op.create_index('operation_by_cluster', 'operation', ['cluster_id', 'seq'])
    op.create_index('operation_by_state', 'operation', ['state', 'seq'])


def _make_steps() -> None:
    op.create_table(
        'step',
        sa.Column('id', _ID, primary_key=True),
        sa.Column(
            'operation_id',
            _ID,
            sa.ForeignKey('operation.id', name='step_of_operation', ondelete='CASCADE'),
            nullable=False,
        ),
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
        **_EXACT,
    )
    op.create_index('step_by_operation', 'step', ['operation_id', 'state'])


def _make_events() -> None:
    op.create_table(
        'event',
        sa.Column('seq', sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column('cluster_id', _ID, nullable=False),
        sa.Column('kind', _WORD, nullable=False),
        sa.Column('message', _TEXT, nullable=False),
        sa.Column('at', _TIME, nullable=False),
        sa.Column('operation_id', _ID),
        sa.Column('node_id', _ID),
        sa.Column('facts', _TEXT),
        **_EXACT,
    )
    op.create_index('event_by_cluster', 'event', ['cluster_id', 'seq'])
    op.create_index('event_by_time', 'event', ['at'])
    counter = op.create_table(
        'counter',
        sa.Column('name', _WORD, primary_key=True),
        sa.Column('last', sa.BigInteger(), nullable=False),
        **_EXACT,
    )
    op.bulk_insert(counter, [{'name': 'event', 'last': 0}])


def _make_receipts() -> None:
    op.create_table(
        'holding',
        sa.Column('cluster_id', _ID, primary_key=True),
        sa.Column('backend', sa.String(128), primary_key=True),
        sa.Column('kind', _WORD, primary_key=True),
        sa.Column('id', _NAME, primary_key=True),
        sa.Column('node_id', _ID),
        sa.Column('seen_at', _TIME, nullable=False),
        sa.Column('gone_at', _TIME),
        **_EXACT,
    )
    op.create_index('holding_by_backend', 'holding', ['backend', 'kind', 'id'])
    op.create_table(
        'tombstone',
        sa.Column('cluster_id', _ID, primary_key=True),
        sa.Column('name', _NAME, nullable=False),
        sa.Column('deleted_at', _TIME, nullable=False),
        **_EXACT,
    )
    op.create_index('tombstone_by_name', 'tombstone', ['name', 'deleted_at'])


def _make_leases() -> None:
    op.create_table(
        'lease',
        sa.Column('scope', _ID, primary_key=True),
        sa.Column('owner', _NAME, nullable=False),
        sa.Column('epoch', sa.BigInteger(), nullable=False),
        sa.Column('expires', _TIME, nullable=False),
        **_EXACT,
    )
    op.create_table(
        'secret',
        sa.Column(
            'cluster_id',
            _ID,
            sa.ForeignKey('cluster.id', name='secret_of_cluster', ondelete='CASCADE'),
            primary_key=True,
        ),
        sa.Column('name', _NAME, primary_key=True),
        sa.Column('value', _TEXT, nullable=False),
        **_EXACT,
    )
