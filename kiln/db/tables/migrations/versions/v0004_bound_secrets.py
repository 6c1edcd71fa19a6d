"""Migration that keeps former versions away from secrets that they cannot read."""

from __future__ import annotations

revision = '0004'
down_revision = '0003'


def upgrade() -> None:
    """Change no table: secrets are bound to their rows when they are written next.

    A former version would ask for the key file of another backup, and write secrets that
    are bound to no row.
    """
