"""Plain words: finds the phrases that the glossary of CONTRIBUTING.rst replaces.

``python -m tools.plain_words [PATH ...]`` looks through comments, docstrings, messages and
documents, prints each hit with what to write instead, and fails where there is one.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

#: What is looked for, and what to write instead.
PATTERNS = (
    (r'(?:^|[.:;!?(] |\b(?:for|by|of|to|from|with|and|or|than|as|if|but) )[Ww]ho\b',
     'name the person or the part: "the caller that", "callers"'),
    (r'\b[Ww]hoever\b', 'name the person or the part'),
    (r'\b(?:is|are|was|were|be) no (?!longer|more\b|such\b)[a-z]', 'write "is not a ..."'),
    (r'\b(?:is|are|was|were) none\b', 'write "there is no ..." or "does not exist"'),
    (r'\banew\b', 'write "again"'),
    (r'(?:^|[.:;!?] )Of (?!course)', 'begin with the subject: "Deleted servers are ..."'),
)  # fmt: skip
_FOUND = [(re.compile(pattern), instead) for pattern, instead in PATTERNS]
#: Where people read what is written here.
PLACES = ('kiln', 'tools', 'tests', 'doc', 'README.rst', 'CONTRIBUTING.rst', 'releasenotes')
_SUFFIXES = ('.py', '.rst', '.yaml', '.tmpl')


def texts(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of prose of a file with their numbers; of Python, no code."""
    source = path.read_text()
    if path.suffix != '.py':
        yield from enumerate(source.splitlines(), 1)
        return
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, 'FSTRING_MIDDLE', None)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield number, line.strip(' #:\'"frb')


def hits(path: pathlib.Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and advice for each phrase of a file that is to be replaced."""
    for number, line in texts(path):
        for pattern, instead in _FOUND:
            for found in pattern.finditer(line):
                yield number, found.group().strip(' .:;!?('), instead


def files(places: list[str]) -> Iterator[pathlib.Path]:
    """Yield the files below some places, in their order."""
    for place in map(pathlib.Path, places):
        for path in sorted(place.rglob('*')) if place.is_dir() else [place]:
            if path.suffix in _SUFFIXES and path.is_file() and path.name != 'plain_words.py':
                yield path


def main(arguments: list[str] | None = None) -> int:
    """Look, print, and return 1 where something was found."""
    parser = argparse.ArgumentParser(prog='python -m tools.plain_words', description=__doc__)
    parser.add_argument('place', nargs='*', default=PLACES)
    found = 0
    for path in files(list(parser.parse_args(arguments).place)):
        for number, phrase, instead in hits(path):
            found += 1
            print(f'{path}:{number}: {phrase!r}: {instead}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
