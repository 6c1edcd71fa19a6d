"""Frequent SQL statements, compiled once and run by the driver directly.

SQLAlchemy looks up each statement on each run and wraps the result, which takes several
times as long as SQLite itself. An engine commits thousands of times, so the statements
of every commit bypass SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from kiln.db.database import Database

_Row = Mapping[str, Any]


class Statement:
    """A statement for one dialect, run with rows that all have the same keys."""

    def __init__(self, database: Database, statement: Any) -> None:
        self._dialect = database.dialect
        self._statement = statement
        self._text = ''
        self._arrange: Callable[[_Row], Any] = dict

    def run(self, connection: sa.Connection, row: _Row) -> Any:
        """Run the statement within a change, and return the cursor of the driver."""
        self._make(row)
        driver: Any = connection.connection
        cursor = driver.cursor()
        cursor.execute(self._text, self._arrange(row))
        return cursor

    def run_all(self, connection: sa.Connection, rows: Iterable[_Row]) -> None:
        """Run the statement with each of the rows, within a change."""
        if all_ := list(rows):
            self._make(all_[0])
            driver: Any = connection.connection
            driver.cursor().executemany(self._text, [self._arrange(row) for row in all_])

    def _make(self, row: _Row) -> None:
        """Compile the statement on its first run, when the columns are known."""
        if self._text:
            return
        compiled = self._statement.compile(dialect=self._dialect, column_keys=list(row))
        constants = {name: compiled.params[name] for name in compiled.params.keys() - row.keys()}
        # SQLite has positional parameters, the others have named ones.
        if (places := compiled.positiontup) is not None:
            self._arrange = lambda row: [*map({**constants, **row}.__getitem__, places)]
        else:
            self._arrange = lambda row: {**constants, **row}
        self._text = str(compiled)
