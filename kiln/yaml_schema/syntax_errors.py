"""YAML syntax errors of PyYAML, explained for the author of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import yaml


class Advice(NamedTuple):
    """Explanation of a syntax error, with line and column from 0."""

    message: str
    line: int
    column: int


Answer = Callable[[yaml.MarkedYAMLError, Sequence[str]], Advice]


def advice(exc: yaml.MarkedYAMLError, lines: Sequence[str]) -> Advice:
    """Return an explanation of a syntax error, at the position of the mistake.

    The mistake is often above the position that the parser reports.
    """
    for pattern, answer in _ANSWERS:
        if re.search(pattern, f'{exc.context or ""}: {exc.problem}'):
            return answer(exc, lines)
    return Advice(f'this is not YAML: {exc.problem}', *_here(exc))


def _here(exc: yaml.MarkedYAMLError) -> tuple[int, int]:
    mark = exc.problem_mark or exc.context_mark
    assert mark is not None
    return mark.line, mark.column


def _opened(exc: yaml.MarkedYAMLError) -> tuple[int, int]:
    """Return the beginning of the construct that was being parsed."""
    mark = exc.context_mark
    return (mark.line, mark.column) if mark else _here(exc)


def _at(place: Callable[[yaml.MarkedYAMLError], tuple[int, int]], message: str) -> Answer:
    """Return an answer with a fixed message; ``{sign}`` is the character at the position."""

    def answer(exc: yaml.MarkedYAMLError, lines: Sequence[str]) -> Advice:
        line, column = _here(exc)
        return Advice(message.format(sign=lines[line][column : column + 1]), *place(exc))

    return answer


def _bracket(exc: yaml.MarkedYAMLError, _: Sequence[str]) -> Advice:
    sign = str(exc.problem).partition(' or ')[2][1]
    message = (
        f'the bracket opened here is not closed; write {sign} at its end and , between its items'
    )
    return Advice(message, *_opened(exc))


def _colon(exc: yaml.MarkedYAMLError, lines: Sequence[str]) -> Advice:
    """Distinguish the four mistakes that the parser reports as an unexpected colon."""
    number, column = _here(exc)
    line, above = lines[number], number - 1
    while above > 0 and not lines[above].strip():
        above -= 1
    if above < 0 or re.search(r':\s', line[:column]):
        message = "there is a second ': ' in this line; begin a new line, or write text in quotes"
        return Advice(message, number, column)
    before = lines[above]
    glued = re.match(r'\s*(?:- +)*[\w-]+:(?=\S)', before)
    if glued:
        return Advice("a space is missing after ':'; write 'key: value'", above, glued.end() - 1)
    if _indent(line) > _indent(before) and re.search(r':\s+\S', before):
        return Advice(
            'this line is indented below a line that already has a value; align it with that line',
            number,
            _indent(line),
        )
    return Advice("a ':' is missing in this line; write 'key: value'", above, _indent(before))


def _line_up(exc: yaml.MarkedYAMLError, lines: Sequence[str]) -> Advice:
    number, column = _here(exc)
    line = lines[number]
    if line[column:].startswith((']', '}')):
        return _STRAY(exc, lines)
    what = 'item' if line.lstrip().startswith('-') else 'key'
    message = (
        f'the indentation does not match the lines above; align the {what} with the {what}s it '
        f'belongs to'
    )
    if column > _indent(line):
        message = 'text follows the end of the value; write all of it in one pair of quotes'
    return Advice(message, number, column)


def _one_document(exc: yaml.MarkedYAMLError, lines: Sequence[str]) -> Advice:
    number, column = _here(exc)
    if lines[number][column:].startswith((']', '}')):
        return _STRAY(exc, lines)
    for line in (number, number - 1):
        if line >= 0 and lines[line].startswith('%'):
            return Advice(_DIRECTIVE, line, 0)
    message = 'the document ended before this; write --- on a separate line between two documents'
    return Advice(message, number, column)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(' '))


_DIRECTIVE = 'a line that begins with % is not supported; remove it'
_STRAY = _at(_here, '{sign} closes nothing here; remove it, or write text in quotes')

#: Explanations by pattern; the first pattern that matches is used.
_ANSWERS: tuple[tuple[str, Answer], ...] = (
    (r"character '\\t'|tab", _at(_here, 'the line is indented with a tab; write spaces')),
    (r'directive|incompatible YAML', _at(_here, _DIRECTIVE)),
    (
        r'character .* that cannot start any token',
        _at(_here, 'text cannot begin with {sign} in YAML; write it in quotes'),
    ),
    (
        r'quoted scalar: (found unexpected (end of stream|document separator))',
        _at(_opened, 'the quote opened here is not closed; add the closing quote'),
    ),
    (
        r'double-quoted scalar: ',
        _at(
            _here,
            r'a backslash begins an escape in double quotes; write \\ or use single quotes',
        ),
    ),
    (r"flow (sequence|mapping): expected ',' or", _bracket),
    (r'mapping values are not allowed', _colon),
    (
        r"could not find expected ':'",
        _at(_opened, "a ':' is missing after this; write 'key: value'"),
    ),
    (r'expected <block end>', _line_up),
    (r"expected '<document start>'", _one_document),
    (r'expected the node content, but found .[\]},]', _STRAY),
    (r'\btag\b', _at(_opened, 'a value that begins with ! is a tag; write text in quotes')),
    (
        r'scanning an (anchor|alias)',
        _at(_opened, 'a value that begins with & or * names an anchor; write text in quotes'),
    ),
    (
        r'scanning a block scalar',
        _at(
            _opened,
            'a block of text begins with | or > and nothing after it; write the text below',
        ),
    ),
)
