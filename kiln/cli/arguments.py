"""Base classes, argument types and helpers of the commands."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cliff.command import Command
from cliff.display import DisplayCommandBase
from cliff.lister import Lister
from cliff.show import ShowOne

from kiln.cli.exit_codes import ExitCode, UsageError, code_of_all
from kiln.exceptions import AmphoraComputeError, InstanceNotFoundError

_T = TypeVar('_T')
if TYPE_CHECKING:
    from kiln.cli.app import KilnApp
    from kiln.compute.facade import Compute
    from kiln.models import Amphora
    from kiln.wrappers.operations.operation import Operation

    #: An operation, or the error with which it was refused.
    Started = Operation[_T] | AmphoraComputeError

_Number = TypeVar('_Number', int, float)
Rows = tuple[Sequence[str], Iterable[Any]]
#: Adds arguments to the parser of a command.
Adder = Callable[[argparse._ActionsContainer], object]
_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}


class KilnCommand(Command):
    """A command of kiln that prints its own output."""

    app: KilnApp
    #: The arguments of this class, added after those of its base classes.
    arguments: ClassVar[Sequence[Adder]] = ()
    #: The exit status of a command that printed its output but failed in part.
    status = ExitCode.OK

    def __init__(self, app: KilnApp, app_args: argparse.Namespace | None) -> None:
        # Without the command name, cliff does not search for hook plugins.
        super().__init__(app, app_args)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser, with the arguments of base classes first."""
        parser = super().get_parser(prog_name)
        for kind in reversed(type(self).__mro__):
            for add in vars(kind).get('arguments', ()):
                add(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        return super().run(parsed_args) or self.status

    def write(self, text: str) -> None:
        """Print a text, and add the final newline where it lacks one."""
        self.app.stdout.write(text if text.endswith('\n') or not text else f'{text}\n')

    def write_as(self, formatter: str, *, text: str, data: Any) -> None:
        """Print a text for people, or the same data as JSON."""
        self.write(json.dumps(data, indent=2) if formatter == 'json' else text)

    def settle(self, errors: Collection[BaseException], attempts: int) -> None:
        """Print a line for each error, and set the exit status."""
        for error in errors:
            self.app.complain(error)
        self.status = code_of_all(errors, attempts)


class _Printed(KilnCommand, DisplayCommandBase[Any]):
    """A command whose output cliff formats."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Fit tables into the terminal where stdout is one."""
        parser = super().get_parser(prog_name)
        parser.set_defaults(fit_width=self.app.stdout.isatty())
        return parser

    def _generate_columns_and_selector(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str]
    ) -> tuple[list[str], list[bool] | None]:
        try:
            return super()._generate_columns_and_selector(parsed_args, column_names)
        except ValueError:
            raise UsageError(
                f'Cannot print column {", ".join(parsed_args.columns)}: choose from '
                f'{", ".join(column_names)}.'
            ) from None


class KilnLister(_Printed, Lister):
    """A command that prints a table, or the same rows in another format."""


class KilnShow(_Printed, ShowOne):
    """A command that prints one object, field by field."""


# ---- types of arguments ------------------------------------------------------


def seconds(text: str) -> float:
    """Return a number of seconds above 0, or raise an error for argparse."""
    number = _read(float, text)
    if not 0 < number < float('inf'):
        raise argparse.ArgumentTypeError(f'{text!r} is not a number above 0')
    return number


def whole(text: str) -> int:
    """Return a whole number above 0, or raise an error for argparse."""
    number = _read(int, text)
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is not a whole number above 0')
    return number


def span(text: str) -> float:
    """Return the seconds of a number with a unit, or raise an error for argparse."""
    found = re.fullmatch(r'(\d+(?:\.\d+)?)([smhdw])', text)
    if found is None:
        raise argparse.ArgumentTypeError(f'{text!r} is not a number followed by s, m, h, d or w')
    return float(found[1]) * _UNITS[found[2]]


def _read(kind: type[_Number], text: str) -> _Number:
    try:
        return kind(text)
    except ValueError:
        return kind(0)


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


# ---- arguments ---------------------------------------------------------------


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


# ---- files -------------------------------------------------------------------


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


# ---- amphorae by name or id --------------------------------------------------


def find(compute: Compute, word: str, timeout: float | None = None) -> Amphora:
    """Return the amphora with an id or a name.

    :raises InstanceNotFoundError: no amphora has this id or name.
    :raises AmbiguousInstanceError: several amphorae have this name.
    """
    try:
        return compute.get_amphora(amphora_id=word, timeout=timeout).result()
    except InstanceNotFoundError:
        return compute.get_amphora(amphora_name=word, timeout=timeout).result()


def find_all(
    compute: Compute, words: Sequence[str], timeout: float | None = None
) -> Mapping[str, Amphora | AmphoraComputeError]:
    """Return for each word the amphora with this id or name, or the error of the search."""
    found = gather(
        {word: attempt(compute.get_amphora, amphora_id=word, timeout=timeout) for word in words}
    )
    # Again all at once: only the words that are not ids are searched as names.
    by_name = {
        word: attempt(compute.get_amphora, amphora_name=word, timeout=timeout)
        for word, answer in found.items()
        if isinstance(answer, InstanceNotFoundError)
    }
    return {**found, **gather(by_name)}


def attempt(start: Callable[..., Operation[_T]], *what: Any, **how: Any) -> Started[_T]:
    """Start an operation; return it, or the error with which it was refused."""
    try:
        return start(*what, **how)
    # A full queue or an open circuit; reported for each amphora, like other errors.
    except AmphoraComputeError as exc:
        return exc


def gather(started: Mapping[str, Started[Any]]) -> dict[str, Any]:
    """Wait for operations, and return the result or error of each."""
    return {key: outcome(operation) for key, operation in started.items()}


def outcome(operation: Started[Any]) -> Any:
    """Wait for an operation, and return its result or its error."""
    if isinstance(operation, AmphoraComputeError):
        return operation
    error = operation.exception()
    if error is not None and not isinstance(error, AmphoraComputeError):
        # A defect of kiln, reported like any other exception.
        raise error
    return error or operation.result()
