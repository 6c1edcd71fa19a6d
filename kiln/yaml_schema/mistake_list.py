"""Mistake collector: all mistakes of a file, raised at once in line order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kiln.clusters.exceptions import InvalidCluster, Problem, WithProblems
from kiln.yaml_schema.nodes import Node


class Mistakes:
    """The mistakes of one file."""

    def __init__(self, file: str = '') -> None:
        self.file = file
        #: Number of mistakes recorded; a reader compares it to detect a new mistake.
        self.told = 0
        # A mistake in an anchor is found at each use, but reported once.
        self._problems: dict[tuple[int, int, str], Problem] = {}

    def add(self, node: Node, message: str) -> None:
        """Record a mistake in a value."""
        self.add_at(node.line, node.column, message, path=node.path)

    def add_at(self, line: int, column: int, message: str, *, path: str = '') -> None:
        """Record a mistake at a line and column."""
        self.told += 1
        problem = Problem(message=message, path=path, file=self.file, line=line, column=column)
        self._problems.setdefault((line, column, message), problem)

    def raise_any(self, error: type[WithProblems] = InvalidCluster) -> None:
        """Raise all recorded mistakes in one error; return if nothing is recorded."""
        if self._problems:
            raise error(self.problems())

    def problems(self) -> list[Problem]:
        """Return all recorded mistakes, in the order of their lines."""
        return sorted(self._problems.values(), key=lambda one: (one.line, one.column))


def close_to(word: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a word; None if no name is close."""
    plain = {name.replace('_', ''): name for name in known}
    asked = ''.join(letter for letter in word.lower() if letter.isalnum())
    found = difflib.get_close_matches(asked[:60], plain, n=1, cutoff=0.75)
    return plain[found[0]] if found else None
