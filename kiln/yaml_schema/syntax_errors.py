"""YAML syntax errors of PyYAML, explained for the author of the file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A syntax error of the YAML parser; lines and columns from 0."""

    problem: str
    line: int
    column: int
    #: The construct that was being parsed, and its beginning.
    context: str = ''
    context_line: int = 0
    context_column: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """Explanation of a syntax error, with line and column from 0."""

    message: str
    line: int
    column: int


def advice(complaint: Complaint, lines: Sequence[str]) -> Advice:
    """Return an explanation of a syntax error, at the position of the mistake.

    The mistake is often above the position that the parser reports.
    """
    for pattern, answer in _ANSWERS:
        if re.search(pattern, f'{complaint.context}: {complaint.problem}'):
            return answer(complaint, lines)
    return _here(complaint, f'this is not YAML: {complaint.problem}')


def _here(complaint: Complaint, message: str) -> Advice:
    return Advice(message, complaint.line, complaint.column)


def _opened(complaint: Complaint, message: str) -> Advice:
    return Advice(message, complaint.context_line, complaint.context_column)


def _tab(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _here(complaint, 'the line is indented with a tab; write spaces')


def _sign(complaint: Complaint, lines: Sequence[str]) -> Advice:
    sign = lines[complaint.line][complaint.column]
    return _here(complaint, f'text cannot begin with {sign} in YAML; write it in quotes')


def _quote(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _opened(complaint, 'the quote opened here is not closed; add the closing quote')


def _escape(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _here(
        complaint,
        r'a backslash begins an escape in double quotes; write \\ or use single quotes',
    )


def _bracket(complaint: Complaint, _: Sequence[str]) -> Advice:
    sign = complaint.problem.partition(' or ')[2][1]
    return _opened(
        complaint,
        f'the bracket opened here is not closed; write {sign} at its end and , between its items',
    )


def _stray(complaint: Complaint, lines: Sequence[str]) -> Advice:
    sign = lines[complaint.line][complaint.column]
    return _here(complaint, f'{sign} closes nothing here; remove it, or write text in quotes')


def _colon(complaint: Complaint, lines: Sequence[str]) -> Advice:
    """Distinguish the four mistakes that the parser reports as an unexpected colon."""
    line = lines[complaint.line]
    above = complaint.line - 1
    while above > 0 and not lines[above].strip():
        above -= 1
    if above < 0 or re.search(r':\s', line[: complaint.column]):
        return _here(
            complaint,
            "there is a second ': ' in this line; begin a new line, or write text in quotes",
        )
    before = lines[above]
    glued = re.match(r'\s*(?:- +)*[\w-]+:(?=\S)', before)
    if glued:
        return Advice("a space is missing after ':'; write 'key: value'", above, glued.end() - 1)
    if _indent(line) > _indent(before) and re.search(r':\s+\S', before):
        return Advice(
            'this line is indented below a line that already has a value; align it with that line',
            complaint.line,
            _indent(line),
        )
    return Advice("a ':' is missing in this line; write 'key: value'", above, _indent(before))


def _no_colon(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _opened(complaint, "a ':' is missing after this; write 'key: value'")


def _line_up(complaint: Complaint, lines: Sequence[str]) -> Advice:
    if lines[complaint.line][complaint.column :].startswith((']', '}')):
        return _stray(complaint, lines)
    if complaint.column > _indent(lines[complaint.line]):
        return _here(
            complaint, 'text follows the end of the value; write all of it in one pair of quotes'
        )
    what = 'item' if lines[complaint.line].lstrip().startswith('-') else 'key'
    return _here(
        complaint,
        f'the indentation does not match the lines above; align the {what} with the {what}s it '
        f'belongs to',
    )


def _one_document(complaint: Complaint, lines: Sequence[str]) -> Advice:
    if lines[complaint.line][complaint.column :].startswith((']', '}')):
        return _stray(complaint, lines)
    for line in (complaint.line, complaint.line - 1):
        if line >= 0 and lines[line].startswith('%'):
            return Advice(_DIRECTIVE, line, 0)
    return _here(
        complaint,
        'the document ended before this; write --- on a separate line between two documents',
    )


_DIRECTIVE = 'a line that begins with % is not supported; remove it'


def _directive(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _here(complaint, _DIRECTIVE)


def _tag(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _opened(complaint, 'a value that begins with ! is a tag; write text in quotes')


def _anchor(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _opened(
        complaint, 'a value that begins with & or * names an anchor; write text in quotes'
    )


def _block(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _opened(
        complaint, 'a block of text begins with | or > and nothing after it; write the text below'
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(' '))


#: Explanations by pattern; the first pattern that matches is used.
_ANSWERS: tuple[tuple[str, Callable[[Complaint, Sequence[str]], Advice]], ...] = (
    (r"character '\\t'|tab", _tab),
    (r'directive|incompatible YAML', _directive),
    (r'character .* that cannot start any token', _sign),
    (r'quoted scalar: (found unexpected (end of stream|document separator))', _quote),
    (r'double-quoted scalar: ', _escape),
    (r"flow (sequence|mapping): expected ',' or", _bracket),
    (r'mapping values are not allowed', _colon),
    (r"could not find expected ':'", _no_colon),
    (r'expected <block end>', _line_up),
    (r"expected '<document start>'", _one_document),
    (r'expected the node content, but found .[\]},]', _stray),
    (r'\btag\b', _tag),
    (r'scanning an (anchor|alias)', _anchor),
    (r'scanning a block scalar', _block),
)
