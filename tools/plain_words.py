"""Finds the phrases that the glossary of CONTRIBUTING.rst replaces.

``python -m tools.plain_words [PATH ...]`` searches comments, docstrings, messages and
documents, prints each hit with the words to write instead, and fails if it finds one.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

#: Regular expressions of phrases, each with the advice that is printed.
PATTERNS = (
    (r'(?:^|[.:;!?(] |\b(?:for|by|of|to|from|with|and|or|than|as|if|but) )[Ww]ho\b',
     'name the person or the part: "the caller that", "callers"'),
    (r'\b[Ww]hoever\b', 'name the person or the part'),
    (r'\b(?<![Tt]here )(?:is|are|was|were|be) no (?!longer|more\b|such\b)[a-z]',
     'write "is not a ..."'),
    (r'\b(?:is|are|was|were) none\b', 'write "there is no ..." or "does not exist"'),
    (r'\banew\b', 'write "again"'),
    (r'(?:^|[.:;!?] )Of (?!course)', 'begin with the subject: "Deleted servers are ..."'),
)  # fmt: skip
_FOUND = [(re.compile(pattern), instead) for pattern, instead in PATTERNS]
#: The files and folders searched by default.
PLACES = ('kiln', 'tools', 'tests', 'doc', 'README.rst', 'CONTRIBUTING.rst', 'releasenotes')
_SUFFIXES = ('.py', '.rst', '.yaml', '.tmpl')


def texts(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of prose of a file; Python code is left out."""
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
    """Yield line number, phrase and advice for each hit in a file."""
    for number, line in texts(path):
        for pattern, instead in _FOUND:
            for found in pattern.finditer(line):
                yield number, found.group().strip(' .:;!?('), instead


def files(places: list[str]) -> Iterator[pathlib.Path]:
    """Yield the text files below the places, without this tool and its test."""
    for place in map(pathlib.Path, places):
        for path in sorted(place.rglob('*')) if place.is_dir() else [place]:
            if (
                path.suffix in _SUFFIXES
                and path.is_file()
                and not path.name.endswith('plain_words.py')
            ):
                yield path


def main(arguments: list[str] | None = None) -> int:
    """Print the hits; return 1 if there are any."""
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
