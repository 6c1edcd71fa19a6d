"""Table of the compute contract: each sentence, what shows it, and wrong drivers.

``python -m tools.contract_table`` prints the table; the reference of the documentation has
it too. The sentences are read from the docstrings and comments of the contract and from the
guide, and ``tests/conformance/contract.toml`` has, for each sentence, the wrong drivers of
the zoo that break it, or the reason why no driver can break it. What shows a sentence is
what catches these drivers. ``--missing`` prints empty rows for sentences without one.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import pathlib
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[1]
ROWS = ROOT / 'tests/conformance/contract.toml'
GUIDE = ROOT / 'doc/source/contributor/writing-a-driver.rst'
#: Sections of the guide that state what a driver must do; the others are commands to run.
SECTIONS = ('The five members', 'Map errors', 'Add abilities', 'Let operators configure it')
#: Modules of the contract, with the members that are part of it; None is the whole module.
MODULES: Mapping[str, Sequence[str] | None] = {
    'kiln/compute_drivers/base.py': None,
    'kiln/compute_drivers/hooks.py': None,
    'kiln/compute_drivers/authoring/adoption.py': None,
    'kiln/models.py': (
        'State', 'BuildRequest', 'Address', 'ComputeStatus', 'Amphora', 'Changes', 'Attachment',
        'ServerGroup', 'Resource', 'Limits', 'ImageFacts', 'DriverHealth',
    ),
}  # fmt: skip

#: The end of a sentence; the next one begins with a capital letter or a name.
_END = re.compile(r'(?<=[.!?])\s+(?=[A-Z`*:]|kiln )')
_COMMENT = re.compile(r'\s*#:? ?(.*)')

#: For each place, its sentences and the drivers that break them, or why none can.
Rows = Mapping[str, Mapping[str, list[str] | str]]


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table."""

    place: str
    sentence: str
    behaviours: tuple[str, ...] = ()
    wrong_drivers: tuple[str, ...] = ()
    reason: str = ''


def rows() -> Rows:
    """Return the rows as they are written down."""
    written: Rows = tomllib.loads(ROWS.read_text())
    return written


def sentences() -> dict[str, list[str]]:
    """Return the sentences of the contract, by the place where they stand."""
    found: dict[str, list[str]] = {}
    for path, members in MODULES.items():
        for place, text in _texts(ROOT / path):
            if members is None or place.partition('.')[0] in members:
                found.setdefault(place, []).extend(split(text))
    for title in SECTIONS:
        found[f'guide: {title}'] = list(guide_sentences(GUIDE.read_text(), title))
    return {place: said for place, said in found.items() if said}


def split(text: str) -> list[str]:
    """Return the sentences of a docstring or comment, each on one line."""
    said = []
    for block in re.split(r'\n\s*\n|\n(?=\s*(?::raises|- ))', text.strip()):
        line = ' '.join(block.split()).removeprefix('- ')
        # What was raised and why is one sentence.
        said += [line] if line.startswith(':raises') else _END.split(line)
    return [one for one in said if one]


def guide_sentences(text: str, title: str) -> Iterator[str]:
    """Yield the sentences of a section; tables and programs only repeat what they say."""
    section = re.split(rf'^{re.escape(title)}\n=+\n', text, flags=re.MULTILINE)[1]
    section = re.split(r'\n[^\n]+\n={4,}\n\n', section)[0]
    program = False
    for block in re.split(r'\n\s*\n', section.strip('\n')):
        indented = block.startswith(' ')
        program = program and indented
        if program or block.startswith(('.. ', '===')):
            program = program or block.startswith('.. code')
            continue
        term, _, body = block.partition('\n')
        # A definition is a sentence about its term, which has no full stop.
        yield from split(f'{term}: {body}' if body.startswith('  ') and not indented else block)
        program = block.rstrip().endswith('::')


def _texts(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yield the docstrings and comments of a module, with the names that they describe."""
    source = path.read_text()
    module = ast.parse(source)
    yield f'{path.stem}.py', ast.get_docstring(module) or ''
    lines = source.splitlines()
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield from _texts_of_class(node, lines)
        elif isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_docstring(node) or ''


def _texts_of_class(node: ast.ClassDef, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield node.name, ast.get_docstring(node) or ''
    for member in node.body:
        match member:
            case ast.FunctionDef(name=name):
                yield f'{node.name}.{name}', ast.get_docstring(member) or ''
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield f'{node.name}.{name}', _comment_above(member.lineno, lines)


def _comment_above(number: int, lines: Sequence[str]) -> str:
    above: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not (comment := _COMMENT.fullmatch(line)) or '# ----' in line:
            break
        above.insert(0, comment[1])
    return '\n'.join(above)


def table() -> Iterator[Row]:
    """Yield the rows of the table, in the order of the contract."""
    # The zoo is made of kiln's own drivers; a mere list of sentences does not need them.
    from tests.kit.zoo import ZOO

    catching = {animal.__name__: behaviours for animal, behaviours in ZOO.items()}
    written = rows()
    for place, said in sentences().items():
        for sentence in said:
            has = written.get(place, {}).get(sentence, [])
            if isinstance(has, str):
                yield Row(place, sentence, reason=has)
                continue
            behaviours = sorted({one for name in has for one in catching.get(name, ())})
            yield Row(place, sentence, tuple(behaviours), tuple(has))


def missing() -> Iterator[str]:
    """Yield empty rows, as text, for all sentences that are not written down."""
    written = rows()
    for place, said in sentences().items():
        lacking = [one for one in said if one not in written.get(place, {})]
        if lacking:
            yield f'[{json.dumps(place, ensure_ascii=False)}]'
            yield from (f'{json.dumps(one, ensure_ascii=False)} = []' for one in lacking)
            yield ''


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or what is missing from it."""
    parser = argparse.ArgumentParser(prog='python -m tools.contract_table', description=__doc__)
    parser.add_argument('--missing', action='store_true')
    if parser.parse_args(arguments).missing:
        print('\n'.join(missing()))
        return 0
    place = ''
    for row in table():
        if row.place != place:
            place = row.place
            print(f'\n{place}')
        print(textwrap.fill(row.sentence, 96, initial_indent='  ', subsequent_indent='    '))
        for behaviour in row.behaviours:
            print(f'      shown by   {behaviour.removeprefix("test_").replace("_", " ")}')
        for name in row.wrong_drivers:
            print(f'      broken by  {name}')
        if row.reason:
            print(f'      no claim   {row.reason}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
