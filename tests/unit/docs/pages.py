"""The examples of README and of the documentation: each block, with its language and its place."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[3]
PAGES = (
    ROOT / 'README.rst',
    *sorted(
        page for part in ('source', 'examples') for page in (ROOT / 'doc' / part).rglob('*.rst')
    ),
)

_LANGUAGE = re.compile(r'( *)\.\. code-block:: *(\S+)\s*$')
_COMMENT = re.compile(r' *\.\. ')
#: What the first line of a block without a language tells about it.
_SIGNS = {
    'console': r'[$#] |kiln |pip |make ',
    'ini': r'\[\S+\]$',
    'yaml': r'(?!kiln: )(- )?[a-z_]+:( |$)',
    'python': r'with .+:$|(from \S+ )?import ',
}


@dataclasses.dataclass(frozen=True)
class Block:
    """An example of a page, without its indent."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f'{self.page}:{self.line}'


def blocks(language: str | None = None) -> list[Block]:
    """Return the examples of all pages, or those in one language."""
    every = [block for page in PAGES for block in blocks_of(_name(page), page.read_text())]
    return [block for block in every if language in (None, block.language)]


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Yield the examples of a page."""
    lines, at = text.splitlines(), 0
    while at < len(lines):
        opening, at = lines[at], at + 1
        named = _LANGUAGE.match(opening)
        if not named and (not opening.endswith('::') or _COMMENT.match(opening)):
            continue
        outside, first = len(opening) - len(opening.lstrip()), at
        block: list[str] = []
        while at < len(lines) and (not lines[at] or _indent(lines[at]) > outside):
            block.append(lines[at])
            at += 1
        shown = _body(block)
        if shown.strip():
            line = (
                first + 1 + next(n for n, one in enumerate(block) if one and one.strip()[0] != ':')
            )
            yield Block(page, line, named[2] if named else _guess(shown), shown)


def _name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT)).removeprefix('doc/source/')


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _body(block: list[str]) -> str:
    while block and (not block[0] or re.match(r' +:[a-z]+:', block[0])):
        block = block[1:]
    least = min((_indent(line) for line in block if line), default=0)
    return '\n'.join(line[least:] for line in block).strip('\n') + '\n'


def _guess(text: str) -> str:
    for language, sign in _SIGNS.items():
        if re.match(sign, text, re.MULTILINE):
            return language
    return 'text'
