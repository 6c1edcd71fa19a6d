"""Alembic migrations of the tables, run by ``kiln db upgrade``."""
