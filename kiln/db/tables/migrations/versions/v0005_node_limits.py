"""Migration that adds the columns with which limits of nodes are checked."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'


def upgrade() -> None:
    """Add the columns, and fill them from the specs of the clusters."""
    op.add_column('cluster', sa.Column('nodes', sa.Integer(), nullable=False, server_default='0'))
    op.add_column('cluster', sa.Column('owner', sa.String(255)))
    op.create_index('cluster_by_owner', 'cluster', ['owner', 'nodes'])
    connection = op.get_bind()
    cluster = sa.table('cluster', *map(sa.column, ('id', 'spec', 'nodes', 'owner')))
    # One by one: a spec can be large.
    for cluster_id in connection.scalars(sa.select(cluster.c.id)).all():
        mine = cluster.c.id == cluster_id
        spec = json.loads(connection.scalar(sa.select(cluster.c.spec).where(mine)) or '{}')
        count = sum(group['shape']['count'] for group in spec.get('groups', ()))
        values = {'nodes': count, 'owner': spec.get('credentials')}
        connection.execute(sa.update(cluster).where(mine).values(**values))
    counter = sa.table('counter', sa.column('name'), sa.column('last'))
    connection.execute(sa.insert(counter), {'name': 'nodes', 'last': 0})
