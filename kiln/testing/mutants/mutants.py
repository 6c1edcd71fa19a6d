"""Wrong copies of a module, each with one mistake of a vendor; pure."""

from __future__ import annotations

import ast
import collections
import dataclasses
import difflib
import textwrap
from collections.abc import Iterable, Iterator

from kiln.testing.mutants.code import Code, Edit
from kiln.testing.mutants.operators import OPERATORS

_LONGEST = 90


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """A module with one mistake."""

    module: str
    #: Qualified name of the function or class; '' outside of all.
    function: str
    operator: str
    #: What was changed, in one line; unique for the operator in the function.
    change: str
    line: int
    #: True within a function, which might never be called.
    in_function: bool
    original: str = dataclasses.field(repr=False)
    source: str = dataclasses.field(repr=False)

    @property
    def place(self) -> str:
        """Module and function, which stay the same when lines move."""
        return f'{self.module}:{self.function}' if self.function else self.module

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the mutant in a file of survivors."""
        return self.place, self.operator, self.change

    def diff(self) -> list[str]:
        """Return the lines that differ, with one line around them."""
        lines = difflib.unified_diff(
            self.original.splitlines(), self.source.splitlines(), lineterm='', n=1
        )
        return list(lines)[2:]


def mutants_of(module: str, text: str, operators: Iterable[str] = OPERATORS) -> list[Mutant]:
    """Return the mutants of a module, in the order of its source.

    Each parses, differs from the module in one place, and from all others.
    """
    code = Code(text)
    known = {text}
    found: collections.Counter[tuple[str, str, str]] = collections.Counter()
    mutants = []
    for node, name, edit in _edits(code, operators):
        source = code.apply(edit)
        if source in known or not _parses(source):
            continue
        known.add(source)
        function, change = code.function_of(node), _change(code, edit)
        found[function, name, change] += 1
        if (times := found[function, name, change]) > 1:
            change = f'{change} ({times})'
        mutants.append(
            Mutant(
                module=module,
                function=function,
                operator=name,
                change=change,
                line=code.line_of(edit),
                in_function=code.is_in_function(node),
                original=text,
                source=source,
            )
        )
    return sorted(mutants, key=lambda one: one.line)


def _edits(code: Code, operators: Iterable[str]) -> Iterator[tuple[ast.AST, str, Edit]]:
    wanted = frozenset(operators)
    # In the order of the table, as the first of two equal mutants is kept.
    chosen = [(name, operator) for name, operator in OPERATORS.items() if name in wanted]
    for node in code.nodes:
        for name, operator in chosen:
            yield from ((node, name, edit) for edit in operator(node, code))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        # Parentheses and commas are not part of the nodes that an edit removes.
        return False
    return True


def _change(code: Code, edit: Edit) -> str:
    was = _one_line(code.between(edit.start, edit.end)).strip(', ')
    now = _one_line(edit.text)
    if not was:
        return f'insert: {now}'
    return f'{was} -> {now}' if now else f'drop: {was}'


def _one_line(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder='...')
