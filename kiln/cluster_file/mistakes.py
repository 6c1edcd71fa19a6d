"""The mistakes of a file as they are found; told all at once, in the order of its lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kiln.cluster_exceptions import InvalidCluster, Problem
from kiln.cluster_file.tree import Node


class Mistakes:
    """Everything that is wrong in one file."""

    def __init__(self, file: str = '') -> None:
        self.file = file
        #: How often something was found wrong; who reads a value looks whether it grows.
        self.told = 0
        # What is wrong with an anchor is wrong wherever it is used, and told once.
        self._problems: dict[tuple[int, int, str], Problem] = {}

    def add(self, node: Node, message: str) -> None:
        """Note what is wrong with a value, and what would be right."""
        self.add_at(node.line, node.column, message, path=node.path)

    def add_at(self, line: int, column: int, message: str, *, path: str = '') -> None:
        """Note what is wrong at a place."""
        self.told += 1
        problem = Problem(message=message, path=path, file=self.file, line=line, column=column)
        self._problems.setdefault((line, column, message), problem)

    def raise_any(self) -> None:
        """Tell all of them, or return if there is none.

        :raises InvalidCluster: there are some.
        """
        if self._problems:
            problems = self._problems.values()
            raise InvalidCluster(sorted(problems, key=lambda one: (one.line, one.column)))


def close_to(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that somebody may have meant by a word."""
    plain = {name.replace('_', ''): name for name in known}
    asked = ''.join(letter for letter in word.lower() if letter.isalnum())
    found = difflib.get_close_matches(asked[:60], plain, n=1, cutoff=0.75)
    return plain[found[0]] if found else None
