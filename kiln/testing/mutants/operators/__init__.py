"""Mutation operators: the mistakes of vendors, each as a function of a place in the source.

An operator gets a node of the syntax tree and yields the edits that make its mistake there.
The first line of its docstring is its description.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kiln.testing.mutants.code import Code, Edit
from kiln.testing.mutants.operators import clusters, conditions, errors, loops, statements, values

Operator = Callable[[ast.AST, Code], Iterator[Edit]]

_ALL: tuple[Operator, ...] = (
    values.drop_field,
    values.drop_error_fact,
    values.swap_fields,
    values.ignore_request,
    values.damage_text,
    values.wrong_member,
    values.off_by_one,
    values.widen_query,
    values.reverse_query,
    conditions.widen_filter,
    conditions.narrow_filter,
    conditions.negate_condition,
    conditions.always,
    conditions.never,
    errors.drop_validation,
    errors.swallow_error,
    errors.drop_cause,
    errors.forget_error,
    errors.catch_everything,
    errors.change_error,
    errors.forget_lock,
    errors.forget_context,
    statements.drop_call,
    statements.drop_write,
    statements.return_early,
    statements.ignore_argument,
    statements.cache_in_memory,
    loops.stop_paging,
    loops.skip_last,
    loops.reverse_order,
)
#: All operators by name.
OPERATORS: Mapping[str, Operator] = MappingProxyType({one.__name__: one for one in _ALL})

_OF_CLUSTERS: tuple[Operator, ...] = (
    clusters.too_early,
    clusters.too_late,
    clusters.log_secret,
    clusters.wrong_progress,
    clusters.wrong_identity,
    clusters.wait_inside,
    clusters.keep_first_answer,
    clusters.depend_on_process,
    clusters.flip_flag,
)
#: Operators that make mistakes of authors of cluster drivers, beside all others.
CLUSTER_OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {one.__name__: one for one in _OF_CLUSTERS}
)
