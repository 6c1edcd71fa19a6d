"""Mistakes with many: the last one or the next page is missed, the order is wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kiln.testing.mutants.code import Code, Edit
from kiln.testing.mutants.operators.errors import called

_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_LISTS = (ast.ListComp, ast.GeneratorExp)
#: Calls to which the order of their argument makes no difference.
_UNORDERED = frozenset(
    {'all', 'any', 'dict', 'frozenset', 'len', 'max', 'min', 'set', 'sorted', 'sum'}
)


def stop_paging(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Stop after the first round of a loop, such as the first page."""
    if isinstance(node, ast.For | ast.While) and not isinstance(node.body[-1], _ENDS):
        edit = code.insert_after(node.body[-1], 'break')
        if edit:
            yield edit


def skip_last(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Forget the last of many."""
    if isinstance(node, ast.For | ast.comprehension):
        yield code.replace(node.iter, f'list({code.segment(node.iter)})[:-1]')


def reverse_order(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Go through many in reverse order, or forget to sort them."""
    if isinstance(node, ast.For) or (isinstance(node, ast.comprehension) and _ordered(node, code)):
        yield code.replace(node.iter, f'list({code.segment(node.iter)})[::-1]')
    elif isinstance(node, ast.Call) and called(node) == 'sorted' and node.args:
        yield code.replace(node, f'list({code.segment(node.args[0])})')


def _ordered(node: ast.comprehension, code: Code) -> bool:
    made = code.parent(node)
    return isinstance(made, _LISTS) and called(code.parent(made)) not in _UNORDERED
