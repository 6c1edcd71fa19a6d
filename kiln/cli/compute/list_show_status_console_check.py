"""Read-only commands about amphorae: list, show, status, console, check."""

from __future__ import annotations

import argparse
import textwrap

from kiln.cli.arguments import AMPHORA, LINES, TEXT_FORMAT, TIMEOUT, argument, flag, seconds
from kiln.cli.base import KilnCommand, KilnLister, KilnShow, Rows
from kiln.cli.compute.calls import find
from kiln.cli.exit_codes import ExitCode
from kiln.cli.output.views import BRIEF, COLUMNS, amphora_fields, fields, status_fields, table


class List(KilnLister):
    """List the amphorae of this site.

    JSON and YAML always have the columns of --long.
    """

    arguments = (
        argument(
            '--owner', help='List the amphorae with this owner tag instead of the configured one.'
        ),
        flag('--long', 'Print all columns.'),
        TIMEOUT,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            listed = compute.list_amphorae(owner=parsed_args.owner, timeout=parsed_args.timeout)
            self.app.delays.limited_by(listed.deadline)
            now = self.app.clock.time()
            found = [amphora_fields(amphora, now) for amphora in listed.result()]
        everything = (
            parsed_args.long or parsed_args.columns or parsed_args.formatter in ('json', 'yaml')
        )
        return table(COLUMNS if everything else BRIEF, found)


class Show(KilnShow):
    """Show all fields of an amphora."""

    arguments = (AMPHORA, TIMEOUT)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            found = find(compute, parsed_args.amphora, parsed_args.timeout)
            return fields(amphora_fields(found, self.app.clock.time()))


class Status(KilnShow):
    """Show the current state of an amphora."""

    arguments = (AMPHORA, TIMEOUT)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            amphora = find(compute, parsed_args.amphora, parsed_args.timeout)
            status = compute.status(amphora.id, timeout=parsed_args.timeout).result()
        return fields(status_fields(status, amphora.name))


class Console(KilnCommand):
    """Print the console output of an amphora."""

    arguments = (AMPHORA, LINES, TEXT_FORMAT, TIMEOUT)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with self.app.open_backend() as compute:
            amphora = find(compute, parsed_args.amphora, parsed_args.timeout)
            text = compute.console_log(
                amphora.id, lines=parsed_args.lines, timeout=parsed_args.timeout
            ).result()
        data = {'id': amphora.id, 'name': amphora.name, 'console': text}
        self.write_as(parsed_args.formatter, text=text, data=data)


class Check(KilnShow):
    """Check that the backend can be used, and show what it can do.

    It asks once, and reports at once what is wrong.
    """

    arguments = (
        argument(
            '--timeout',
            type=seconds,
            # Told within five seconds, the start of the command included.
            default=4.0,
            metavar='SECONDS',
            help='Time limit of the check (default: 4).',
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with self.app.open_backend() as compute:
            health = compute.check(timeout=parsed_args.timeout).result()
            abilities = sorted(ability.value for ability in compute.capabilities().abilities)
        # A terminal of 100 columns shows all of a table.
        as_table = parsed_args.formatter == 'table'
        shown = textwrap.fill(', '.join(abilities), 75) if as_table else abilities
        detail = textwrap.fill(health.detail, 75) if as_table else health.detail
        if not health.healthy:
            self.status = ExitCode.UNAVAILABLE
        return fields(
            {
                'backend': self.app.backend_name,
                'healthy': health.healthy,
                'detail': detail,
                'latency_s': round(health.latency_s, 6),
                'abilities': shown,
            }
        )
