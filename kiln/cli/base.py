"""Base classes of the commands: KilnCommand, KilnLister and KilnShow."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cliff.command import Command
from cliff.display import DisplayCommandBase
from cliff.lister import Lister
from cliff.show import ShowOne

from kiln.cli.exit_codes import ExitCode, UsageError, code_of_all

if TYPE_CHECKING:
    from kiln.cli.app import KilnApp
    from kiln.cli.arguments import Adder

Rows = tuple[Sequence[str], Iterable[Any]]


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

    def get_epilog(self) -> str:
        """Return the end of the help; whose plugin a command is takes cliff long to find out."""
        return self._epilog or ''

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser, with the arguments of base classes first."""
        parser = super().get_parser(prog_name)
        for kind in reversed(type(self).__mro__):
            for add in vars(kind).get('arguments', ()):
                add(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        # The output of a command can be read by a program: what the code of a driver or hook
        # prints must not get into it.
        with contextlib.redirect_stdout(self.app.stderr):
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

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Any]
    ) -> int:
        """Print the rows; a table without rows prints nothing, instead of an empty line."""
        rows = list(data)
        if not rows and parsed_args.formatter == 'table' and not parsed_args.print_empty:
            self._generate_columns_and_selector(parsed_args, column_names)
            return 0
        printed: int = super().produce_output(parsed_args, column_names, rows)
        return printed


class KilnShow(_Printed, ShowOne):
    """A command that prints one object, field by field."""
