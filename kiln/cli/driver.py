"""Commands about drivers, whether they are used or not."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kiln.cli.base import KilnLister, KilnShow, Rows
from kiln.cli.exit_codes import UsageError
from kiln.cli.views import cells, fields
from kiln.loading import InstalledDriver, installed_drivers, load_compute_driver
from kiln.models import AmphoraType


class List(KilnLister):
    """List the drivers that are installed, and those that cannot be used."""

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Ask the installed packages."""
        columns = ('name', 'distribution', 'version', 'origin', 'usable', 'error')
        return columns, [cells(list(_fields(one).values())) for one in installed_drivers()]


class Show(KilnShow):
    """Show what a driver can do, and its options."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('driver', metavar='NAME', help='Name of an installed driver.')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Load its class."""
        driver: Any = load_compute_driver(parsed_args.driver)
        about = {
            name: value
            for one in installed_drivers()
            if one.name == parsed_args.driver
            for name, value in _fields(one).items()
            if name not in ('usable', 'error')
        }
        # A driver may know its limits only once it is configured.
        limits = None if isinstance(driver.limits, property) else driver.limits
        if limits is not None:
            about['types'] = sorted(kind.value for kind in limits.amphora_types)
            about['max_files'] = limits.max_files
            about['max_file_bytes'] = limits.max_file_bytes
            about['max_user_data_bytes'] = limits.max_user_data_bytes
            about['refused_options'] = sorted(limits.refused_options)
        about['options'] = sorted(opt.dest for opt in driver.options)
        return fields(about)


class New(KilnLister):
    """Write the beginnings of a driver package of your own; see the vendor guide."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument('kind', choices=('compute',), help='Kind of driver.')
        parser.add_argument('name', metavar='NAME', help='Name of the driver, such as acme.')
        parser.add_argument(
            '--type',
            choices=[kind.value for kind in AmphoraType],
            default='vm',
            help='Kind of machine that it builds (default: vm).',
        )
        parser.add_argument(
            '--output',
            metavar='DIR',
            default='.',
            help='Directory in which to write kiln-driver-NAME (default: here).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        """Write the files."""
        from kiln.scaffold import new_compute_driver

        target = Path(parsed_args.output)
        if not target.is_dir():
            raise UsageError(f'Cannot write to {target}: it is no directory. Make it first.')
        try:
            files = new_compute_driver(parsed_args.name, parsed_args.type, target)
        except OSError as exc:
            raise UsageError(f'Cannot write to {target}: {exc.strerror}.') from exc
        readme = next(path for path in files if path.name == 'README.rst')
        self.app.say(f'It installs, and its tests pass, as it is; {readme} says how to go on.')
        return ('file',), [[str(path)] for path in files]


def _fields(driver: InstalledDriver) -> dict[str, Any]:
    return {
        'name': driver.name,
        'distribution': driver.distribution,
        'version': driver.version,
        'origin': driver.origin,
        'usable': driver.error is None,
        'error': driver.error,
    }
