"""Parser of a guide: files to write, commands to run, and their output."""

import dataclasses
import re
from collections.abc import Iterator

#: Omissions within a line or of lines, and text that differs in each run: ids, seconds.
_FREE = {
    r'\.\.\.': r'.*?',
    r'kit-[0-9a-f]{8}-[0-9a-f]{8}': r'kit-[0-9a-f]{8}-[0-9a-f]{8}',
    r'\d+\.\d+ ?s\b': r'\d+\.\d+ ?s',
}
_FREE_WORD = re.compile('|'.join(f'({word})' for word in _FREE))
_CAPTION = ':caption: '


@dataclasses.dataclass
class File:
    """A file to write, named by the caption of its block."""

    name: str
    text: str


@dataclasses.dataclass
class Command:
    """A command to run, and the lines of its output that the guide shows."""

    line: str
    shown: list[str] = dataclasses.field(default_factory=list)

    @property
    def status(self) -> int:
        """The expected exit status: 1 if the shown output has a failure."""
        return 1 if any(line.lstrip().startswith('FAIL') for line in self.shown) else 0

    def fits(self, printed: str) -> bool:
        """Return True if the output matches the shown lines, except for ids and times."""
        pattern = ''.join(map(_pattern, self.shown))
        lines = [line.rstrip() for line in printed.strip('\n').splitlines()]
        return not self.shown or bool(re.fullmatch(pattern, '\n'.join([*lines, ''])))


def steps_of(text: str) -> Iterator[File | Command]:
    """Yield the files and commands of a guide, in their order."""
    for directive, block in _blocks(text):
        if block[0].startswith('$ '):
            yield from _commands(block)
        elif directive.startswith('.. code-block::') and block[0].startswith(_CAPTION):
            yield File(block[0].removeprefix(_CAPTION), '\n'.join(block[2:]) + '\n')


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each indented block, without its indent, and the line before it."""
    lines, at = text.splitlines(), 0
    while at < len(lines):
        opening = lines[at]
        at += 1
        if not (opening.endswith('::') or opening.startswith('.. code-block::')):
            continue
        block: list[str] = []
        while at < len(lines) and (not lines[at] or lines[at].startswith('   ')):
            block.append(lines[at])
            at += 1
        while block and not block[0]:
            del block[0]
        while block and not block[-1]:
            del block[-1]
        if block:
            indent = len(block[0]) - len(block[0].lstrip())
            yield opening, [line[indent:] for line in block]


def _commands(block: list[str]) -> Iterator[Command]:
    command = None
    for line in block:
        if not line.startswith('$ '):
            assert command is not None
            command.shown.append(line)
            continue
        if command is not None:
            yield command
        command = Command(line.removeprefix('$ '))
    if command is not None:
        yield command


def _pattern(line: str) -> str:
    if line == '...':
        return r'(?:.*\n)*?'
    found, at = '', 0
    for word in _FREE_WORD.finditer(line):
        free = list(_FREE.values())[(word.lastindex or 0) - 1]
        found += re.escape(line[at : word.start()]) + free
        at = word.end()
    return found + re.escape(line[at:].rstrip()) + r'\n'
