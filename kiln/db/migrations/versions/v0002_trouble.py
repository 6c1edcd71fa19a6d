"""What drivers find wrong with clusters on which nobody works."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Add a column; nothing is wrong with a cluster before its driver says so."""
    text = sa.Text().with_variant(mysql.LONGTEXT(), 'mariadb')
    op.add_column('cluster', sa.Column('trouble', text))
