"""How kiln speaks to PostgreSQL; read only where a store is on one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg


class Cursor(psycopg.Cursor[Any]):
    """A cursor that says each statement whole, so that the server knows when it waits.

    psycopg's own way with many rows is a pipeline: to the server all of it is one
    statement under way, however long the next piece takes, and a session is not idle
    that stops amid it. Its locks would be held for as long as its process is stopped.
    """

    def executemany(
        self, query: Any, params_seq: Iterable[Any], *, returning: bool = False
    ) -> None:
        """Run a statement with each of the rows; what it returns is not kept."""
        for row in params_seq:
            self.execute(query, row)
