"""Mistakes with errors: swallowed, of the wrong class, not translated, not raised."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

from kiln import exceptions
from kiln.testing.mutants.code import Code, Edit
from kiln.testing.mutants.operators.conditions import binds, only_raises

_BROAD = frozenset({'Exception', 'BaseException'})
#: Names of calls that check something.
CHECK = re.compile(r'_*(check|validate|verify|ensure|require|refuse)')
_NOTHING = "__import__('contextlib').nullcontext()"


def drop_validation(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Do not refuse what has to be refused."""
    if isinstance(node, ast.If):
        if only_raises(node) and not binds(node.test):
            yield code.replace(node.test, 'False')
    elif isinstance(node, ast.Expr) and CHECK.match(called(node.value)):
        yield code.replace(node, 'pass')


def swallow_error(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Return nothing instead of raising an error."""
    if (
        isinstance(node, ast.Raise)
        and not only_raises(code.parent(node))
        and code.is_in_function(node)
    ):
        yield code.replace(node, 'return None')


def drop_cause(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Hide the foreign error that is the cause of an error."""
    if isinstance(node, ast.Raise) and node.cause is not None and not _is_none(node.cause):
        yield code.replace(node.cause, 'None')


def forget_error(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Do not catch an error that has to be handled."""
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        yield code.replace(node.type, '()')
        if isinstance(node.type, ast.Tuple) and len(node.type.elts) > 1:
            parts = [(code.start(one), code.end(one)) for one in node.type.elts]
            yield from (code.drop(parts, index) for index in range(len(parts)))


def catch_everything(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Take every error for the one that is handled."""
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return
    if code.segment(node.type) not in _BROAD:
        yield code.replace(node.type, 'Exception')


def change_error(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Raise an error of another class: its base class, or one that is acted on otherwise."""
    error = _error_of(node)
    if error is None or isinstance(code.parent(node), ast.ExceptHandler | ast.Tuple):
        return
    others = dict.fromkeys((error.__mro__[1], _opposite(error)))
    for other in others:
        if issubclass(other, exceptions.KilnError) and other is not error:
            yield code.replace(node, _source_of(other))


def forget_lock(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Work without the lock."""
    yield from (edit for is_lock, edit in _contexts(node, code) if is_lock)


def forget_context(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Work outside of a context, such as the translation of foreign errors."""
    yield from (edit for is_lock, edit in _contexts(node, code) if not is_lock)


def called(node: ast.AST) -> str:
    """Return the last name of what is called, or ''."""
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
    return ''


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _contexts(node: ast.AST, code: Code) -> Iterator[tuple[bool, Edit]]:
    if isinstance(node, ast.With):
        for item in node.items:
            if item.optional_vars is None:
                context = item.context_expr
                yield 'lock' in code.segment(context).lower(), code.replace(context, _NOTHING)


def _error_of(node: ast.AST) -> type[Any] | None:
    """Return the class of kiln's errors that an expression names, or None."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            error = getattr(exceptions, name, None)
            if inspect.isclass(error) and issubclass(error, exceptions.KilnError):
                return error
    return None


def _opposite(error: type[Any]) -> type[Any]:
    """Return an error that callers act on in another way."""
    if issubclass(error, exceptions.ComputeServiceError):
        return exceptions.InstanceNotFoundError
    return exceptions.ServiceUnavailable


def _source_of(error: type[Any]) -> str:
    # The module might not have imported it.
    return f"__import__('kiln.exceptions').exceptions.{error.__name__}"
