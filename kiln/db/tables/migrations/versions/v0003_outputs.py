"""Migration that adds the column for the outputs of clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0003'
down_revision = '0002'


def upgrade() -> None:
    """Add the column, empty until a driver reports outputs."""
    text = sa.Text().with_variant(mysql.LONGTEXT(), 'mariadb')
    op.add_column('cluster', sa.Column('outputs', text))
