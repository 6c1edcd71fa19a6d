"""Outline of a module's names from its source: signatures and documentation, without code."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Special methods that show how a class is used.
_SPECIAL = frozenset({'__init__', '__call__'})


def members_of(module: ModuleType, name: str) -> list[str]:
    """Return the names of the public members that a class of a module itself defines."""
    node = _statements(module)[name]
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [member for one in body for member in _names(one) if member[0] != '_']


def outline(module: ModuleType, name: str, member: str | None = None) -> str:
    """Return the source of a class, function or constant without bodies and private members.

    With ``member``, only that member, below the head of the class.
    """
    lines, node = inspect.getsource(module).splitlines(), _statements(module)[name]
    assert node.end_lineno is not None
    parts = node.body if isinstance(node, ast.ClassDef) else [node]
    hidden = {number for one in parts for number in _hidden(one, lines, member)}
    numbers = range(_first_of(node, lines), node.end_lineno + 1)
    # Comments between members belong to what follows.
    shown = [lines[number - 1] for number in numbers if number not in hidden]
    text = '\n'.join(line for line in shown if not line.lstrip().startswith('# '))
    while '\n\n\n' in text:
        text = text.replace('\n\n\n', '\n\n')
    return text.rstrip()


@functools.cache
def _statements(module: ModuleType) -> Mapping[str, ast.stmt]:
    """Return the statements of a module that define names, by name."""
    tree = ast.parse(inspect.getsource(module))
    return {name: node for node in tree.body for name in _names(node)}


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.ClassDef(name=name):
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
    public = any(name[0] != '_' or name in _SPECIAL for name in names)
    if (is_text and member is None) or (wanted and public):
        if isinstance(node, _FUNCTIONS):
            yield from range(_body_at(node), node.end_lineno + 1)
        return
    yield from range(_first_of(node, lines), node.end_lineno + 1)


def _first_of(node: ast.stmt, lines: list[str]) -> int:
    """Return the number of the first line of a statement, with the comments above it."""
    first: int = min([node.lineno, *(one.lineno for one in getattr(node, 'decorator_list', ()))])
    while lines[first - 2].lstrip().startswith('#'):
        first -= 1
    return first


def _body_at(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of the first line of a function behind its documentation."""
    first = node.body[0]
    assert first.end_lineno is not None
    return first.end_lineno + 1 if ast.get_docstring(node) is not None else first.lineno
