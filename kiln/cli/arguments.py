"""Arguments of the commands: their types, and adders of them to a parser."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kiln.cli.exit_codes import UsageError

_Number = TypeVar('_Number', int, float)
#: Adds arguments to the parser of a command.
Adder = Callable[[argparse._ActionsContainer], object]
_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}


def seconds(text: str) -> float:
    """Return a number of seconds above 0, a year at most, or raise an error for argparse."""
    # The bound of every call; argparse needs no module of kiln otherwise.
    from kiln.compute_drivers.validation import MAX_TIMEOUT_S

    found = _above_0(float, text, 'number')
    if found > MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f'{text!r} is more than a year')
    return found


def whole(text: str) -> int:
    """Return a whole number above 0, or raise an error for argparse."""
    return _above_0(int, text, 'whole number')


def count(text: str) -> int:
    """Return a whole number from 0, or raise an error for argparse."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise argparse.ArgumentTypeError(f'{text!r} is not a whole number from 0')
    return int(text)


def span(text: str) -> float:
    """Return the seconds of a number with a unit, or raise an error for argparse."""
    found = re.fullmatch(r'(\d+(?:\.\d+)?)([smhdw])', text)
    if found is None:
        raise argparse.ArgumentTypeError(f'{text!r} is not a number followed by s, m, h, d or w')
    return float(found[1]) * _UNITS[found[2]]


def _above_0(kind: type[_Number], text: str, words: str) -> _Number:
    with contextlib.suppress(ValueError):
        number = kind(text)
        if 0 < number < float('inf'):
            return number
    raise argparse.ArgumentTypeError(f'{text!r} is not a {words} above 0')


def pair(text: str) -> tuple[str, str]:
    """Return the texts before and after the first "="."""
    key, sign, value = text.partition('=')
    if not sign or not key:
        raise argparse.ArgumentTypeError(f'{text!r} is not written as KEY=VALUE')
    return key, value


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text, or the text itself where it is not JSON."""
    try:
        return json.loads(text)
    # Also a number with too many digits for Python, and too deeply nested text.
    except (ValueError, RecursionError):
        return text


def argument(*names: str, **how: Any) -> Adder:
    """Return an adder of one argument; takes what ``ArgumentParser.add_argument`` takes."""
    return lambda parser: parser.add_argument(*names, **how)


def flag(name: str, text: str) -> Adder:
    """Return an adder of an option without a value."""
    return argument(name, action='store_true', help=text)


def repeated(name: str, metavar: str, text: str, **how: Any) -> Adder:
    """Return an adder of an option that can be repeated; its values are a list."""
    return argument(name, action='append', default=[], metavar=metavar, help=text, **how)


def group(title: str, *adders: Adder) -> Adder:
    """Return an adder of arguments that the help shows under a title."""

    def add_all(parser: argparse._ActionsContainer) -> None:
        shown = parser.add_argument_group(title)
        for add in adders:
            add(shown)

    return add_all


_BY_NAME_OR_ID = {
    'metavar': 'NAME_OR_ID',
    'help': 'Name or id of an amphora; an id is tried first.',
}
AMPHORA = argument('amphora', **_BY_NAME_OR_ID)
AMPHORAE = argument('amphorae', nargs='+', **_BY_NAME_OR_ID)
CLUSTER = argument('cluster', metavar='CLUSTER', help='Name or id of the cluster.')
LINES = argument('--lines', type=whole, metavar='N', help='Print only the last N lines.')
#: For commands without a table.
TEXT_FORMAT = argument(
    '-f',
    '--format',
    dest='formatter',
    choices=('text', 'json'),
    default='text',
    help='Output format (default: text).',
)
TIMEOUT = argument(
    '--timeout',
    type=seconds,
    metavar='SECONDS',
    help='Time limit of each operation (default: as configured for the backend).',
)


def read_file(path: str, max_bytes: int) -> bytes:
    """Return the content of a file, but at most ``max_bytes`` + 1 bytes of it.

    :raises UsageError: the file cannot be read.
    """
    try:
        with Path(path).open('rb') as file:
            return file.read(max_bytes + 1)
    except OSError as exc:
        raise UsageError(f'Cannot read {path}: {exc.strerror}.') from exc
    except ValueError as exc:
        # A name that no file can have, such as one with a null byte.
        raise UsageError(f'Cannot read {path!r}: {exc}.') from exc
