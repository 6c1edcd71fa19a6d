"""Migration that adds the names of nodes to receipts, and their actual zones to nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0006'
down_revision = '0005'


def upgrade() -> None:
    """Add the columns; the names are filled for the nodes that still have a row."""
    op.add_column('node', sa.Column('found_zone', sa.String(255)))
    op.add_column('holding', sa.Column('node_name', sa.String(255)))
    holding = sa.table('holding', *map(sa.column, ('node_id', 'node_name')))
    node = sa.table('node', *map(sa.column, ('id', 'name')))
    name = sa.select(node.c.name).where(node.c.id == holding.c.node_id).scalar_subquery()
    op.get_bind().execute(sa.update(holding).values(node_name=name))
