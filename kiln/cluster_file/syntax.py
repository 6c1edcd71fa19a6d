"""What PyYAML says of a text that is no YAML, in the words of who wrote it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What a parser of YAML objects to; lines and columns from 0."""

    problem: str
    line: int
    column: int
    #: What it was reading, and where that begins.
    context: str = ''
    context_line: int = 0
    context_column: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """What is wrong with the syntax, and the place to look at; from 0."""

    message: str
    line: int
    column: int


def advice(complaint: Complaint, lines: Sequence[str]) -> Advice:
    """Return the complaint in plain words, and where the mistake was made.

    That is often above the place at which the parser could not go on.
    """
    for pattern, answer in _ANSWERS:
        if re.search(pattern, f'{complaint.context}: {complaint.problem}'):
            return answer(complaint, lines)
    return _here(complaint, f'this is no YAML: {complaint.problem}')


def _here(complaint: Complaint, message: str) -> Advice:
    return Advice(message, complaint.line, complaint.column)


def _opened(complaint: Complaint, message: str) -> Advice:
    return Advice(message, complaint.context_line, complaint.context_column)


def _tab(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _here(complaint, 'a tab stands where a line is indented; write spaces')


def _sign(complaint: Complaint, lines: Sequence[str]) -> Advice:
    sign = lines[complaint.line][complaint.column]
    return _here(complaint, f'text cannot begin with {sign} in YAML; write it in quotes')


def _quote(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _opened(complaint, 'the quote that opens here is not closed; write it at both ends')


def _escape(complaint: Complaint, _: Sequence[str]) -> Advice:
    return _here(
        complaint,
        r'a backslash begins an escape between double quotes; write \\ or use single quotes',
    )


def _bracket(complaint: Complaint, _: Sequence[str]) -> Advice:
    sign = complaint.problem.partition(' or ')[2][1]
    return _opened(
        complaint,
        f'what opens here is not closed; write {sign} at its end, and , between its parts',
    )


def _stray(complaint: Complaint, lines: Sequence[str]) -> Advice:
    sign = lines[complaint.line][complaint.column]
    return _here(complaint, f'{sign} closes nothing here; take it out, or write text in quotes')


def _colon(complaint: Complaint, lines: Sequence[str]) -> Advice:
    """Tell the four mistakes apart that end in one colon too many."""
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
            'this line is further to the right than the one above, which has its value; '
            'begin it below that one',
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
            complaint, 'something follows what ends here; write all of it in one pair of quotes'
        )
    what = 'item' if lines[complaint.line].lstrip().startswith('-') else 'key'
    return _here(
        complaint,
        f'this line does not fit what is above it; write the {what} below the first letter of '
        f'those it belongs to',
    )


def _one_document(complaint: Complaint, lines: Sequence[str]) -> Advice:
    if lines[complaint.line][complaint.column :].startswith((']', '}')):
        return _stray(complaint, lines)
    for line in (complaint.line, complaint.line - 1):
        if line >= 0 and lines[line].startswith('%'):
            return Advice(_DIRECTIVE, line, 0)
    return _here(
        complaint, 'the document has ended before this; write --- in a line of its own between two'
    )


_DIRECTIVE = 'a line that begins with % has no meaning here; take it out'


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
        complaint, 'a block of text begins with | or > and nothing behind it; write its text below'
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(' '))


#: By what is in the complaint; the first that fits counts.
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
