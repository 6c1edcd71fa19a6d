"""Outline of a class from its source: signatures and documentation, without code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def members_of(cls: type) -> list[str]:
    """Return the names of the public members that a class itself defines."""
    return [name for one in _parse(cls)[1].body for name in _names(one) if name[0] != '_']


def outline(cls: type, member: str | None = None) -> str:
    """Return the source of a class without bodies of functions and private members.

    With ``member``, only that member, below the head of the class.
    """
    lines, tree = _parse(cls)
    hidden = {number for one in tree.body for number in _hidden(one, lines, member)}
    # Comments between members belong to what follows.
    shown = [line for number, line in enumerate(lines, 1) if number not in hidden]
    text = '\n'.join(line for line in shown if not line.lstrip().startswith('# '))
    while '\n\n\n' in text:
        text = text.replace('\n\n\n', '\n\n')
    return text.rstrip()


def _parse(cls: type) -> tuple[list[str], ast.ClassDef]:
    source = textwrap.dedent(inspect.getsource(cls))
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    return source.splitlines(), tree


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [one.id for one in targets if isinstance(one, ast.Name)]
    return []


def _hidden(node: ast.stmt, lines: list[str], member: str | None) -> Iterator[int]:
    """Yield the numbers of the lines of a statement that are not part of the outline."""
    names = _names(node)
    assert node.end_lineno is not None
    is_text = isinstance(node, ast.Expr)
    wanted = member is None or member in names
    if (is_text and member is None) or (wanted and any(name[0] != '_' for name in names)):
        if isinstance(node, _FUNCTIONS):
            yield from range(_body_at(node), node.end_lineno + 1)
        return
    first = min([node.lineno, *(one.lineno for one in getattr(node, 'decorator_list', ()))])
    # With the comments above it.
    while lines[first - 2].lstrip().startswith('#'):
        first -= 1
    yield from range(first, node.end_lineno + 1)


def _body_at(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of the first line of a function behind its documentation."""
    first = node.body[0]
    assert first.end_lineno is not None
    return first.end_lineno + 1 if ast.get_docstring(node) is not None else first.lineno
