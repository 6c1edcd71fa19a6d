"""Mistakes in conditions and filters: dropped, negated, always or never true."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kiln.testing.mutants.code import Code, Edit

_TRUTHS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
_ALTERNATIVES = (ast.If, ast.IfExp)


def widen_filter(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Drop a condition of a filter, so that it lets more through."""
    match node:
        case ast.comprehension(ifs=tests):
            yield from (code.replace(test, 'True') for test in tests)
        case ast.BoolOp(op=ast.And()):
            yield from _without_operands(node, 'and', code)
        case ast.Compare(
            left=ast.Tuple(elts=left), ops=[ast.Eq()], comparators=[ast.Tuple(elts=right)]
        ) if len(left) == len(right):
            for index in range(len(left)):
                sides = [_tuple_of(side, index, code) for side in (left, right)]
                yield code.replace(node, ' == '.join(sides))


def narrow_filter(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Drop an alternative of a condition, or a default after ``or``."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        yield from _without_operands(node, 'or', code)


def negate_condition(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Negate a condition."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) if not only_raises(node):
            yield _negated(test, code)
        case ast.Return(value=ast.expr() as value) | ast.keyword(value=value):
            if isinstance(value, _TRUTHS) and not _is_number(value):
                yield _negated(value, code)


def always(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Treat every case as the special case: a condition is always true."""
    yield from _constant(node, 'True', code)


def never(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Forget a special case: a condition is never true."""
    yield from _constant(node, 'False', code)


def only_raises(node: ast.AST) -> bool:
    """Return True for an ``if`` that does nothing but raise an error: a validation."""
    return isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)


def binds(test: ast.expr) -> bool:
    """Return True for a condition that binds a name, which would be missing without it."""
    return any(isinstance(one, ast.NamedExpr) for one in ast.walk(test))


def _constant(node: ast.AST, text: str, code: Code) -> Iterator[Edit]:
    if isinstance(node, _ALTERNATIVES) and not only_raises(node) and not binds(node.test):
        yield code.replace(node.test, text)


def _negated(node: ast.expr, code: Code) -> Edit:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return code.replace(node, f'bool({code.segment(node.operand)})')
    return code.replace(node, f'not ({code.segment(node)})')


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)


def _without_operands(node: ast.BoolOp, word: str, code: Code) -> Iterator[Edit]:
    for index in range(len(node.values)):
        rest = [value for number, value in enumerate(node.values) if number != index]
        text = f' {word} '.join(f'({code.segment(one)})' for one in rest)
        yield code.replace(node, text)


def _tuple_of(items: Sequence[ast.expr], without: int, code: Code) -> str:
    kept = [code.segment(one) for number, one in enumerate(items) if number != without]
    return f'({", ".join(kept)},)' if kept else '()'
