"""Wrong copies of a module, each with one mistake of an author; pure."""

from __future__ import annotations

import ast
import collections
import dataclasses
import difflib
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kiln.testing.mutants.code import Code, Edit, Text
from kiln.testing.mutants.operators import CLUSTER_OPERATORS, OPERATORS

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


class Made(NamedTuple):
    """An edit, and the operator and place that it is of."""

    function: str
    operator: str
    edit: Edit
    in_function: bool = False


def mutants_of(module: str, text: str, operators: Iterable[str] = OPERATORS) -> list[Mutant]:
    """Return the mutants of a module, in the order of its source.

    Each parses, differs from the module in one place, and from all others.
    """
    code = Code(text)
    made = (
        Made(code.function_of(node), name, edit, code.is_in_function(node))
        for node, name, edit in _edits(code, operators)
    )
    return distinct(module, code, made, _parses)


def distinct(
    module: str, text: Text, made: Iterable[Made], valid: Callable[[str], bool]
) -> list[Mutant]:
    """Return the mutants that edits make, without those that are not valid or are equal."""
    known = {text.text}
    found: collections.Counter[tuple[str, str, str]] = collections.Counter()
    mutants = []
    for function, name, edit, in_function in made:
        source = text.apply(edit)
        if source in known or not valid(source):
            continue
        known.add(source)
        change = _change(text, edit)
        found[function, name, change] += 1
        if (times := found[function, name, change]) > 1:
            change = f'{change} ({times})'
        mutants.append(
            Mutant(
                module=module,
                function=function,
                operator=name,
                change=change,
                line=text.line_of(edit),
                in_function=in_function,
                original=text.text,
                source=source,
            )
        )
    return sorted(mutants, key=lambda one: one.line)


def _edits(code: Code, operators: Iterable[str]) -> Iterator[tuple[ast.AST, str, Edit]]:
    wanted = frozenset(operators)
    # In the order of the table, as the first of two equal mutants is kept.
    known = {**CLUSTER_OPERATORS, **OPERATORS}
    chosen = [(name, operator) for name, operator in known.items() if name in wanted]
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


def _change(text: Text, edit: Edit) -> str:
    was = _one_line(text.between(edit.start, edit.end)).strip(', ')
    now = _one_line(edit.text)
    if not was:
        return f'insert: {now}'
    return f'{was} -> {now}' if now else f'drop: {was}'


def _one_line(text: str) -> str:
    return textwrap.shorten(text, _LONGEST, placeholder='...')
