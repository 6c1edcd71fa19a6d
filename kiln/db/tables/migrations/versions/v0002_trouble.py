"""Migration that adds the column for problems that drivers find in idle clusters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    """Add the column, empty until a driver reports a problem."""
    text = sa.Text().with_variant(mysql.LONGTEXT(), 'mariadb')
    op.add_column('cluster', sa.Column('trouble', text))
