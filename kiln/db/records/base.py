"""Base class of the records of a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from kiln.db.database import Database
from kiln.db.tables.rows import read

_T = TypeVar('_T')


class Records:
    """Records of one kind in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _read(self, make: Callable[[Any], _T], question: sa.Select[Any]) -> tuple[_T, ...]:
        """Return the values of all rows that a query finds."""
        with self._database.reading() as connection:
            return read(make, connection.execute(question))
