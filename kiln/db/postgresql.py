"""Cursor for PostgreSQL, imported only for a store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg


class Cursor(psycopg.Cursor[Any]):
    """A cursor that sends each statement separately, so that the idle timeout applies.

    For many rows psycopg uses a pipeline. The server sees a pipeline as one running
    statement, so a session that stops inside it is not idle, and would keep its locks
    for as long as its process is stopped.
    """

    def executemany(
        self, query: Any, params_seq: Iterable[Any], *, returning: bool = False
    ) -> None:
        """Run a statement with each of the rows, and discard its results."""
        for row in params_seq:
            self.execute(query, row)
