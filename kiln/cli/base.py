"""What the commands have in common."""

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

if TYPE_CHECKING:
    from kiln.cli.main import KilnApp
    from kiln.compute import Compute
    from kiln.models import Amphora
    from kiln.wrappers.operation import Operation

_Number = TypeVar('_Number', int, float)
Rows = tuple[Sequence[str], Iterable[Any]]
#: Adds arguments to the parser of a command.
Adder = Callable[[argparse.ArgumentParser], object]
_UNITS = {'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}


class KilnCommand(Command):
    """A command of kiln; what it prints, it prints itself."""

    app: KilnApp
    #: The arguments that this class adds to those of its base classes.
    arguments: ClassVar[Sequence[Adder]] = ()
    #: The exit status of a command that printed something and yet failed.
    status = ExitCode.OK

    def __init__(self, app: KilnApp, app_args: argparse.Namespace | None) -> None:
        # Without its name, cliff looks for no plugins that would hook it.
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
        """Print a text, whose last line may lack its end."""
        self.app.stdout.write(text if text.endswith('\n') or not text else f'{text}\n')

    def write_as(self, formatter: str, *, text: str, data: Any) -> None:
        """Print a text for people, or the same as JSON for programs."""
        self.write(json.dumps(data, indent=2) if formatter == 'json' else text)

    def settle(self, errors: Collection[BaseException], attempts: int) -> None:
        """Explain the attempts that failed, and choose the exit status."""
        for error in errors:
            self.app.complain(error)
        self.status = code_of_all(errors, attempts)


class _Printed(KilnCommand, DisplayCommandBase[Any]):
    """A command whose output cliff formats."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Have tables fit into the terminal, if there is one."""
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
    """A command that prints a table, or as much in another format."""


class KilnShow(_Printed, ShowOne):
    """A command that prints one thing, field by field."""


# ---- types of arguments ------------------------------------------------------


def seconds(text: str) -> float:
    """Return a number of seconds above 0, or have argparse refuse it."""
    number = _read(float, text)
    if not 0 < number < float('inf'):
        raise argparse.ArgumentTypeError(f'{text!r} is no number above 0')
    return number


def whole(text: str) -> int:
    """Return a whole number above 0, or have argparse refuse it."""
    number = _read(int, text)
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text!r} is no whole number above 0')
    return number


def span(text: str) -> float:
    """Return the seconds of a number with a unit, or have argparse refuse it."""
    found = re.fullmatch(r'(\d+(?:\.\d+)?)([smhdw])', text)
    if found is None:
        raise argparse.ArgumentTypeError(f'{text!r} is no number with s, m, h, d or w')
    return float(found[1]) * _UNITS[found[2]]


def _read(kind: type[_Number], text: str) -> _Number:
    try:
        return kind(text)
    except ValueError:
        return kind(0)


def pair(text: str) -> tuple[str, str]:
    """Return what stands before and after the first "="."""
    key, sign, value = text.partition('=')
    if not sign or not key:
        raise argparse.ArgumentTypeError(f'{text!r} is not written as KEY=VALUE')
    return key, value


def json_or_text(text: str) -> Any:
    """Return what a text means as JSON, or else the text."""
    try:
        return json.loads(text)
    # Also a number of more digits than Python reads, and text that is nested too deep.
    except (ValueError, RecursionError):
        return text


# ---- arguments ---------------------------------------------------------------


def argument(*names: str, **how: Any) -> Adder:
    """Return an adder of one argument; parameters as of ``ArgumentParser.add_argument``."""
    return lambda parser: parser.add_argument(*names, **how)


_BY_NAME_OR_ID = {
    'metavar': 'NAME_OR_ID',
    'help': 'Name or id of an amphora; an id is tried first.',
}
AMPHORA = argument('amphora', **_BY_NAME_OR_ID)
AMPHORAE = argument('amphorae', nargs='+', **_BY_NAME_OR_ID)
CLUSTER = argument('cluster', metavar='CLUSTER', help='Name or id of the cluster.')
LINES = argument('--lines', type=whole, metavar='N', help='Print the last N lines.')
#: For a command that prints no table.
TEXT_FORMAT = argument(
    '-f',
    '--format',
    dest='formatter',
    choices=('text', 'json'),
    default='text',
    help='the output format, defaults to text',
)
TIMEOUT = argument(
    '--timeout',
    type=seconds,
    metavar='SECONDS',
    help='Seconds that each of it may take (default: as configured for the backend).',
)


# ---- files -------------------------------------------------------------------


def read_file(path: str, max_bytes: int) -> bytes:
    """Return the content of a file, or one byte more than is allowed of it.

    :raises UsageError: it cannot be read.
    """
    try:
        with Path(path).open('rb') as file:
            return file.read(max_bytes + 1)
    except OSError as exc:
        raise UsageError(f'Cannot read {path}: {exc.strerror}.') from exc
    except ValueError as exc:
        # Of a word that no file can be named, Python says so before it asks the system.
        raise UsageError(f'Cannot read {path!r}: {exc}.') from exc


# ---- amphorae by name or id --------------------------------------------------


def find(compute: Compute, word: str, timeout: float | None = None) -> Amphora:
    """Return the amphora that a word names.

    :raises InstanceNotFoundError: neither an id nor a name of any.
    :raises AmbiguousInstanceError: the name of several.
    """
    try:
        return compute.get_amphora(amphora_id=word, timeout=timeout).result()
    except InstanceNotFoundError:
        return compute.get_amphora(amphora_name=word, timeout=timeout).result()


def find_all(
    compute: Compute, words: Sequence[str], timeout: float | None = None
) -> Mapping[str, Amphora | AmphoraComputeError]:
    """Return for each word the amphora that it names, or why none was found."""
    found = gather({word: _ask(compute, timeout, amphora_id=word) for word in words})
    # All at once again: the second question is only about those that are left.
    by_name = {
        word: _ask(compute, timeout, amphora_name=word)
        for word, answer in found.items()
        if isinstance(answer, InstanceNotFoundError)
    }
    return {**found, **gather(by_name)}


def gather(
    asked: Mapping[str, Operation[Any] | AmphoraComputeError],
) -> dict[str, Any]:
    """Wait for operations; return for each its result or its error."""
    return {key: outcome(operation) for key, operation in asked.items()}


def outcome(operation: Operation[Any] | AmphoraComputeError) -> Any:
    """Wait for an operation; return its result, or its error as a value."""
    if isinstance(operation, AmphoraComputeError):
        return operation
    error = operation.exception()
    if error is not None and not isinstance(error, AmphoraComputeError):
        # A defect, not an answer: it goes the way of all defects.
        raise error
    return error or operation.result()


def _ask(
    compute: Compute, timeout: float | None, **subject: str
) -> Operation[Amphora] | AmphoraComputeError:
    try:
        return compute.get_amphora(**subject, timeout=timeout)
    # A full queue or an open circuit; said for each, as for all other errors.
    except AmphoraComputeError as exc:
        return exc
