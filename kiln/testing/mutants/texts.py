"""Wrong copies of a driver's templates and manifest, each with one mistake; pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from kiln.testing.mutants.code import Edit, Text
from kiln.testing.mutants.mutants import Made, Mutant, distinct

#: A line of a file, and the offset of its first byte.
Line = tuple[int, str]
TextOperator = Callable[[Line], Iterator[Edit]]

_PLACEHOLDER = re.compile(r'\{\{\s*([a-z_.]+)\s*(?:(\|)\s*(\w+)\s*)?\}\}')
_VALUE = r'\'[^\']*\'|"[^"]*"|[^,{}]+'
_ENTRY = re.compile(rf'(?<=[{{ ])(?!help: )[\'"]?[a-z_/.]+[\'"]?: (?:{_VALUE})(?:, )?')
_DEFAULT = re.compile(r'\bdefault: ([^,}\n]+)')
_FLAG = re.compile(r'\b(true|false)\b')
_MODE = re.compile(r'\'?\b0[0-7]00\b\'?')
#: Facts that authors take for each other.
_CONFUSED: Mapping[str, str] = MappingProxyType(
    {
        'node.id': 'cluster.id',
        'node.name': 'cluster.name',
        'node.address': 'node.name',
        'node.host': 'node.name',
        'node.join_token': 'node.id',
        'cluster.id': 'cluster.name',
        'cluster.name': 'cluster.id',
        'group.name': 'group.role',
    }
)


def drop_line(line: Line) -> Iterator[Edit]:
    """Leave out a line of a template or of the manifest."""
    start, text = line
    # Without the head of a block no file can be read at all, and help is for people.
    if not text.rstrip().endswith(':') and not text.lstrip().startswith('help:'):
        yield Edit(start, start + len(text.encode()), '')


def drop_filter(line: Line) -> Iterator[Edit]:
    """Put a value into a text without the filter that quotes it."""
    for found in _PLACEHOLDER.finditer(line[1]):
        if found[2]:
            yield _within(line, found.start(), found.end(), f'{{{{ {found[1]} }}}}')


def wrong_fact(line: Line) -> Iterator[Edit]:
    """Take a similar fact for the right one."""
    for found in _PLACEHOLDER.finditer(line[1]):
        if wrong := _CONFUSED.get(found[1]):
            yield _within(line, *found.span(1), wrong)


def drop_key(line: Line) -> Iterator[Edit]:
    """Leave out a key of the manifest, such as a requirement, a limit or a mode."""
    # In blocks each key has a line of its own.
    if '{' in line[1]:
        for found in _ENTRY.finditer(line[1]):
            yield _within(line, *found.span(), '')


def change_default(line: Line) -> Iterator[Edit]:
    """Change a default."""
    for found in _DEFAULT.finditer(line[1]):
        value = found[1].strip()
        other = str(int(value) + 1) if value.isdigit() else 'other'
        yield _within(line, *found.span(1), other)


def flip_key(line: Line) -> Iterator[Edit]:
    """Take true for false in the manifest, or false for true."""
    for found in _FLAG.finditer(line[1]):
        yield _within(line, *found.span(), {'true': 'false', 'false': 'true'}[found[0]])


def loosen_mode(line: Line) -> Iterator[Edit]:
    """Let everybody read a file."""
    for found in _MODE.finditer(line[1]):
        yield _within(line, *found.span(), "'0644'")


_ALL: tuple[TextOperator, ...] = (
    drop_line,
    drop_filter,
    wrong_fact,
    drop_key,
    change_default,
    flip_key,
    loosen_mode,
)
#: All operators for texts by name.
TEXT_OPERATORS: Mapping[str, TextOperator] = MappingProxyType({one.__name__: one for one in _ALL})
#: Operators that fit the manifest only; a template has the language of its program.
_OF_MANIFEST = frozenset({'drop_key', 'change_default', 'flip_key', 'loosen_mode'})


def mutants_of_text(
    file: str, text: str, operators: Iterable[str] = TEXT_OPERATORS
) -> list[Mutant]:
    """Return the mutants of a template, or of a manifest that ends with ``.yaml``.

    Comments and empty lines are left alone.
    """
    manifest = file.endswith('driver.yaml')
    wanted = frozenset(operators) if manifest else frozenset(operators) - _OF_MANIFEST
    chosen = [(name, one) for name, one in TEXT_OPERATORS.items() if name in wanted]
    made = (
        Made('', name, edit)
        for line in _lines(text)
        for name, operator in chosen
        for edit in operator(line)
    )
    return distinct(file, Text(text), made, lambda _: True)


def _lines(text: str) -> Iterator[Line]:
    at = 0
    for line in text.splitlines(keepends=True):
        # Not those that are empty, a brace alone, or a comment.
        if re.search(r'\w', line) and (line.startswith('#!') or line.lstrip()[0] != '#'):
            yield at, line
        at += len(line.encode())


def _within(line: Line, start: int, end: int, text: str) -> Edit:
    at, whole = line
    return Edit(at + len(whole[:start].encode()), at + len(whole[:end].encode()), text)
