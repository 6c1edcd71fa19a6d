"""Mistakes in values: fields lost, mixed up, ignored, or wrong by one."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from kiln.models import AmphoraType, BuildRequest
from kiln.testing.mutants.code import FUNCTIONS, Code, Edit

#: Members that vendors take for each other.
_CONFUSED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        'State': {
            'PENDING': 'BUILDING',
            'BUILDING': 'ACTIVE',
            'ACTIVE': 'ERROR',
            'SUSPENDED': 'STOPPED',
            'STOPPED': 'SUSPENDED',
            'ERROR': 'ACTIVE',
            'DELETING': 'DELETED',
            'DELETED': 'UNKNOWN',
            'UNKNOWN': 'DELETED',
        },
        'Outcome': {'NOT_APPLIED': 'UNKNOWN', 'UNKNOWN': 'NOT_APPLIED', 'APPLIED': 'NOT_APPLIED'},
        'AmphoraType': {one.name: 'VM' for one in AmphoraType} | {'VM': 'CONTAINER'},
    }
)
_TEXTS = frozenset({'name', 'build_key', 'owner'})
_LIMITS = {'<': '<=', '<=': '<', '>': '>=', '>=': '>'}
_CONDITION = re.compile(r'\b(\w+) (=|<|>|<=|>=|IN) (\?|:\w+)')
_ORDER = re.compile(r'\bORDER BY [\w.]+\b(?! DESC)')


def drop_field(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Leave out a field: a keyword argument of a call, or an entry of a mapping."""
    if isinstance(node, ast.Call) and not isinstance(code.parent(node), ast.Raise):
        yield from _without_keywords(node, code)
    elif isinstance(node, ast.Dict):
        parts = [
            (code.start(key), code.end(value))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        if len(parts) == len(node.keys):
            yield from (code.drop(parts, index) for index in range(len(parts)))


def drop_error_fact(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Leave out a fact of an error, such as the id of the amphora."""
    if isinstance(node, ast.Call) and isinstance(code.parent(node), ast.Raise):
        yield from _without_keywords(node, code)


def swap_fields(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Mix up two fields: neighbouring keyword arguments exchange their values."""
    for one, other in itertools.pairwise(_keywords(node)):
        first, second = one.value, other.value
        if one.arg and other.arg and ast.dump(first) != ast.dump(second):
            between = code.between(code.end(first), code.start(second))
            text = f'{code.segment(second)}{between}{code.segment(first)}'
            yield Edit(code.start(first), code.end(second), text)


def ignore_request(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Ignore a field of a build request: use what a request without it has."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        nothing = _EMPTY.get(node.attr)
        if nothing is not None and _is_request(node.value, code):
            yield code.replace(node, nothing.format(code.segment(node)))


def damage_text(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Damage a text of a build request: its capitals, or what is not ASCII."""
    match node:
        case ast.Attribute(value=ast.Name() as name, attr=field) if field in _TEXTS:
            if _is_request(name, code):
                text = code.segment(node)
                yield code.replace(node, f'{text}.lower()')
                # Keys and owners have no other letters.
                if field == 'name':
                    yield code.replace(node, f"{text}.encode('ascii', 'ignore').decode()")


def wrong_member(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Take a similar state, type or outcome for the right one."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        wrong = _CONFUSED.get(node.value.id, {}).get(node.attr)
        if wrong is not None:
            end = code.end(node)
            yield Edit(end - len(node.attr), end, wrong)


def off_by_one(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Miss a limit by one: in a number, or in a comparison."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield code.replace(node, str(node.value + 1))
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, right in itertools.pairwise(sides):
            start, end = code.end(left), code.start(right)
            if found := re.search('[<>]=?', code.between(start, end)):
                yield Edit(start + found.start(), start + found.end(), _LIMITS[found[0]])


def widen_query(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Leave a condition of an SQL query without effect."""
    for start, text in _sql(node, code):
        # What is set is not a condition.
        begins = text.find('WHERE') if 'SET ' in text else 0
        for found in _CONDITION.finditer(text, begins) if begins >= 0 else ():
            at, end = start + found.start(), start + found.end()
            yield Edit(at, end, f'({found[0]} OR 1)')


def reverse_query(node: ast.AST, code: Code) -> Iterator[Edit]:
    """Reverse the order of the rows of an SQL query."""
    for start, text in _sql(node, code):
        for found in _ORDER.finditer(text):
            yield Edit(start + found.start(), start + found.end(), f'{found[0]} DESC')


def _sql(node: ast.AST, code: Code) -> Iterator[tuple[int, str]]:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    if is_text or isinstance(node, ast.JoinedStr):
        text = code.segment(node)
        # Offsets count bytes.
        if text.isascii():
            yield code.start(node), text


def _keywords(node: ast.AST) -> Sequence[ast.keyword]:
    return node.keywords if isinstance(node, ast.Call) else ()


def _without_keywords(node: ast.Call, code: Code) -> Iterator[Edit]:
    parts: list[ast.AST] = sorted([*node.args, *node.keywords], key=code.start)
    spans = [(code.start(part), code.end(part)) for part in parts]
    for index, part in enumerate(parts):
        if isinstance(part, ast.keyword) and part.arg is not None:
            yield code.drop(spans, index)


def _is_request(name: ast.Name, code: Code) -> bool:
    for outer in code.around(name):
        if isinstance(outer, FUNCTIONS):
            for one in (*outer.args.args, *outer.args.kwonlyargs):
                if one.arg == name.id and one.annotation is not None:
                    return BuildRequest.__name__ in code.segment(one.annotation)
    return False


def _empty() -> Iterator[tuple[str, str]]:
    for field in dataclasses.fields(BuildRequest):
        if field.name == 'amphora_type':
            yield field.name, "type({})('vm')"
        elif field.default is not dataclasses.MISSING:
            yield field.name, repr(field.default)
        else:
            is_mapping = field.default_factory is not dataclasses.MISSING
            yield field.name, 'dict()' if is_mapping else "''"


#: What an empty request has in each field, as source.
_EMPTY = dict(_empty())
