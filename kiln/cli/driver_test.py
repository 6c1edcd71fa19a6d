"""The command that judges a driver by the conformance kit."""

from __future__ import annotations

import argparse
import inspect
import json
from typing import TYPE_CHECKING

from kiln.cli.base import KilnCommand, add_text_format, pair, seconds
from kiln.cli.exit_codes import ExitCode, UsageError
from kiln.compute_drivers.base import AmphoraComputeDriver
from kiln.wrappers.base import DriverWrapper

if TYPE_CHECKING:
    from kiln.compute import Compute
    from kiln.testing.conformance import BehaviourResult


class Test(KilnCommand):
    """Judge a backend by every promise of the contract; builds and deletes amphorae there.

    Only what this run built is touched, and all of it is deleted again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add('name', metavar='NAME', help='A backend of the configuration, or a driver.')
        add('--guarded', action='store_true', help='Judge it behind all of its guards.')
        add(
            '--select',
            action='append',
            metavar='PATTERN',
            help='Only behaviours of this name or subject, with wildcards; may be repeated.',
        )
        add(
            '--build',
            action='append',
            type=pair,
            default=[],
            metavar='ARGUMENT=VALUE',
            help='What each build needs here, such as amphora_flavor=small or '
            'network_ids=NET1,NET2; may be repeated.',
        )
        add('--port', action='append', default=[], metavar='ID', help='A port to try with.')
        add('--network', action='append', default=[], metavar='ID', help='A network to try with.')
        add(
            '--timeout',
            type=seconds,
            default=600.0,
            metavar='SECONDS',
            help='Seconds within which a change must have its effect (default: 600).',
        )
        add_text_format(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the kit, and print its report."""
        # The kit is for developers: nobody else pays for it.
        from kiln.testing.conformance import run_conformance
        from kiln.testing.conformance.run import behaviours

        if not any(behaviours(parsed_args.select)):
            raise UsageError(f'Cannot find a behaviour called {" or ".join(parsed_args.select)}.')

        def make_driver() -> AmphoraComputeDriver:
            compute = self.app.backends.open(parsed_args.name)
            # A driver without its guards has nothing to close but itself.
            return _Guarded(compute) if parsed_args.guarded else compute.driver

        def progress(result: BehaviourResult) -> None:
            self.app.stderr.write({'passed': '.', 'failed': 'F'}.get(result.outcome.value, '-'))
            self.app.stderr.flush()

        live = parsed_args.formatter == 'text' and self.app.stderr.isatty()
        report = run_conformance(
            make_driver,
            select=parsed_args.select,
            build_arguments=_build_arguments(parsed_args.build),
            port_ids=parsed_args.port,
            network_ids=parsed_args.network,
            timeout_s=parsed_args.timeout,
            progress=progress if live else None,
        )
        if live:
            self.app.stderr.write('\n')
        text = (
            report.render()
            if parsed_args.formatter == 'text'
            else json.dumps(report.to_dict(), indent=2)
        )
        self.app.stdout.write(f'{text}\n')
        self.status = ExitCode.OK if report.ok else ExitCode.UNFORESEEN


class _Guarded(DriverWrapper):
    """A whole backend as the driver of one behaviour: closed, it leaves no thread."""

    def __init__(self, compute: Compute) -> None:
        super().__init__(compute.guarded)
        self._compute = compute

    def close(self) -> None:
        """Close the guards with the driver, once what they clean up is gone."""
        self._compute.close()


_LISTS = ('keys', 'sec_groups', 'network_ids', 'port_ids')


def _build_arguments(pairs: list[tuple[str, str]]) -> dict[str, str | list[str]]:
    known = inspect.signature(AmphoraComputeDriver.build).parameters.keys() - {'self'}
    for name, _ in pairs:
        if name not in known:
            raise UsageError(
                f'Cannot build with {name!r}: choose from {", ".join(sorted(known))}.'
            )
    return {name: value.split(',') if name in _LISTS else value for name, value in pairs}
