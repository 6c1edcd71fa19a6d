"""Migration that adds all addresses of nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0007'
down_revision = '0006'


def upgrade() -> None:
    """Add the column; nodes that exist keep their one address until they are built again."""
    text = sa.Text().with_variant(mysql.LONGTEXT(), 'mariadb')
    op.add_column('node', sa.Column('addresses', text))
