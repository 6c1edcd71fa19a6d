"""What the commands take, read off their parsers: the source of shell completion."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

#: What a value is by where it goes; the shell asks kiln for those at run time.
NAMES = ('cluster', 'group', 'node', 'template', 'backend')
_BY_DEST = {name: name for name in NAMES} | {'nodes': 'node', 'remove': 'node', 'size': 'size'}
_BY_METAVAR = {'FILE': 'file', 'FILE|NAME': 'file', 'PATH': 'file', 'DIR': 'directory'}
#: A value of which nothing is known but that there is one.
ANY = 'any'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """What may stand at one place."""

    #: One of ``NAMES``, or size, file, directory, any.
    kind: str = ANY
    #: All there is to choose from, where that is known.
    words: tuple[str, ...] = ()
    #: Whether more of the kind may follow.
    repeated: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """An option, under all its names."""

    names: tuple[str, ...]
    help: str
    #: None for one that takes no value.
    value: Value | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CommandShape:
    """One command, or the beginning of some; that of all of them is empty."""

    words: tuple[str, ...]
    help: str = ''
    options: tuple[Option, ...] = ()
    places: tuple[Value, ...] = ()
    #: The words that may come next, with what each is for.
    next: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        """The words, in one."""
        return ' '.join(self.words)


def command_tree(
    top: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]
) -> tuple[CommandShape, ...]:
    """Return the shape of each command by its words, and of each beginning of some."""
    shapes = {'': _shape((), top)}
    shapes |= {name: _shape(tuple(name.split()), parser) for name, parser in commands.items()}
    following: dict[str, dict[str, str]] = {}
    for _, shape in sorted(shapes.items()):
        for count in range(len(shape.words)):
            before, word = ' '.join(shape.words[:count]), shape.words[count]
            last = count == len(shape.words) - 1
            following.setdefault(before, {}).setdefault(word, '')
            if last:
                following[before][word] = shape.help
    for name, words in following.items():
        found = shapes.get(name, CommandShape(words=tuple(name.split())))
        shapes[name] = dataclasses.replace(found, next=MappingProxyType(words))
    return tuple(shape for _, shape in sorted(shapes.items()))


def _shape(words: tuple[str, ...], parser: argparse.ArgumentParser) -> CommandShape:
    actions: Iterable[argparse.Action] = parser._actions
    shown = [action for action in actions if action.help != argparse.SUPPRESS]
    places = [action for action in shown if not action.option_strings]
    of_cluster = any(action.dest == 'cluster' for action in places) or not words
    return CommandShape(
        words=words,
        help=_first_line(parser.description),
        options=tuple(
            Option(
                names=tuple(action.option_strings),
                help=_first_line(action.help),
                value=None if action.nargs == 0 else _value(action, of_cluster=of_cluster),
            )
            for action in shown
            if action.option_strings
        ),
        places=tuple(_value(action, of_cluster=True) for action in places),
    )


def _value(action: argparse.Action, *, of_cluster: bool) -> Value:
    repeated = action.nargs in ('*', '+')
    if action.choices is not None:
        return Value(words=tuple(map(str, action.choices)), repeated=repeated)
    by_place = _BY_METAVAR.get(str(action.metavar))
    # Only where a cluster is named there are groups and nodes to choose from.
    if by_place is None and of_cluster:
        by_place = _BY_DEST.get(action.dest)
    return Value(kind=by_place or ANY, repeated=repeated)


def _first_line(text: str | None) -> str:
    line = ' '.join((text or '').split('\n\n')[0].split())
    # What argparse would fill in stands for nothing here.
    return line.replace('%(', '(').replace('%%', '%')
