"""Commands that look and change nothing."""

from __future__ import annotations

import argparse
import json

from kiln.cli.base import (
    KilnCommand,
    KilnLister,
    KilnShow,
    Rows,
    add_names,
    add_text_format,
    add_timeout,
    find,
    whole,
)
from kiln.cli.exit_codes import ExitCode
from kiln.cli.views import BRIEF, COLUMNS, amphora_fields, cells, fields, status_fields


class List(KilnLister):
    """List the amphorae of this site.

    The columns of --long are there in JSON and YAML without asking.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--owner', help='List what carries this tag instead of our own.')
        parser.add_argument('--long', action='store_true', help='Print all columns.')
        add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Ask, and make rows of the answer."""
        with self.app.open_backend() as compute:
            listed = compute.list_amphorae(owner=parsed_args.owner, timeout=parsed_args.timeout)
            found = [amphora_fields(amphora) for amphora in listed.result()]
        everything = (
            parsed_args.long or parsed_args.columns or parsed_args.formatter in ('json', 'yaml')
        )
        columns = COLUMNS if everything else BRIEF
        return columns, [cells([one[column] for column in columns]) for one in found]


class Show(KilnShow):
    """Show all that is known of an amphora."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_names(parser)
        add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Find it."""
        with self.app.open_backend() as compute:
            return fields(amphora_fields(find(compute, parsed_args.amphora, parsed_args.timeout)))


class Status(KilnShow):
    """Ask for the state of an amphora now."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_names(parser)
        add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Find it, and ask."""
        with self.app.open_backend() as compute:
            amphora = find(compute, parsed_args.amphora, parsed_args.timeout)
            status = compute.status(amphora.id, timeout=parsed_args.timeout).result()
        return fields(status_fields(status, amphora.name))


class Console(KilnCommand):
    """Print what an amphora wrote on its console."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_names(parser)
        parser.add_argument('--lines', type=whole, metavar='N', help='Print the last N lines.')
        add_text_format(parser)
        add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ask, and print."""
        with self.app.open_backend() as compute:
            amphora = find(compute, parsed_args.amphora, parsed_args.timeout)
            asked = compute.console_log(
                amphora.id, lines=parsed_args.lines, timeout=parsed_args.timeout
            )
            text = asked.result()
        if parsed_args.formatter == 'json':
            text = json.dumps({'id': amphora.id, 'name': amphora.name, 'console': text}, indent=2)
        self.app.stdout.write(text if text.endswith('\n') or not text else f'{text}\n')


class Check(KilnShow):
    """Look whether the backend can be used, and what it can do."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add_timeout(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Ask; a backend that is not well is a failure of the command."""
        with self.app.open_backend() as compute:
            health = compute.check(timeout=parsed_args.timeout).result()
            abilities = sorted(ability.value for ability in compute.capabilities().abilities)
        if not health.healthy:
            self.status = ExitCode.UNAVAILABLE
        return fields(
            {
                'backend': self.app.backend_name,
                'healthy': health.healthy,
                'detail': health.detail,
                'latency_s': round(health.latency_s, 6),
                'abilities': abilities,
            }
        )
