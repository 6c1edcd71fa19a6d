"""Statements that run all the time, made into text once.

SQLAlchemy looks each one up anew, and wraps what comes back. That takes several
times what SQLite itself needs, and an engine commits thousands of times; so what
every commit has in it goes to the driver directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from kiln.db.database import Database

_Row = Mapping[str, Any]


class Statement:
    """One statement in the words of a database, run with rows that all have one set of names."""

    def __init__(self, database: Database, statement: Any) -> None:
        self._dialect = database.dialect
        self._statement = statement
        self._text = ''
        self._arrange: Callable[[_Row], Any] = dict

    def run(self, connection: sa.Connection, row: _Row) -> Any:
        """Run it once, within a change; return the driver's cursor."""
        self._make(row)
        driver: Any = connection.connection
        cursor = driver.cursor()
        cursor.execute(self._text, self._arrange(row))
        return cursor

    def run_all(self, connection: sa.Connection, rows: Iterable[_Row]) -> None:
        """Run it with each of the rows, within a change; without rows, not at all."""
        if all_ := list(rows):
            self._make(all_[0])
            driver: Any = connection.connection
            driver.cursor().executemany(self._text, [self._arrange(row) for row in all_])

    def _make(self, row: _Row) -> None:
        """Make it into text when it is first run: only then the columns are known."""
        if self._text:
            return
        compiled = self._statement.compile(dialect=self._dialect, column_keys=list(row))
        constants = {name: compiled.params[name] for name in compiled.params.keys() - row.keys()}
        # SQLite has question marks, whose places count; the others have names.
        if (places := compiled.positiontup) is not None:
            self._arrange = lambda row: [*map({**constants, **row}.__getitem__, places)]
        else:
            self._arrange = lambda row: {**constants, **row}
        self._text = str(compiled)
