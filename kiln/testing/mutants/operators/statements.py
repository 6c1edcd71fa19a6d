"""Mistakes in what is done: steps left out, arguments ignored, results kept in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kiln.testing.mutants.code import FUNCTIONS, Code, Edit
from kiln.testing.mutants.operators.errors import CHECK, called

_YIELDS = (ast.Yield, ast.YieldFrom)
_STEPS = (ast.Call, ast.Await, *_YIELDS)
#: What a function returns that does nothing, by the beginning of its annotation.
_EMPTY = {
    'None': '',
    'bool': 'False',
    'str': "''",
    'int': '0',
    'float': '0.0',
    'Mapping': '{}',
    'dict': '{}',
    'Iterable': '()',
    'Iterator': '()',
    'Sequence': '()',
    'Collection': '()',
    'list': '[]',
    'tuple': '()',
}


def drop_call(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Leave out a step: a call whose result is not used, or a ``yield``."""
    if not isinstance(node, ast.Expr) or CHECK.match(called(node.value)):
        return
    if isinstance(node.value, _STEPS):
        yield code.replace(node, 'pass')


def drop_write(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Do not store or remove a value."""
    match node:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            wanted = True
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript()):
            wanted = True
        case _:
            wanted = False
    # Without its attributes no object works at all.
    if wanted and not code.function_of(node).endswith('.__init__'):
        yield code.replace(node, 'pass')


def return_early(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Return at once, with nothing."""
    if isinstance(node, FUNCTIONS) and (body := _body(node)):
        if isinstance(body[0], ast.Pass) or (len(body) == 1 and isinstance(body[0], ast.Raise)):
            return
        text = '' if node.returns is None else code.segment(node.returns)
        nothing = next((value for kind, value in _EMPTY.items() if text.startswith(kind)), 'None')
        if '| None' in text:
            nothing = 'None'
        edit = code.insert_before(body[0], f'return {nothing}'.rstrip())
        if edit:
            yield edit


def ignore_argument(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Ignore an optional argument: use its default, None or False."""
    if not isinstance(node, FUNCTIONS) or not (body := _body(node)):
        return
    used = {one.id for part in body for one in ast.walk(part) if isinstance(one, ast.Name)}
    for argument, default in _arguments(node):
        kind = '' if argument.annotation is None else code.segment(argument.annotation)
        nothing = 'False' if kind == 'bool' else 'None' if '| None' in kind else None
        if isinstance(default, ast.Constant):
            nothing = code.segment(default)
        # Without an argument that it needs, no function works at all.
        if nothing is not None and argument.arg in used:
            edit = code.insert_before(body[0], f'{argument.arg} = {nothing}')
            if edit:
                yield edit


def cache_in_memory(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Keep the result of a method in memory, and never look again."""
    if not isinstance(node, ast.FunctionDef) or not isinstance(code.parent(node), ast.ClassDef):
        return
    if node.decorator_list or node.name.startswith('__'):
        return
    inner = list(_own(node))
    returns = any(isinstance(one, ast.Return) and one.value is not None for one in inner)
    if returns and not any(isinstance(one, _YIELDS) for one in inner):
        edit = code.insert_before(node, "@__import__('functools').cache")
        if edit:
            yield edit


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """Return the statements of a function without its docstring."""
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1:] if documented else node.body


def _arguments(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield the named arguments of a function with their defaults."""
    plain = [*node.args.posonlyargs, *node.args.args]
    lacking = [None] * (len(plain) - len(node.args.defaults))
    yield from zip(plain, [*lacking, *node.args.defaults], strict=True)
    yield from zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield child
            yield from _own(child)
